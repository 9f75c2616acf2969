"""What is remembered of actions: how long a failed one waits, what an echo is, and what is forgotten."""

from datetime import timedelta

import msgspec
import pytest

from defib.act.ledger import ECHO_SECONDS, REPEATS_MAX, UNSURE_SECONDS, Ledger
from defib.act.outcome import Failed
from defib.model.action import Because, HoldLock, StartRemediation, WriteStatus
from defib.model.failure import Failure
from defib.model.health_check import KindRef
from defib.model.lock import Claim
from defib.model.meta import Meta
from defib.model.node import Lease

STATUS = WriteStatus(check="c1", uid="u1", version="7", status={})
BROKEN = Failed("it broke")
CLAIM = Claim(node="n1", node_uid="u2", holder="us", length=timedelta(minutes=11))
RENEWED = msgspec.structs.replace(CLAIM, known=Lease(metadata=Meta(name="node-n1", resource_version="8")))
START = StartRemediation(
    check="c1",
    node="n1",
    node_uid="u2",
    because=Because("Ready", "Unknown"),
    kind=KindRef("example.com/v1", "FooRemediation"),
    namespace="remedies",
    body={"metadata": {"name": "n1"}},
    claim=CLAIM,
)
HOLD = HoldLock(claim=CLAIM)


def test_each_failure_in_a_row_waits_twice_as_long_up_to_half_a_minute() -> None:
    ledger, now, waits = Ledger(), 0.0, []
    for _ in range(12):
        failure = ledger.failed(STATUS, BROKEN, now)
        waits.append(failure.again_in.total_seconds())
        now += waits[-1]
        assert ledger.must_wait(STATUS, now - 0.001)
        assert not ledger.must_wait(STATUS, now)
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30]


def test_a_server_that_asks_for_more_time_gets_it() -> None:
    failure = Ledger().failed(STATUS, Failed("busy", retry_after_seconds=7.0), 0.0)
    assert failure == Failure(why="busy", times=1, again_in=timedelta(seconds=7))


def test_a_good_end_clears_the_failures() -> None:
    ledger = Ledger()
    ledger.failed(STATUS, BROKEN, 0.0)
    ledger.withheld(STATUS)
    assert ledger.failures == {}
    assert not ledger.must_wait(STATUS, 0.5)
    assert ledger.failed(STATUS, BROKEN, 1.0).times == 1


def test_a_start_that_may_have_been_done_counts_until_it_must_have_been_seen_wanted_or_not() -> None:
    ledger = Ledger()
    ledger.failed(START, Failed("its answer was lost", may_pass=True), 0.0)
    ledger.keep_only(set(), 1.0)
    assert [(failure.check, failure.node) for failure in ledger.failures.values()] == [("c1", "n1")]
    assert ledger.next_retry((), after=1.0) == UNSURE_SECONDS
    ledger.withheld(START)
    ledger.ended(START, "the node is well", 2.0)
    assert ledger.failures.keys() == {START.key}
    ledger.keep_only(set(), UNSURE_SECONDS)
    assert ledger.failures == {}


def test_a_start_that_was_done_after_all_is_sure_and_so_is_one_that_was_refused() -> None:
    ledger = Ledger()
    ledger.failed(START, Failed("its answer was lost", may_pass=True), 0.0)
    ledger.ended(START, "", 1.0, is_done=True)
    assert ledger.failures == {}
    ledger.failed(START, Failed("forbidden", forbidden=True), 2.0)
    ledger.keep_only(set(), 3.0)
    assert ledger.failures == {}


def test_what_is_no_longer_wanted_is_forgotten() -> None:
    ledger = Ledger()
    ledger.failed(STATUS, BROKEN, 0.0)
    ledger.keep_only({STATUS.key}, 0.1)
    assert ledger.failures.keys() == {STATUS.key}
    assert ledger.next_retry((), after=0.0) == 1.0
    ledger.keep_only(set(), 0.1)
    assert ledger.failures == {}
    assert ledger.next_retry((), after=0.0) is None


def test_the_very_same_action_is_an_echo_for_some_seconds_and_another_one_is_not() -> None:
    ledger = Ledger()
    ledger.ended(STATUS, "", 0.0)
    assert ledger.must_wait(STATUS, ECHO_SECONDS - 0.1)
    assert not ledger.must_wait(STATUS, ECHO_SECONDS)
    assert not ledger.must_wait(msgspec.structs.replace(STATUS, version="8"), 0.0)
    assert ledger.next_retry((), after=0.0) == ECHO_SECONDS


def test_an_action_that_was_not_wanted_in_between_is_no_echo() -> None:
    ledger = Ledger()
    ledger.ended(STATUS, "", 0.0)
    ledger.keep_only(set(), 0.1)
    assert not ledger.must_wait(STATUS, 0.2)


def test_what_is_under_way_has_no_next_retry() -> None:
    ledger = Ledger()
    ledger.failed(STATUS, BROKEN, 0.0)
    assert ledger.next_retry({STATUS.key}, after=0.0) is None


def test_a_moment_that_a_pass_has_seen_is_not_given_again() -> None:
    ledger = Ledger()
    ledger.failed(STATUS, BROKEN, 0.0)
    assert ledger.next_retry((), after=0.9) == 1.0
    assert ledger.next_retry((), after=1.0) is None


@pytest.mark.parametrize("action", [START, HOLD])
def test_an_echo_is_one_although_the_lock_was_renewed(action: StartRemediation | HoldLock) -> None:
    ledger = Ledger()
    ledger.ended(action, "", 0.0)
    assert ledger.must_wait(msgspec.structs.replace(action, claim=RENEWED), 1.0)
    longer = msgspec.structs.replace(RENEWED, length=timedelta(minutes=12))
    assert not ledger.must_wait(msgspec.structs.replace(action, claim=longer), 1.0)


def test_a_start_that_ends_again_and_again_and_is_wanted_still_counts_as_failed() -> None:
    ledger, now, waits = Ledger(), 0.0, []
    for _ in range(REPEATS_MAX):
        assert ledger.ended(START, "it is there already", now) is None
        assert ledger.failures == {}
        now += ECHO_SECONDS
    for _ in range(7):
        failure = ledger.ended(START, "it is there already", now)
        assert failure is not None
        assert ledger.failures == {START.key: failure}
        waits.append(failure.again_in.total_seconds())
        now += waits[-1]
        assert ledger.must_wait(START, now - 0.001)
        ledger.keep_only({START.key}, now)
        assert not ledger.must_wait(START, now)
    assert waits == [5, 5, 5, 8, 16, 30, 30]
    assert ledger.failures[START.key].why == "it is there already"


def test_a_start_that_was_not_wanted_in_between_begins_to_count_anew() -> None:
    ledger = Ledger()
    for now in range(20):
        assert ledger.ended(START, "", float(now)) is None
        ledger.keep_only(set(), float(now))


def test_other_actions_may_end_as_often_as_they_are_wanted() -> None:
    ledger = Ledger()
    for now in range(20):
        assert ledger.ended(HOLD, "", float(now)) is None


def test_a_failure_says_which_node_may_be_under_remediation_all_the_same() -> None:
    ledger = Ledger()
    failure = ledger.failed(START, Failed("no answer", may_pass=True), 0.0)
    assert (failure.check, failure.node) == ("c1", "n1")
    for action, outcome in ((START, BROKEN), (HOLD, Failed("no answer", may_pass=True))):
        failure = ledger.failed(action, outcome, 0.0)
        assert (failure.check, failure.node) == ("", "")
