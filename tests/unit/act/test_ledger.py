"""What is remembered of actions: how long a failed one waits, what an echo is, and what is forgotten."""

from datetime import timedelta

import msgspec

from defib.act.ledger import ECHO_SECONDS, Ledger
from defib.act.outcome import Failed
from defib.model.action import Failure, WriteStatus

STATUS = WriteStatus(check="c1", uid="u1", version="7", status={})
BROKEN = Failed("it broke")


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
    ledger.ended(STATUS, 0.5, may_echo=False)
    assert ledger.failures == {}
    assert not ledger.must_wait(STATUS, 0.5)
    assert ledger.failed(STATUS, BROKEN, 1.0).times == 1


def test_what_is_no_longer_wanted_is_forgotten() -> None:
    ledger = Ledger()
    ledger.failed(STATUS, BROKEN, 0.0)
    ledger.keep_only({STATUS.key}, 0.1)
    assert ledger.failures.keys() == {STATUS.key}
    assert ledger.next_retry(()) == 1.0
    ledger.keep_only(set(), 0.1)
    assert ledger.failures == {}
    assert ledger.next_retry(()) is None


def test_the_very_same_action_is_an_echo_for_some_seconds_and_another_one_is_not() -> None:
    ledger = Ledger()
    ledger.ended(STATUS, 0.0, may_echo=True)
    assert ledger.must_wait(STATUS, ECHO_SECONDS - 0.1)
    assert not ledger.must_wait(STATUS, ECHO_SECONDS)
    assert not ledger.must_wait(msgspec.structs.replace(STATUS, version="8"), 0.0)
    assert ledger.next_retry(()) == ECHO_SECONDS


def test_an_action_that_was_not_wanted_in_between_is_no_echo() -> None:
    ledger = Ledger()
    ledger.ended(STATUS, 0.0, may_echo=True)
    ledger.keep_only(set(), 0.1)
    assert not ledger.must_wait(STATUS, 0.2)


def test_what_is_under_way_has_no_next_retry() -> None:
    ledger = Ledger()
    ledger.failed(STATUS, BROKEN, 0.0)
    assert ledger.next_retry({STATUS.key}) is None
