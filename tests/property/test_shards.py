"""SH-03 to SH-05: no bucket is ever two replicas', none stays nobody's, and none changes hands in the middle of work.

Each mistake that sharing could make is made here on purpose, so that it is known that the model would notice.
"""

import os
from datetime import datetime

import msgspec
import pytest

from defib.coordinate import seats
from defib.coordinate.election import Candidate, Sight, Step, Take, Terms, taken_by
from defib.coordinate.seats import Outlook, Seat
from tests.property.shards_model import History, Way, history

HISTORIES = int(os.environ.get("HISTORIES", "10000"))  # `make soak` asks for more
PARTS = 8  # so that several can be worked through side by side
LEASES = 2.0


def wrong_with(told: History) -> list[str]:
    late = [f"a bucket was nobody's for {told.owned_after:.2f} leases"] if told.owned_after > LEASES else []
    return [*told.wrong, *told.unsettled, *late]


@pytest.mark.timeout(0)  # as many as somebody asks for
@pytest.mark.parametrize("part", range(PARTS))
def test_sh_03_sh_04_sh_05_never_two_holders_and_every_bucket_owned_within_two_leases(part: int) -> None:
    seeds = range(part, HISTORIES, PARTS)
    wrong = {seed: found for seed in seeds if (found := wrong_with(history(seed)))}
    assert wrong == {}, "the numbers are the seeds of tests/property/shards_model.py"


def test_the_histories_are_worth_their_name() -> None:
    """Buckets move about, in order and otherwise."""
    told = [history(seed) for seed in range(200)]
    assert sum(one.taken for one in told) > 8 * len(told)
    assert sum(one.handed_over for one in told) > len(told)


# Mistakes.


def takes_what_it_should_have(me: Candidate, seen: Outlook, seat: Seat, monotonic: float, now: datetime) -> Step:
    """Whoever is preferred needs no permission: that others agree is a belief."""
    record = seat.sight.record
    if seen.wanted.get(seat.number) == me.name and not seat.is_ours and not seat.sight.is_stale and record is not None:
        return Take(taken_by(me, record, now), seat.sight.version)
    return seats.step_for(me, seen, seat, monotonic, now)


def waits_half_a_lease(me: Candidate, seen: Outlook, seat: Seat, monotonic: float, now: datetime) -> Step:
    since = seat.sight.since
    early = seat if since is None else msgspec.structs.replace(seat, sight=_older(seat.sight, me.terms))
    return seats.step_for(me, seen, early if not seat.is_ours else seat, monotonic, now)


def _older(sight: Sight, terms: Terms) -> Sight:
    return msgspec.structs.replace(sight, since=(sight.since or 0.0) - terms.lease_seconds / 2)


def takes_only_its_own(me: Candidate, seen: Outlook, seat: Seat, monotonic: float, now: datetime) -> Step:
    """A replica that is there and takes nothing leaves its buckets to nobody."""
    if me.name.endswith("2"):
        seen = msgspec.structs.replace(seen, members=())
    return seats.step_for(me, seen, msgspec.structs.replace(seat, neglected=""), monotonic, now)


def never_gives(me: Candidate, seen: Outlook, seat: Seat, monotonic: float) -> Seat:
    return msgspec.structs.replace(seats.looked_at(me, seen, seat, monotonic), is_leaving=False)


WRONG: dict[str, Way] = {
    "a bucket is taken from whoever has it": Way(step_for=takes_what_it_should_have),
    "a bucket is taken before its lease is over": Way(step_for=waits_half_a_lease),
    "a bucket is let go in the middle of work": Way(drains=False),
    "a bucket that nobody wants stays nobody's": Way(step_for=takes_only_its_own),
    "nothing is ever handed over": Way(looked_at=never_gives),
    "a holder believes for longer than others wait": Way(terms=(Terms(lease_seconds=15.0, renew_seconds=20.0),)),
    "clocks differ by more than lease and renew deadline": Way(rates=(0.5, 1.5)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_noticed(mistake: str) -> None:
    assert any(wrong_with(history(seed, WRONG[mistake])) for seed in range(1000))
