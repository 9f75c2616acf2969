"""Each rule of the election on its own; what they promise together, tests/property/test_election.py tries out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from defib.coordinate.election import (
    ATTEMPTS_MAX,
    FREE,
    LONGEST_SECONDS,
    Candidate,
    Look,
    Record,
    Sight,
    StepDown,
    Take,
    Terms,
    Wait,
    Written,
    failed,
    lost,
    next_step,
    problems_of,
    released,
    saw,
    stepped_down,
    taken_by,
    trying,
    wrote,
)

NOW = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
ME = Candidate("me")
LEASE, RENEW, RETRY = 15.0, 10.0, 2.0


def another(**changes: Any) -> Record:
    record = Record(holder="another", lease_seconds=LEASE, acquired=NOW, renewed=NOW, transitions=3)
    return msgspec.structs.replace(record, **changes)


def seen(record: Record | None, version: str | None = "1", at: float = 0.0, before: Sight | None = None) -> Sight:
    return saw(before or Sight(), record, version, at)


def leading(began: float = 0.0, ended: float | None = None) -> Sight:
    """Since a write that was begun then."""
    take = next_step(ME, seen(None, None, began), began, NOW)
    assert isinstance(take, Take)
    return wrote(ME, trying(Sight(), take), Written(take.record, "1", began, began if ended is None else ended))


def test_le_03_the_defaults_are_15_10_and_2_seconds() -> None:
    assert Terms() == Terms(lease_seconds=15, renew_seconds=10, retry_seconds=2)
    assert problems_of(Terms()) == ()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"lease_seconds": 10}, "10s must be more than --renew-deadline"),
        ({"lease_seconds": 9}, "9s must be more than --renew-deadline"),
        ({"renew_seconds": 2.4}, "1.2 times --retry-period"),
        ({"retry_seconds": 9}, "1.2 times --retry-period"),
        ({"lease_seconds": 0}, "--lease-duration: 0s must be more than 0"),
        ({"renew_seconds": 0}, "--renew-deadline: 0s must be more than 0"),
        ({"retry_seconds": 0}, "--retry-period: 0s must be more than 0"),
        ({"retry_seconds": -1}, "--retry-period: -1s must be more than 0"),
    ],
)
def test_le_03_terms_on_which_nobody_could_lead_are_refused(changes: dict[str, float], word: str) -> None:
    assert any(word in one for one in problems_of(msgspec.structs.replace(Terms(), **changes)))


def test_whoever_knows_nothing_looks_first() -> None:
    assert next_step(ME, Sight(), 0.0, NOW) == Look()


def test_a_first_start_does_not_wait() -> None:
    step = next_step(ME, seen(None, None), 0.0, NOW)
    assert step == Take(Record(holder="me", lease_seconds=LEASE, acquired=NOW, renewed=NOW), None)


def test_le_05_what_nobody_holds_is_taken_at_once() -> None:
    step = next_step(ME, seen(another(holder="")), 0.0, NOW)
    assert isinstance(step, Take)
    assert (step.version, step.record.holder) == ("1", "me")


def test_what_another_holds_is_looked_at_every_retry_period() -> None:
    sight = seen(another())
    assert next_step(ME, sight, 0.0, NOW) == Wait(RETRY)
    assert next_step(ME, sight, RETRY, NOW) == Look()


@pytest.mark.parametrize("hours", [-48, 0, 48])
def test_le_04_a_lock_is_taken_when_it_was_seen_unchanged_for_a_lease_whatever_the_time_of_day(hours: int) -> None:
    sight = seen(another(renewed=NOW + timedelta(hours=hours)))
    sight = seen(sight.record, at=14.5, before=sight)
    assert next_step(ME, sight, 14.9, NOW) == Wait(LEASE), "at that very moment, and not with the next look"
    assert isinstance(next_step(ME, sight, LEASE, NOW), Take)


def test_le_04_every_change_begins_the_lease_anew() -> None:
    sight = seen(another(), "2", 14.0, seen(another()))
    assert not isinstance(next_step(ME, sight, 14.0 + LEASE - 0.1, NOW), Take)
    assert isinstance(next_step(ME, sight, 14.0 + LEASE, NOW), Take)


@pytest.mark.parametrize(("says", "waits"), [(0.0, LEASE), (1.0, LEASE), (40.0, 40.0), (1e8, LONGEST_SECONDS)])
def test_a_lease_lasts_as_long_as_it_says_within_reason(says: float, waits: float) -> None:
    """Somebody who writes a short one into a leader's lock has not stopped the leader."""
    sight = seen(another(lease_seconds=says))
    sight = seen(sight.record, at=waits - 1, before=sight)
    assert next_step(ME, sight, waits - 0.1, NOW) == Wait(waits)
    assert isinstance(next_step(ME, sight, waits, NOW), Take)


