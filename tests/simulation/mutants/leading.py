"""Guards of the mandate: who may act, until when, and when another one may."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from defib.clock import Clock
from defib.coordinate.election import Candidate, Record, Sight, Written
from defib.coordinate.leadership import Single
from defib.model.mandate import Mandate
from tests.simulation.faults import LEADER
from tests.simulation.mutants.days import Drawn
from tests.simulation.mutants.switching import Mutant, Swap, always, question, value


def _for_ever(good: Any) -> Any:
    def renewed(mandate: Mandate | None, name: str, sight: Sight) -> Mandate | None:
        return mandate or good(None, name, sight)

    return renewed


def _for_two_leases(good: Any) -> Any:
    def wrote(me: Candidate, sight: Sight, written: Written) -> Sight:
        known: Sight = good(me, sight, written)
        return msgspec.structs.replace(known, ours_until=written.began + 2 * me.terms.lease_seconds)

    return wrote


def _a_fifth(good: Any) -> Any:
    def lasts(me: Candidate, record: Record) -> float:
        seconds: float = good(me, record)
        return seconds / 5

    return lasts


def _to_the_end(_: Any) -> Any:
    return lambda self: self._deed.__await__()


@asynccontextmanager
async def _for_as_long_as_it_takes(_: float, __: Mandate, ___: Clock) -> AsyncIterator[asyncio.Timeout]:
    async with asyncio.timeout(None) as limit:
        yield limit


def _stands_in(_: Single) -> Mandate:
    return Mandate("nobody asked")


CUT = (
    "replica: is cut off",
    "replica: freezes",
    "replica: freezes in a deed",
    "api: requests are lost",
    "api: requests hang",
)


def _led_by_turns(day: Drawn) -> bool:
    """The leader is out of touch for longer than its lease lasts."""
    long = [one for one in day.troubles if one.name in CUT and one.seconds > day.shape.lease_seconds]
    return day.acts and day.has_standby and any(one.whom == LEADER for one in long)


def _frozen_in_a_deed(day: Drawn) -> bool:
    """The leader is frozen in the middle of something that has further steps."""
    frozen = [one for one in day.troubles if one.name == "replica: freezes in a deed" and one.whom == LEADER]
    return (
        day.acts
        and day.has_standby
        and any(one.at < day.begins_at + 30.0 and one.ends > day.begins_at for one in frozen)
    )


LEADING = (
    Mutant(
        name="mandate ignored",
        invariant="I13",
        broken="a replica that has led once acts for ever",
        needs=_led_by_turns,
        swaps=(
            Swap("defib.model.mandate:Mandate.holds", always(True)),
            Swap("defib.coordinate.elector:renewed", _for_ever),
        ),
    ),
    Mutant(
        name="standby acts",
        invariant="I13",
        broken="a replica acts whoever leads",
        needs=lambda day: day.acts and day.has_standby,
        swaps=(Swap("defib.coordinate.leadership:Single.permit", question(_stands_in)),),
    ),
    Mutant(
        name="stops too late",
        invariant="I13",
        broken="a leader that cannot renew its lock stops after two leases",
        needs=_led_by_turns,
        swaps=(Swap("defib.coordinate.election:wrote", _for_two_leases),),
    ),
    Mutant(
        name="lock taken early",
        invariant="I13",
        broken="a standby waits for a fifth of the lease only",
        needs=_led_by_turns,
        swaps=(Swap("defib.coordinate.election:_lasts", _a_fifth),),
    ),
    Mutant(
        name="deed goes on",
        invariant="I13",
        broken="what was begun is carried to its end, however long it takes and whoever leads by then",
        needs=_frozen_in_a_deed,
        swaps=(
            Swap("defib.act.deadline:StepByStep.__await__", _to_the_end),
            Swap("defib.act.deadline:within", value(_for_as_long_as_it_takes)),
            Swap("defib.act.means:Means.forbids", always("")),
        ),
    ),
)
