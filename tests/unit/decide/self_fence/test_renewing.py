"""Which requests of an agent renew its Lease, and which only read it."""

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from defib.decide.self_fence.memory import Memory, ask_again, was_answered
from defib.model.self_fence import Pace

PACE = Pace(interval_seconds=5, request_seconds=3, failures=3, peer_seconds=15)
LOST, ANSWERED = False, True
HEARD_AGAIN = 3  # requests: one of any kind, the renewal that tells of what was lost, and the next one


class Told(msgspec.Struct, frozen=True):
    """A renewal as it stands in the Lease."""

    sequence: int
    answered: int

    @property
    def is_well(self) -> bool:
        return self.answered >= self.sequence - 1


def asked(answers: list[bool], *, is_ordered: bool = False) -> tuple[list[bool], Told | None]:
    """Which of the requests renewed, and the newest renewal that arrived. What is lost never arrives."""
    memory, renewals, told = Memory(is_ordered=is_ordered), [], None
    for number, is_answered in enumerate(answers):
        memory = ask_again(memory)
        renewals.append(memory.renews)
        if not is_answered:
            continue
        if memory.renews:
            told = Told(memory.sequence, memory.answered)
        at = number * PACE.interval_seconds
        memory = was_answered(memory, PACE, asked_at=at, now=at, has_order=False)
    return renewals, told


def test_an_agent_begins_with_a_renewal_and_every_second_request_is_one() -> None:
    assert asked([ANSWERED] * 6)[0] == [True, False, True, False, True, False]


def test_an_agent_that_nobody_ever_answered_renews_on_and_on() -> None:
    assert asked([LOST] * 4)[0] == [True] * 4


def test_after_a_lost_read_come_two_renewals() -> None:
    """The first says that an answer is missing, so nobody counts on the agent until there is another one."""
    assert asked([ANSWERED, LOST, ANSWERED, ANSWERED, ANSWERED])[0] == [True, False, True, True, False]


def test_after_a_lost_renewal_come_two_renewals() -> None:
    assert asked([ANSWERED, ANSWERED, LOST, ANSWERED, ANSWERED, ANSWERED])[0] == [True, False, True, True, True, False]


def test_whoever_has_an_order_renews_for_as_long_as_it_lives() -> None:
    assert asked([ANSWERED] * 4, is_ordered=True)[0] == [True] * 4


@given(before=st.lists(st.booleans(), max_size=20), since=st.integers(HEARD_AGAIN, 12))
def test_whatever_was_lost_an_agent_that_is_answered_is_heard_soon_and_all_the_time(
    before: list[bool], since: int
) -> None:
    renewals, told = asked([*before, *[ANSWERED] * since])
    assert told is not None
    assert told.is_well
    assert len(renewals) - told.sequence <= 1, (
        "so a renewal is never older than two intervals and what it took to arrive"
    )


@given(answers=st.lists(st.booleans(), min_size=2, max_size=20))
def test_no_two_reads_follow_each_other_and_none_follows_what_was_lost(answers: list[bool]) -> None:
    renewals, _ = asked(answers)
    for number, (one, other) in enumerate(pairwise(renewals)):
        assert one or other
        assert other or answers[number]
