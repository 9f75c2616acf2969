"""At no moment do two replicas hold a mandate for one lock; and when all is well again, one of them leads.

Each mistake that an election could make is made here on purpose, so that it is known that the model would notice.
"""

import os
from datetime import datetime

import msgspec
import pytest

from defib.coordinate import election
from defib.coordinate.election import Candidate, Record, Sight, Step, Take, Terms, taken_by
from tests.property.election_model import SLOWEST, TERMS, History, Way, history

HISTORIES = int(os.environ.get("HISTORIES", "10000"))  # `make soak` asks for more
PARTS = 4  # so that several can be worked through side by side
TWO_LEASES = 2 * TERMS.lease_seconds / SLOWEST  # as the slowest clock counts them


def wrong_with(told: History) -> list[str]:
    late = told.nobody_led_until > TWO_LEASES
    return [*told.overlaps, *([f"nobody led for {told.nobody_led_until:.1f} s"] if late else [])]


@pytest.mark.timeout(0)  # as many as somebody asks for
@pytest.mark.parametrize("part", range(PARTS))
def test_never_two_mandates_and_one_leader_within_two_leases(part: int) -> None:
    seeds = range(part, HISTORIES, PARTS)
    wrong = {seed: found for seed in seeds if (found := wrong_with(history(seed)))}
    assert wrong == {}, "the numbers are the seeds of tests/property/election_model.py"


def test_the_histories_are_worth_their_name() -> None:
    """Leadership moves about, and what the model excuses is rare."""
    told = [history(seed) for seed in range(400)]
    assert sum(one.terms for one in told) > 3 * len(told)
    assert sum(one.excused > 0 for one in told) < len(told) / 20


# Mistakes.


def by_the_wall_clock(me: Candidate, sight: Sight, monotonic: float, now: datetime) -> Step:
    """As long as all clocks show the same time, nothing is wrong with it."""
    record = sight.record
    if sight.ours_until is None and not sight.is_stale and record is not None and record.renewed is not None:
        if (now - record.renewed).total_seconds() > record.lease_seconds:
            return Take(taken_by(me, record, now), sight.version)
        me = msgspec.structs.replace(me, is_willing=False)
    return election.next_step(me, sight, monotonic, now)


def by_the_name(me: Candidate, sight: Sight, monotonic: float, now: datetime) -> Step:
    """What has our name on it is ours."""
    record = sight.record
    if sight.ours_until is None and not sight.is_stale and record is not None and record.holder == me.name:
        return Take(taken_by(me, record, now), sight.version)
    return election.next_step(me, sight, monotonic, now)


def vanished_is_free(sight: Sight, record: Record | None, version: str | None, monotonic: float) -> Sight:
    return msgspec.structs.replace(election.saw(sight, record, version, monotonic), vanished=None)


def only_anothers_is_waited_for(sight: Sight, record: Record | None, version: str | None, monotonic: float) -> Sight:
    """What vanished was nobody's, or our own, when we last looked. Since then it may have been another's."""
    before, now = sight.record, election.saw(sight, record, version, monotonic)
    is_anothers = before is None or (before.holder and not election.is_by_our_hand(before, sight))
    return now if is_anothers else msgspec.structs.replace(now, vanished=None)


def as_long_as_it_says(sight: Sight, record: Record | None, version: str | None, monotonic: float) -> Sight:
    """A lease of no length is over at once, whoever wrote it."""
    is_short = record is not None and record.holder and record.lease_seconds < 1
    return election.saw(sight, election.FREE if is_short else record, version, monotonic)


WRONG: dict[str, Way] = {
    "a leader believes for longer than others wait": Way(terms=Terms(lease_seconds=15.0, renew_seconds=20.0)),
    "clocks differ by more than lease and renew deadline": Way(rates=(0.5, 1.5)),
    "the time in the lock is believed": Way(next_step=by_the_wall_clock),
    "a name is believed": Way(next_step=by_the_name),
    "a lock that vanished is taken at once": Way(saw=vanished_is_free),
    "a lock that vanished was not another's": Way(saw=only_anothers_is_waited_for),
    "a stranger's short lease is believed": Way(saw=as_long_as_it_says),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_would_be_noticed(mistake: str) -> None:
    assert any(history(seed, WRONG[mistake]).overlaps for seed in range(1500))
