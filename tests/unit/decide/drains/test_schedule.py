"""When each strategy is due, and when a drain has failed: to the minute as in seed 004."""

from datetime import datetime

import pytest

from defib.decide.drains.schedule import Schedule, failed_after
from defib.model.drain_policy import ALL_STRATEGIES, Source, Strategy
from tests.builders import MINUTE, SECOND
from tests.unit.decide.drains.drains import START, a_policy, a_schedule, minute, minutes

DEFAULTS = frozenset({Strategy.DELETE, Strategy.FINALIZERS, Strategy.STUCK})
OF_BUDGETS = ALL_STRATEGIES - DEFAULTS
INSTANT = SECOND / 1_000_000


def due_then(schedule: Schedule, now: datetime) -> frozenset[Strategy]:
    return frozenset(one for one in Strategy if schedule.due_at(one) < now)


@pytest.mark.parametrize("strategy", sorted(DEFAULTS))
def test_dk_05_strategies_for_pods_without_a_budget_begin_strictly_after_the_timeout(strategy: Strategy) -> None:
    schedule = a_schedule()
    assert strategy not in due_then(schedule, minute(45))
    assert strategy in due_then(schedule, minute(45) + INSTANT)


@pytest.mark.parametrize("strategy", sorted(OF_BUDGETS))
def test_dk_06_strategies_past_budgets_begin_strictly_after_the_expected_time_and_that_of_budgets(
    strategy: Strategy,
) -> None:
    schedule = a_schedule()
    assert strategy not in due_then(schedule, minute(68))
    assert strategy in due_then(schedule, minute(68) + INSTANT)


@pytest.mark.parametrize(
    ("times", "at", "expected"),
    [
        # 30 / 60 / 69: the timeout is 30 min; 52 + 8 are for budgets.
        ((30, 8, 52), 30, frozenset[Strategy]()),
        ((30, 8, 52), 31, DEFAULTS),
        ((30, 8, 52), 60, DEFAULTS),
        ((30, 8, 52), 61, ALL_STRATEGIES),
        ((30, 8, 52), 69, ALL_STRATEGIES),
        # 5 / 10 / 15: both are due before the drain can have failed.
        ((5, 2, 8), 5, frozenset[Strategy]()),
        ((5, 2, 8), 6, DEFAULTS),
        ((5, 2, 8), 10, DEFAULTS),
        ((5, 2, 8), 11, ALL_STRATEGIES),
        ((5, 2, 8), 15, ALL_STRATEGIES),
        # Budgets may have less time than pods without one.
        ((45, 8, 0), 8, frozenset[Strategy]()),
        ((45, 8, 0), 9, OF_BUDGETS),
        ((45, 8, 0), 46, ALL_STRATEGIES),
        # And there may be no patience at all.
        ((0, 0, 0), 0, frozenset[Strategy]()),
        ((0, 0, 0), 1, ALL_STRATEGIES),
    ],
)
def test_dk_07_only_those_run_that_are_due(times: tuple[int, int, int], at: int, expected: frozenset[Strategy]) -> None:
    timeout, usual, budgets = times
    policy = a_policy(times=minutes(timeout=timeout, expected=usual, pdb_timeout=budgets))
    assert due_then(a_schedule(policy), minute(at)) == expected


def test_dk_22_no_time_for_budgets_means_that_they_have_the_expected_time() -> None:
    schedule = a_schedule(a_policy(times=minutes(timeout=45, expected=8, pdb_timeout=0)))
    assert schedule.due_at(Strategy.PDB_DELETE) == schedule.due_at(Strategy.PDB_FINALIZERS) == minute(8)


def test_where_nobody_else_evicts_pods_are_evicted_from_the_start() -> None:
    assert a_schedule(source=Source.DEFIB).evicts_at == START
    assert a_schedule().evicts_at == minute(45)


def test_whoever_forces_by_itself_has_its_deadline_and_the_expected_time() -> None:
    schedule = a_schedule(deadline=minute(100))
    assert {schedule.due_at(one) for one in Strategy} == {minute(108)}


def test_a_deadline_that_was_long_ago_changes_nothing() -> None:
    past = a_schedule(deadline=minute(10))
    assert [past.due_at(one) for one in Strategy] == [a_schedule().due_at(one) for one in Strategy]


# When it has failed.


def has_failed(schedule: Schedule, needed: frozenset[Strategy], at: float) -> bool:
    failed_at = schedule.failed_at(needed, minute(at))
    return failed_at is not None and failed_at < minute(at)


THIRTY_AND_SIXTY = a_policy(times=minutes(timeout=30, expected=8, pdb_timeout=52))


