"""I1 and I8, in every order of events: nothing is freed of a machine that is on, and none that we switched off is forgotten.

And whatever has happened, there is a way to the end, or to a person.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from defib.decide.fencing.case import Case
from defib.decide.fencing.table import TRANSITIONS, Row
from defib.decide.fencing.work import work
from defib.model.action import Action
from defib.model.incident import Phase, PowerReading
from defib.model.power import Look, Reading
from tests.models.explore import Explored, explore
from tests.models.machine_room import BEGINS, HUNG, OFF, ON, POLICY, WELL, Way, World
from tests.models.one_machine import model
from tests.unit.decide.fencing.cases import PROOF, SEEN_ON

TROUBLES = int(os.environ.get("TROUBLES", "0"))  # so many more than usual; one more takes minutes

change = msgspec.structs.replace


def told(way: Way) -> Explored:
    found = explore(model(way), most=20_000_000)
    print(f"one machine: {found}")  # noqa: T201  how much was tried
    return found


def reached(way: Way) -> set[Phase]:
    """The phases that are met on the way."""
    phases: set[Phase] = set()

    def look(world: World) -> str:
        phases.add(world.record.phase)
        return ""

    explore(change(model(way), wrong=look))
    return phases


@pytest.mark.timeout(120)
def test_all_phases_are_met_but_that_of_replacing() -> None:
    twice = Way(bmcs=("well",), begins=(HUNG,), policy=change(POLICY, attempts=2), troubles=0)
    withdrawn = Way(bmcs=("says off",), begins=(HUNG,))
    assert reached(twice) | reached(withdrawn) == set(Phase) - {Phase.REPLACING}


@pytest.mark.timeout(0)  # as many troubles as somebody asks for
@pytest.mark.parametrize("bmc", ["well", "says off"])
def test_whatever_goes_wrong_once(bmc: str) -> None:
    found = told(Way(bmcs=(bmc,), begins=(HUNG,) if TROUBLES == 0 else BEGINS, troubles=1 + TROUBLES))
    assert found.wrong == "", str(found)
    assert found.states > 5_000


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "way",
    [Way(policy=change(POLICY, attempts=2), troubles=TROUBLES), Way(slow=1, troubles=TROUBLES)],
    ids=["two attempts", "slow"],
)
def test_whatever_a_bmc_says_and_however_the_machine_was(way: Way) -> None:
    found = told(way)
    assert found.wrong == "", str(found)
    assert found.states > 10_000


@pytest.mark.timeout(0)
@pytest.mark.parametrize("bmc", ["well", "says on", "ignores", "silent"])
def test_a_record_from_a_backup_frees_nothing_of_a_machine_that_is_on(bmc: str) -> None:
    found = told(Way(bmcs=(bmc,), begins=(HUNG, WELL), is_restored=True, troubles=1 + TROUBLES))
    assert found.wrong == "", str(found)
    assert found.states > 500


# Mistakes.


def with_row(source: Phase, name: str, **changes: Any) -> tuple[Row, ...]:
    rows = tuple(change(row, **changes) if (row.source, row.name) == (source, name) else row for row in TRANSITIONS)
    assert rows != TRANSITIONS, f"there is no row {name!r} of {source}"
    return rows


def without_rows(source: Phase, *names: str) -> tuple[Row, ...]:
    return tuple(row for row in TRANSITIONS if row.source is not source or row.name not in names)


def proved_when(when: Callable[[Case], bool]) -> tuple[Row, ...]:
    return with_row(
        Phase.POWERING_OFF, "it is proved to be down", when=when, also=lambda _: {"proof": PROOF, "tainted": True}
    )


def believing(case: Case) -> tuple[Action, ...]:
    """As if what is written down need not be held against the machine."""
    just_now = Look(Reading(OFF, case.cluster.now), case.heartbeat)
    is_freeing = case.status.phase is Phase.FREEING
    return work(change(case, seen=change(case.seen, looks=(*case.seen.looks, just_now))) if is_freeing else case)


def believed(_: Case) -> dict[str, PowerReading]:
    return {"seen_on": SEEN_ON}


def reads_on_once(case: Case) -> bool:
    """As if an off could not be on its way any more."""
    return case.is_clean and (not case.was_commanded or (case.was_sent(ON) is not None and case.reads is ON))


FREED, FORGOTTEN, STUCK = "freed while it was on", "nobody cares any more", "nothing good can be reached"
TIME_IS_UP = ("the time is up", "the time is up, and another attempt is left")
ONCE = Way(bmcs=("well",), begins=(HUNG,), troubles=1)
ACCEPTED = proved_when(lambda case: case.was_sent(OFF) is not None)
WRONG: dict[str, tuple[Way, str]] = {
    "accepted is taken for off, and not looked at again": (
        change(ONCE, rows=ACCEPTED, works=believing, troubles=0),
        FREED,
    ),
    "a record from a backup is believed": (
        Way(bmcs=("well",), begins=(HUNG,), is_restored=True, works=believing, troubles=0),
        FREED,
    ),
    "a BMC is believed that was never seen to say on": (
        Way(
            rows=with_row(Phase.LOOKING, "it is off already", target=Phase.POWERING_OFF, also=believed),
            bmcs=("says off",),
            troubles=0,
        ),
        FREED,
    ),
    "what is off already is proved by one reading": (
        Way(
            rows=with_row(
                Phase.LOOKING,
                "it is off already",
                target=Phase.FREEING,
                also=lambda _: {"proof": PROOF, "tainted": True},
            ),
            bmcs=("says off",),
            troubles=0,
        ),
        FREED,
    ),
    "what is cancelled is over at once": (
        change(ONCE, rows=with_row(Phase.CANCELLING, "nothing of ours is left", when=lambda case: case.is_clean)),
        FORGOTTEN,
    ),
    "an off that is on its way is not waited for": (
        change(ONCE, rows=with_row(Phase.CANCELLING, "nothing of ours is left", when=reads_on_once)),
        FORGOTTEN,
    ),
    "an off may take longer than is waited for": (change(ONCE, late=3), FORGOTTEN),
    "a node that is ready is back, booted or not": (
        change(
            ONCE,
            begins=(WELL,),
            rows=with_row(Phase.CANCELLING, "the node is back", when=lambda case: case.is_alive),
        ),
        FORGOTTEN,
    ),
    "the mandate is not looked at before a command is sent": (change(ONCE, needs_mandate=False), FORGOTTEN),
    "versions are not compared": (change(ONCE, compares=False), FORGOTTEN),
    "a machine that does not go off is waited for": (
        Way(rows=without_rows(Phase.POWERING_OFF, *TIME_IS_UP), bmcs=("ignores",), begins=(HUNG,), troubles=0),
        STUCK,
    ),
    "a BMC that fails its test is tested for ever": (
        Way(rows=without_rows(Phase.TESTING, *TIME_IS_UP), bmcs=("says off",), begins=(HUNG,), troubles=0),
        STUCK,
    ),
}


@pytest.mark.timeout(120)  # on a busy machine
@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_would_be_noticed(mistake: str) -> None:
    way, expected = WRONG[mistake]
    assert expected in told(way).wrong


def test_the_last_look_before_workloads_are_freed_makes_up_for_a_proof_that_is_none() -> None:
    """Accepted is taken for off, and still nothing is freed while it is on: the machine itself is asked once more."""
    assert told(change(ONCE, rows=ACCEPTED, troubles=0)).wrong == ""
