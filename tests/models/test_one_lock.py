"""I13, in every order of events: never two mandates for one lock, and whatever has happened, somebody can lead again."""

import os
from datetime import datetime

import msgspec
import pytest

from defib.coordinate import election
from defib.coordinate.election import Candidate, Record, Sight, Step, Take, Terms, Written, problems_of, taken_by, wrote
from tests.models.explore import Explored, explore
from tests.models.one_lock import TERMS, Way, model

TROUBLES = int(os.environ.get("TROUBLES", "0"))  # so many more than usual; one more takes minutes

change = msgspec.structs.replace


def told(way: Way) -> Explored:
    found = explore(model(way), most=20_000_000)
    print(f"one lock: {found}")  # noqa: T201  how much was tried
    return found


def test_the_terms_of_the_model_are_ones_that_defib_accepts() -> None:
    assert problems_of(TERMS) == ()


@pytest.mark.timeout(0)  # as many troubles as somebody asks for
def test_never_two_mandates_and_somebody_can_always_lead() -> None:
    found = told(Way(troubles=1 + TROUBLES))
    assert found.wrong == "", str(found)
    assert found.states > 50_000


@pytest.mark.parametrize("way", [Way(is_deleted=True, troubles=0), Way(names=("a", "a"), troubles=0)])
def test_nor_when_the_lock_is_deleted_or_both_have_one_name(way: Way) -> None:
    found = told(way)
    assert found.wrong == "", str(found)
    assert found.states > 5_000


# Mistakes.


def from_the_answer(me: Candidate, sight: Sight, written: Written) -> Sight:
    return wrote(me, sight, change(written, began=written.ended))


def by_the_name(me: Candidate, sight: Sight, monotonic: float, now: datetime) -> Step:
    record = sight.record
    if sight.ours_until is None and not sight.is_stale and record is not None and record.holder == me.name:
        return Take(taken_by(me, record, now), sight.version)
    return election.next_step(me, sight, monotonic, now)


def a_tick_early(me: Candidate, sight: Sight, monotonic: float, now: datetime) -> Step:
    """Whoever waits for the lock counts one tick too many."""
    return election.next_step(me, sight, monotonic + (1.0 if sight.ours_until is None else 0.0), now)


def never_another(me: Candidate, sight: Sight, monotonic: float, now: datetime) -> Step:
    """Only what is free is taken."""
    is_taken = sight.record is not None and sight.record.holder != "" and sight.ours_until is None
    return election.next_step(change(me, is_willing=not is_taken), sight, monotonic, now)


def vanished_is_free(sight: Sight, record: Record | None, version: str | None, monotonic: float) -> Sight:
    return change(election.saw(sight, record, version, monotonic), vanished=None)


TWO, NOBODY = "two replicas hold a mandate", "nothing good can be reached"
WRONG: dict[str, tuple[Way, str]] = {
    "the mandate is ignored": (Way(holds=lambda _, __: True, troubles=0), TWO),
    "the mandate lasts a tick longer": (Way(holds=lambda until, clock: clock <= until, troubles=0), TWO),
    "others wait a tick less": (Way(next_step=a_tick_early, troubles=0), TWO),
    "the mandate lasts as long as others wait": (
        Way(terms=Terms(lease_seconds=2.0, renew_seconds=2.0, retry_seconds=1.0), troubles=0),
        TWO,
    ),
    "it is counted from when the answer came": (Way(wrote=from_the_answer, troubles=0), TWO),
    "clocks are further apart than lease and renew deadline": (Way(apart=2, troubles=0), TWO),
    "the server does not compare versions": (Way(compares=False, troubles=0), TWO),
    "a name is believed": (Way(next_step=by_the_name, names=("a", "a"), troubles=0), TWO),
    "a lock that vanished is taken at once": (Way(saw=vanished_is_free, is_deleted=True, troubles=0), TWO),
    "what another had is never taken": (Way(next_step=never_another, troubles=1), NOBODY),
}


@pytest.mark.timeout(120)  # on a busy machine
@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_would_be_noticed(mistake: str) -> None:
    way, expected = WRONG[mistake]
    assert expected in told(way).wrong