def test_a_name_proves_nothing() -> None:
    """Another replica was given the same one, or we have just been restarted."""
    assert next_step(ME, seen(another(holder="me")), 0.0, NOW) == Wait(RETRY)


def test_what_we_wrote_without_hearing_an_answer_is_ours() -> None:
    take = next_step(ME, seen(another(holder="")), 0.0, NOW)
    assert isinstance(take, Take)
    sight = failed(trying(seen(another(holder="")), take), 0.0)
    assert next_step(ME, sight, 0.0, NOW) == Wait(RETRY)
    sight = seen(take.record, "2", RETRY, sight)
    assert isinstance(next_step(ME, sight, RETRY, NOW), Take)


def test_what_we_tried_can_no_longer_come_true_when_somebody_else_has_written() -> None:
    """Whoever puts the old text back does not give us the lock."""
    take = next_step(ME, seen(another(holder="")), 0.0, NOW)
    assert isinstance(take, Take)
    sight = seen(another(), "2", 1.0, failed(trying(seen(another(holder="")), take), 0.0))
    sight = seen(take.record, "3", 2.0, sight)
    assert next_step(ME, sight, 2.0, NOW) == Wait(2.0 + RETRY)


def test_a_write_that_lost_was_not_made() -> None:
    take = next_step(ME, seen(another(holder="")), 0.0, NOW)
    assert isinstance(take, Take)
    sight = lost(trying(seen(another(holder="")), take), take, 0.0)
    assert sight.attempts == ()
    assert next_step(ME, sight, RETRY, NOW) == Look()


@pytest.mark.parametrize("held", [another(), another(holder="")])
def test_a_lock_that_vanished_is_left_alone_for_a_lease(held: Record) -> None:
    """Also one that nobody held when we last looked: somebody may have taken it since."""
    sight = seen(None, None, 1.0, seen(held))
    sight = seen(None, None, LEASE, sight)
    assert next_step(ME, sight, 1.0 + LEASE - 0.1, NOW) == Wait(1.0 + LEASE)
    assert isinstance(next_step(ME, sight, 1.0 + LEASE, NOW), Take)


def test_our_own_lock_that_vanished_while_we_led_is_made_anew_at_once() -> None:
    sight = seen(None, None, 3.0, leading())
    assert next_step(ME, sight, 3.0, NOW) == StepDown("the lock was taken away from us")
    assert next_step(ME, stepped_down(sight), 3.0, NOW) == Take(taken_by(ME, None, NOW), None)


def test_our_own_lock_that_vanished_after_our_time_is_left_alone_like_any_other() -> None:
    """Another one may have had it in between."""
    sight = seen(None, None, RENEW, stepped_down(leading()))
    assert not isinstance(next_step(ME, sight, RENEW + LEASE - 0.1, NOW), Take)
    assert isinstance(next_step(ME, sight, RENEW + LEASE, NOW), Take)


def test_a_leader_renews_every_retry_period_and_keeps_when_it_acquired() -> None:
    sight = leading()
    assert next_step(ME, sight, 0.0, NOW) == Wait(RETRY)
    step = next_step(ME, sight, RETRY, NOW + timedelta(seconds=2))
    assert isinstance(step, Take)
    assert (step.record.acquired, step.record.renewed) == (NOW, NOW + timedelta(seconds=2))


