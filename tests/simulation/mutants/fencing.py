"""Guards of a power cycle: the proof, the way back, the deadlines and the limits."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.fencing.case import Case
from defib.decide.fencing.proofs import written
from defib.decide.fencing.table import Row
from defib.model.incident import Grade, Outcome, Phase, Proof
from defib.model.power import PowerState
from tests.simulation.faults import FLAWS
from tests.simulation.mutants.days import Drawn, switching
from tests.simulation.mutants.switching import Mutant, Swap, always, question, value


def _believed_at_once(_: Any) -> Any:
    def by_power(case: Case) -> Proof | None:
        if case.was_sent(PowerState.OFF) is None:
            return None
        return Proof(grade=Grade.POWER, at=case.cluster.now, how="it was told to be off")

    return by_power


def _off_is_off(_: Any) -> Any:
    """Whether it was ever seen on does not matter."""

    def by_power(case: Case) -> Proof | None:
        sent = case.was_sent(PowerState.OFF)
        pair = case.twice(PowerState.OFF, sent) if sent is not None else None
        if pair is None:
            return None
        how = "its power was read as off twice"
        return Proof(grade=Grade.POWER, at=case.cluster.now, how=how, readings=[written(look) for look in pair])

    return by_power


def _rows(change: Callable[[Row], Row]) -> Callable[[Any], Any]:
    return lambda good: tuple(change(row) for row in good)


def _untested(row: Row) -> Row:
    is_it = row.source is Phase.LOOKING and row.target is Phase.TESTING
    return msgspec.structs.replace(row, target=Phase.POWERING_OFF) if is_it else row


def _for_ever(row: Row) -> Row:
    is_it = row.target is Phase.RESTING
    return msgspec.structs.replace(row, when=lambda case: case.time_is_up) if is_it else row


def _never_back(row: Row) -> Row:
    is_it = row.source is Phase.FREEING and row.target is Phase.POWERING_ON
    how = {"target": Phase.CLOSED, "also": lambda _: {"outcome": Outcome.RECOVERED}}
    return msgspec.structs.replace(row, **how) if is_it else row


def _every_second(case: Case, power: PowerState) -> datetime:
    sent = case.was_sent(power)
    return case.cluster.now if sent is None else sent + timedelta(seconds=1)


def _fivefold(good: Any) -> Any:
    def limit(case: Case) -> timedelta | None:
        usual: timedelta | None = good.fget(case)
        return None if usual is None else 5 * usual

    return property(limit)


def _since_its_time_began(good: Any) -> Any:
    def was_sent(case: Case, power: PowerState) -> datetime | None:
        sent: datetime | None = good(case, power)
        return sent if sent is not None and sent >= case.since else None

    return was_sent


def _obeyed_late(day: Drawn) -> bool:
    flaws = (f"bmc: {what}" for what in ("says it is off", "says it is on", *FLAWS))
    return day.switches and day.has_for_ill(*flaws)


TABLE = "defib.decide.fencing.table:TRANSITIONS"
FENCING = (
    Mutant(
        name="proof not awaited",
        invariant="I1",
        broken="a machine counts as down as soon as it was told to be, and is not looked at again",
        needs=lambda day: day.switches and day.has_for_ill("bmc: ignores commands", "bmc: says it is on"),
        swaps=(
            Swap("defib.decide.fencing.proofs:_by_power", _believed_at_once),
            Swap("defib.decide.fencing.proofs:is_still_off", always(True)),
            Swap("defib.decide.fencing.proofs:is_disproved", always(False)),
        ),
    ),
    Mutant(
        name="liar believed",
        invariant="I1",
        broken="a BMC that never said anything but off proves that its machine is down",
        needs=lambda day: day.switches and bool(day.running) and day.has_for_ill("bmc: says it is off"),
        swaps=(Swap("defib.decide.fencing.proofs:_by_power", _off_is_off), Swap(TABLE, _rows(_untested))),
    ),
    Mutant(
        name="not switched on again",
        invariant="I8",
        broken="an incident is closed when the workloads are free, and the machine stays off",
        needs=switching,
        swaps=(Swap(TABLE, _rows(_never_back)),),
    ),
    Mutant(
        name="no deadline",
        invariant="I10",
        broken="no phase of a power cycle ever takes too long",
        needs=_obeyed_late,
        swaps=(Swap("defib.decide.fencing.case:Case.time_is_up", question(lambda _: False)),),
    ),
    Mutant(
        name="deadline five times as late",
        invariant="I10",
        broken="phases of a power cycle may last five times as long as they say",
        needs=_obeyed_late,
        swaps=(Swap("defib.decide.fencing.case:Case.limit", _fivefold),),
    ),
    Mutant(
        name="attempts without end",
        invariant="I10",
        broken="a power cycle that fails is tried again for ever, and nobody is told",
        needs=lambda day: _obeyed_late(day) and day.shape.attempts == 1,
        swaps=(Swap(TABLE, _rows(_for_ever)),),
    ),
    Mutant(
        name="commands every second",
        invariant="I10",
        broken="a machine that does not obey is told again each second",
        needs=_obeyed_late,
        swaps=(Swap("defib.decide.fencing.work:next_command", value(_every_second)),),
    ),
    Mutant(
        name="forgets what it sent",
        invariant="I10",
        broken="what was sent does not count any more when the time of a phase begins anew, and is sent once more",
        needs=switching,
        swaps=(Swap("defib.decide.fencing.case:Case.was_sent", _since_its_time_began),),
    ),
)
