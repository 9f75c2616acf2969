"""Which buckets a replica takes, keeps and gives away, from what it has seen."""

from datetime import UTC, datetime

import pytest

from defib.coordinate.election import Candidate, Look, Record, Sight, Take, Wait, Written, saw, wrote
from defib.coordinate.seats import Member, Outlook, Seat, looked_at, met, outlook, step_for

ME = Candidate("me")
LEASE = ME.terms.lease_seconds
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def held_by(name: str) -> Record:
    return Record(holder=name, lease_seconds=LEASE)


def a_member(name: str, *, since: float, seen: float) -> Member:
    return Member(saw(Sight(), held_by(name), "1", seen), since)


def a_seat(number: int = 0, *, holder: str = "", seen: float = 0.0) -> Seat:
    return Seat(number, saw(Sight(), held_by(holder) if holder else None, "1" if holder else None, seen))


def ours(number: int = 0, *, at: float = 0.0) -> Seat:
    return Seat(number, wrote(ME, Sight(), Written(held_by("me"), "1", at, at)))


def wanting(**wanted: int) -> Outlook:
    """Who should have which bucket. All of them have been here for long."""
    names = tuple(sorted({"me", *wanted}))
    return Outlook(members=names, wanted={number: name for name, number in wanted.items()}, settled=frozenset(names))


def test_a_member_lives_for_as_long_as_its_lease_is_renewed() -> None:
    member = a_member("you", since=0.0, seen=100.0)
    assert member.is_live(100.0 + LEASE - 0.1)
    assert not member.is_live(100.0 + LEASE)
    same = met(member, held_by("you"), "1", 110.0)  # read again, and nothing is new
    assert not same.is_live(100.0 + LEASE)
    assert met(member, held_by("you"), "2", 110.0).is_live(100.0 + LEASE)


def test_a_member_that_has_released_its_lease_is_gone_at_once() -> None:
    assert not met(a_member("you", since=0.0, seen=100.0), held_by(""), "2", 101.0).is_live(101.0)


def test_a_member_that_was_silent_for_too_long_has_come_anew() -> None:
    member = a_member("you", since=0.0, seen=100.0)
    assert met(member, held_by("you"), "2", 100.0 + LEASE - 1).since == 0.0
    assert met(member, held_by("you"), "2", 100.0 + LEASE + 1).since == 100.0 + LEASE + 1


def test_whoever_others_cannot_see_does_not_count_itself() -> None:
    members = {"one": a_member("you", since=0.0, seen=100.0)}
    assert outlook(ME, members, 101.0, is_member=False).members == ("you",)
    assert outlook(ME, members, 101.0, is_member=True).members == ("me", "you")


def test_only_who_has_been_here_for_a_lease_is_settled() -> None:
    members = {name: a_member(name, since=since, seen=100.0) for name, since in {"old": 0.0, "new": 99.0}.items()}
    assert outlook(ME, members, 101.0, is_member=True).settled == {"old"}
    assert outlook(ME, members, 99.0 + LEASE, is_member=True).settled == {"old", "new"}


def test_a_free_bucket_is_taken_by_who_should_have_it_and_by_nobody_else() -> None:
    assert isinstance(step_for(ME, wanting(me=0), a_seat(), 1.0, NOW), Take)
    assert isinstance(step_for(ME, wanting(you=0), a_seat(), 1.0, NOW), Wait)


def test_whoever_is_no_member_takes_nothing() -> None:
    seen = Outlook(members=("you",), wanted={0: "you"})
    idle = looked_at(ME, seen, looked_at(ME, seen, a_seat(), 1.0), 100.0)
    assert not isinstance(step_for(ME, seen, idle, 100.0, NOW), Take)
    assert not isinstance(step_for(ME, Outlook(), a_seat(), 100.0, NOW), Take)


def test_what_another_holds_is_waited_for_whoever_should_have_it() -> None:
    seat = a_seat(holder="you")
    assert isinstance(step_for(ME, wanting(me=0), seat, 1.0, NOW), Wait)
    assert isinstance(step_for(ME, wanting(me=0), seat, LEASE - 0.1, NOW), Look | Wait)
    assert isinstance(step_for(ME, wanting(me=0), seat, LEASE, NOW), Take)


def test_what_nobody_has_looked_at_yet_is_not_idle() -> None:
    assert looked_at(ME, wanting(you=0), Seat(0), 100.0).idle_since is None


def test_sh_04_a_bucket_that_was_left_idle_for_a_lease_is_anybodys() -> None:
    seen = wanting(you=0)
    idle = looked_at(ME, seen, a_seat(), 1.0)
    assert idle.idle_since == 1.0
    assert not isinstance(step_for(ME, seen, looked_at(ME, seen, idle, LEASE), LEASE, NOW), Take)
    neglected = looked_at(ME, seen, idle, 1.0 + LEASE)
    assert neglected.neglected == "you"
    assert isinstance(step_for(ME, seen, neglected, 1.0 + LEASE, NOW), Take)


def test_what_was_left_idle_is_not_given_back_to_who_left_it_so() -> None:
    """It would be nobody's again, and again."""
    seat = Seat(0, ours().sight, None, "you")
    assert not looked_at(ME, wanting(you=0), seat, 1.0).is_leaving
    assert looked_at(ME, wanting(they=0), seat, 1.0).is_leaving


def test_what_another_should_have_is_left_to_it_once_that_has_settled() -> None:
    seen = wanting(you=0)
    assert looked_at(ME, seen, ours(), 1.0).is_leaving
    new = Outlook(members=seen.members, wanted=seen.wanted)
    assert not looked_at(ME, new, ours(), 1.0).is_leaving


def test_what_is_ours_by_preference_stays_ours() -> None:
    assert not looked_at(ME, wanting(me=0), ours(), 1.0).is_leaving


def test_what_is_leaving_stays_if_nobody_else_is_there_any_more() -> None:
    leaving = looked_at(ME, wanting(you=0), ours(), 1.0)
    assert not looked_at(ME, wanting(me=0), leaving, 2.0).is_leaving


@pytest.mark.parametrize("number", [0, 1])
def test_a_bucket_that_is_leaving_is_still_renewed(number: int) -> None:
    """Nobody else may have it before what was begun has ended."""
    seat = looked_at(ME, wanting(you=number), ours(number), 3.0)
    assert seat.is_leaving
    assert isinstance(step_for(ME, wanting(you=number), seat, 3.0, NOW), Take)