def test_le_06_transitions_grow_with_the_holder_and_not_with_a_renewal() -> None:
    mine = taken_by(ME, another(), NOW)
    assert mine.transitions == 4
    assert taken_by(ME, mine, NOW).transitions == 4
    assert taken_by(ME, released(mine, NOW), NOW).transitions == 5


def test_le_08_a_mandate_counts_from_when_the_renewal_was_begun() -> None:
    sight = leading(began=1.0, ended=5.0)
    assert sight.ours_until == 1.0 + RENEW
    sight = failed(sight, 3.0)
    assert next_step(ME, sight, 1.0 + RENEW, NOW) == StepDown("the lock could not be renewed for 10 s")


def test_a_leader_whose_request_hung_looks_at_once() -> None:
    """It was begun at 2 s and given up at 7 s: there is no time to lose."""
    assert next_step(ME, failed(leading(), 2.0), 7.0, NOW) == Look()


def test_a_leader_waits_never_beyond_its_own_time() -> None:
    assert next_step(ME, failed(leading(), 9.0), 9.5, NOW) == Wait(RENEW)


@pytest.mark.parametrize(
    ("intruder", "why"),
    [
        (another(), "another has taken the lock"),
        (another(holder=""), "the lock was taken away from us"),
        (another(holder="me"), "somebody else writes the lock in our name"),
        (another(holder="me", transitions=0, renewed=None), "somebody else writes the lock in our name"),
    ],
)
def test_a_leader_steps_down_when_somebody_else_has_written_in_whichever_name(intruder: Record, why: str) -> None:
    sight = seen(intruder, "2", 3.0, failed(leading(), 2.0))
    assert next_step(ME, sight, 3.0, NOW) == StepDown(why)


def test_a_leader_knows_its_own_hand_however_often_it_has_failed_to_write_since() -> None:
    patient = Candidate("me", Terms(lease_seconds=70, renew_seconds=60))
    sight = msgspec.structs.replace(leading(), ours_until=60.0)
    for number in range(1, 20):
        moment = 2.0 * number
        take = next_step(patient, sight, moment, NOW + timedelta(seconds=moment))
        assert isinstance(take, Take)
        sight = seen(sight.record, sight.version, moment, failed(trying(sight, take), moment))
    assert len(sight.attempts) <= ATTEMPTS_MAX


def test_a_leader_goes_on_when_somebody_has_changed_something_else_about_the_lock() -> None:
    sight = leading()
    sight = seen(sight.record, "2", 3.0, failed(sight, 2.0))
    step = next_step(ME, sight, 3.0, NOW)
    assert isinstance(step, Take)
    assert step.version == "2"


def test_a_leader_knows_its_own_record_where_a_lock_keeps_whole_seconds() -> None:
    sight = leading()
    assert sight.record is not None
    cut = msgspec.structs.replace(sight.record, renewed=NOW.replace(microsecond=0))
    assert isinstance(next_step(ME, seen(cut, "2", 3.0, failed(sight, 2.0)), 3.0, NOW), Take)
    # Whoever does not lead has no reason to be so generous.
    assert not isinstance(next_step(ME, stepped_down(seen(cut, "2", 3.0, sight)), 3.0, NOW), Take)


def test_who_has_stepped_down_and_finds_its_own_record_goes_on_with_it() -> None:
    sight = stepped_down(leading())
    assert isinstance(next_step(ME, seen(sight.record, "1", 30.0, sight), 30.0, NOW), Take)


def test_who_does_not_want_to_lead_only_looks() -> None:
    shy = Candidate("me", is_willing=False)
    assert next_step(shy, seen(None, None), 0.0, NOW) == Wait(RETRY)
    assert next_step(shy, seen(another(holder="")), RETRY, NOW) == Look()
    assert isinstance(next_step(shy, leading(), RETRY, NOW), Take), "who leads goes on until it is released"


def test_what_is_released_is_nobodys() -> None:
    later = NOW + timedelta(minutes=1)
    gone = released(another(), later)
    assert gone == Record(holder="", lease_seconds=1.0, acquired=later, renewed=later, transitions=3)
    assert FREE.holder == ""