@pytest.mark.parametrize(("at", "failed"), [(30, False), (60, False), (68, False), (68.1, True), (69, True)])
def test_dk_14_strategies_at_30_and_60_minutes_have_failed_after_68_and_so_at_69(at: float, failed: bool) -> None:
    assert has_failed(a_schedule(THIRTY_AND_SIXTY), ALL_STRATEGIES, at) is failed


@pytest.mark.parametrize(("at", "failed"), [(11, False), (14, False), (15, False), (15.1, True), (16, True)])
def test_dk_14_where_the_last_strategy_ends_before_the_timeout_it_is_the_timeout_that_counts(
    at: float,
    failed: bool,
) -> None:
    """Waits of 5 and 10 min, a timeout of 15: the last has had its time at 10 + expected, so `expected` is at most 5 there.

    In our schedule one of the two waits is the timeout itself, so the seed's case is that of the rule alone.
    """
    waits = [5 * MINUTE, 10 * MINUTE]
    for usual in (0, 2, 5):
        times = minutes(timeout=15, expected=usual)
        assert (failed_after(waits, times) < at * MINUTE) is failed
    assert failed_after(waits, minutes(timeout=15, expected=6)) == 16 * MINUTE


def test_dk_14_budgets_that_end_before_the_timeout_do_not_shorten_it() -> None:
    schedule = a_schedule(a_policy(times=minutes(timeout=45, expected=8, pdb_timeout=0)))
    assert schedule.failed_at(OF_BUDGETS, minute(20)) == minute(45)
    assert schedule.failed_at(ALL_STRATEGIES, minute(50)) == minute(53)


def test_dk_14_pods_without_a_budget_have_failed_when_the_default_strategies_had_their_time() -> None:
    schedule = a_schedule()
    assert not has_failed(schedule, DEFAULTS, 53)
    assert has_failed(schedule, DEFAULTS, 53.1)


@pytest.mark.parametrize("needed", [DEFAULTS, frozenset[Strategy]()])
def test_a_drain_that_has_failed_is_not_well_again_because_a_strategy_is_due_that_nobody_needs(
    needed: frozenset[Strategy],
) -> None:
    """In seed 004 it is: from minute 68 to 76."""
    assert all(has_failed(a_schedule(), needed, at) for at in range(54, 120))


def test_pods_that_no_strategy_helps_have_the_time_of_the_default_strategies() -> None:
    nobody = frozenset[Strategy]()
    assert not has_failed(a_schedule(), nobody, 53)
    assert has_failed(a_schedule(), nobody, 53.1)
    assert has_failed(a_schedule(a_policy(*DEFAULTS)), nobody, 45.1)  # as if all were switched off


def test_dk_14_as_long_as_nothing_was_executed_it_is_the_timeout_that_counts() -> None:
    assert failed_after([], minutes(timeout=5, expected=8)) == 5 * MINUTE


def test_dk_15_while_a_strategy_is_to_come_that_has_pods_nothing_has_failed() -> None:
    schedule = a_schedule()
    assert not any(has_failed(schedule, ALL_STRATEGIES, at) for at in range(77))
    assert has_failed(schedule, ALL_STRATEGIES, 77)
    assert schedule.failed_at(ALL_STRATEGIES, minute(68)) is None
    assert schedule.failed_at(ALL_STRATEGIES, minute(68) + INSTANT) == minute(76)


def test_dk_15_a_strategy_that_is_switched_off_is_not_waited_for() -> None:
    schedule = a_schedule(a_policy(*OF_BUDGETS))
    assert has_failed(schedule, OF_BUDGETS, 54)


def test_dk_13_with_all_strategies_switched_off_a_drain_has_failed_after_the_timeout() -> None:
    schedule = a_schedule(a_policy(*Strategy))
    for needed in (frozenset[Strategy](), ALL_STRATEGIES):
        assert not has_failed(schedule, needed, 45)
        assert has_failed(schedule, needed, 45.1)


def test_a_drain_has_not_failed_before_whoever_forces_by_itself_had_its_time() -> None:
    for policy in (a_policy(), a_policy(*Strategy)):
        schedule = a_schedule(policy, deadline=minute(100))
        assert not has_failed(schedule, DEFAULTS, 108)
        assert has_failed(schedule, DEFAULTS, 108.1)


# When what comes next changes by itself.


def test_what_comes_next_may_change_at_the_timeout_and_at_that_of_budgets() -> None:
    schedule = a_schedule()
    turns = [schedule.turns_at(minute(at)) for at in (0, 45, 45.1, 68, 68.1)]
    assert turns == [minute(45), minute(45), minute(68), minute(68), None]
