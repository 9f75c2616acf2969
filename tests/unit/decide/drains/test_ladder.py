"""What comes next for one pod of a node that is being drained, and when; for those that are not terminating above all."""

from typing import Any

import pytest

from defib.decide.drains.ladder import next_step
from defib.model.drain_action import TOO_BUSY
from defib.model.drain_policy import Source, Strategy
from defib.model.meta import Meta
from defib.model.node_drain import Rung
from defib.model.pod import Pod
from tests.unit.decide.drains.drains import (
    A_BUDGET,
    BUDGET_WAIT,
    DEAD,
    EXCLUSIVE,
    HOLD,
    PROTECTED,
    STUCK,
    TIMEOUT,
    a_case,
    a_policy,
    an_entry,
    broke,
    due,
    first_due,
    minute,
    minutes,
    nothing_comes,
    refused,
    step_at,
    terminating,
)
from tests.unit.decide.failover.failovers import a_pod, change

PODS = [a_pod("web-1"), terminating(a_pod("web-1"), ended=1), terminating(a_pod("web-1"), ended=1, finalizers=(HOLD,))]


# The timing table: at which minute what is due.


@pytest.mark.parametrize(
    ("times", "at", "alone", "protected"),
    [
        # 30 / 60 / 69: timeout 30, expected 8, budgets 52.
        ((30, 8, 52), 30, None, None),
        ((30, 8, 52), 31, Rung.EVICT, Rung.EVICT),
        ((30, 8, 52), 60, Rung.EVICT, Rung.EVICT),
        ((30, 8, 52), 61, Rung.EVICT, Rung.DELETE),
        ((30, 8, 52), 69, Rung.EVICT, Rung.DELETE),
        # 5 / 10 / 15: timeout 5, expected 2, budgets 8.
        ((5, 2, 8), 5, None, None),
        ((5, 2, 8), 6, Rung.EVICT, Rung.EVICT),
        ((5, 2, 8), 10, Rung.EVICT, Rung.EVICT),
        ((5, 2, 8), 11, Rung.EVICT, Rung.DELETE),
        ((5, 2, 8), 15, Rung.EVICT, Rung.DELETE),
    ],
)
def test_dk_07_what_is_due_for_a_pod_that_does_not_leave(
    times: tuple[int, int, int], at: int, alone: Rung | None, protected: Rung | None
) -> None:
    timeout, usual, budgets = times
    policy = a_policy(times=minutes(timeout=timeout, expected=usual, pdb_timeout=budgets))
    assert due(a_case(policy=policy), at) is alone
    assert due(a_case(policy=policy, eviction=refused(), **PROTECTED), at) is protected


@pytest.mark.parametrize(
    ("pod", "rung", "alone", "protected"),
    [
        (terminating(a_pod("web-1"), ended=1, finalizers=(HOLD,)), Rung.FINALIZERS, TIMEOUT, BUDGET_WAIT),
        (terminating(a_pod("web-1"), ended=1), Rung.KILL, TIMEOUT, BUDGET_WAIT),
        (terminating(a_pod("web-1"), ended=1, grace=1), Rung.FORCE, TIMEOUT, BUDGET_WAIT),
        # Whoever was told to end later has its time, and half a minute more.
        (terminating(a_pod("web-1"), ended=80, finalizers=(HOLD,)), Rung.FINALIZERS, 80.5, 80.5),
        (terminating(a_pod("web-1"), ended=80), Rung.KILL, 80.5, 80.5),
        (terminating(a_pod("web-1"), ended=80, grace=1), Rung.FORCE, 80.5, 80.5),
    ],
)
def test_dk_07_what_is_due_for_a_pod_that_is_terminating(pod: Pod, rung: Rung, alone: float, protected: float) -> None:
    for case, moment in ((a_case(pod), alone), (a_case(pod, **PROTECTED), protected)):
        assert first_due(case, rung) == moment
        assert due(case, moment) is None  # strictly after it
        assert due(case, moment + 0.01) is rung


@pytest.mark.parametrize("pod", PODS)
def test_dk_07_to_ask_again_changes_nothing(pod: Pod) -> None:
    case = a_case(pod, at=50)
    assert next_step(case) == next_step(case)


@pytest.mark.parametrize("pod", PODS)
@pytest.mark.parametrize("fields", [{}, PROTECTED, {"node": DEAD}])
def test_dk_05_nothing_is_done_before_the_timeout(pod: Pod, fields: dict[str, Any]) -> None:
    case = a_case(pod, **fields)
    assert [due(case, at) for at in (0, 10, 44.9, 45)] == [None] * 4
    assert due(case, 100) is not None


@pytest.mark.parametrize("pod", PODS)
def test_nothing_is_done_before_whoever_forces_by_itself_had_its_time(pod: Pod) -> None:
    for fields in ({}, PROTECTED):
        case = a_case(pod, deadline=minute(200), **fields)
        assert due(case, 208) is None
        assert due(case, 208.1) is not None


# Pods that do not leave.


def test_dk_23_a_pod_is_evicted_first() -> None:
    case = a_case()
    assert due(case, TIMEOUT + 1) is Rung.EVICT
    assert step_at(case, 500).rung is Rung.EVICT


def test_dk_23_a_pod_whose_eviction_is_refused_stays_until_budgets_had_their_time() -> None:
    """Also where no budget was seen: the API server knows best."""
    case = a_case(eviction=refused(times=20))
    assert [due(case, at) for at in (46, 60, 68)] == [Rung.EVICT] * 3
    assert due(case, 68.1) is Rung.DELETE


def test_dk_23_whoever_comes_late_tries_eviction_too_before_a_budget_is_passed_over() -> None:
    assert due(a_case(**PROTECTED), 500) is Rung.EVICT
    assert due(a_case(entry=an_entry(Rung.EVICT, 500), **PROTECTED), 500.1) is Rung.EVICT
    assert due(a_case(eviction=refused(), **PROTECTED), 500) is Rung.DELETE


def test_dk_06_a_pod_with_a_budget_is_deleted_strictly_after_the_time_of_budgets() -> None:
    case = a_case(eviction=refused(), **PROTECTED)
    assert due(case, BUDGET_WAIT) is Rung.EVICT
    assert due(case, BUDGET_WAIT + 0.01) is Rung.DELETE
    assert first_due(case, Rung.DELETE) == BUDGET_WAIT


def test_dk_22_no_time_for_budgets_means_that_pods_are_forced_after_the_expected_time() -> None:
    policy = a_policy(times=minutes(timeout=45, expected=8, pdb_timeout=0))
    case = a_case(policy=policy, **PROTECTED)
    assert due(case, 8) is None
    assert due(case, 8.1) is Rung.EVICT
    assert due(change(case, eviction=refused()), 8.1) is Rung.DELETE
    assert due(a_case(policy=policy), 45) is None


def test_a_pod_of_which_nobody_knows_whether_it_has_a_budget_counts_as_protected() -> None:
    case = a_case(knows_budgets=False, eviction=broke(times=50))
    assert due(case, BUDGET_WAIT) is Rung.EVICT
    assert due(case, BUDGET_WAIT + 1) is Rung.DELETE


def test_a_pod_with_two_budgets_cannot_be_evicted_and_has_the_time_of_budgets_all_the_same() -> None:
    case = a_case(budgets=(A_BUDGET, change(A_BUDGET, name="all")), eviction=broke(times=9))
    assert due(case, BUDGET_WAIT) is Rung.EVICT
    assert due(case, BUDGET_WAIT + 1) is Rung.DELETE
    assert "web, all" in step_at(case, BUDGET_WAIT + 1).why


def test_a_pod_without_a_budget_is_deleted_when_it_cannot_be_evicted() -> None:
    assert due(a_case(eviction=broke(times=1)), TIMEOUT + 1) is Rung.EVICT
    step = step_at(a_case(eviction=broke(times=2)), TIMEOUT + 1)
    assert (step.rung, step.strategy) == (Rung.DELETE, Strategy.DELETE)
    assert "500" in step.why


def test_no_pod_is_deleted_because_the_api_server_is_busy() -> None:
    busy = change(broke(times=50), why=f"{TOO_BUSY}: too many requests")
    assert due(a_case(eviction=busy), TIMEOUT + 1) is Rung.EVICT


def test_what_was_decided_and_written_down_is_done_though_the_eviction_is_forgotten() -> None:
    """Once nobody wants to evict it any more, nobody remembers either that this had failed."""
    for at in (TIMEOUT + 1, BUDGET_WAIT + 1):
        step = step_at(a_case(entry=an_entry(Rung.DELETE, 44)), at)
        assert (step.rung, step.why) == (Rung.DELETE, "it was time")


def test_a_deletion_that_was_due_by_the_time_of_budgets_alone_is_not_taken_back() -> None:
    """That of budgets may be the shorter one, and of this budget only the refused eviction told."""
    policy = a_policy(times=minutes(timeout=45, expected=8, pdb_timeout=0))
    case = a_case(policy=policy, source=Source.DEFIB)
    assert due(change(case, eviction=refused()), 9) is Rung.DELETE
    assert due(change(case, entry=an_entry(Rung.DELETE, 9)), 9.1) is Rung.DELETE


def test_a_budget_that_appears_later_has_its_time_whatever_was_decided_before() -> None:
    case = a_case(entry=an_entry(Rung.DELETE, 46), **PROTECTED)
    assert due(case, 47) is Rung.EVICT
    assert due(case, BUDGET_WAIT + 1) is Rung.DELETE


# Drains of our own.


def test_a_drain_of_our_own_evicts_from_the_start_and_forces_nobody_earlier() -> None:
    for fields in ({}, PROTECTED):
        case = a_case(source=Source.DEFIB, **fields)
        assert due(case, 0) is None
        assert due(case, 0.01) is Rung.EVICT
        assert due(case, TIMEOUT) is Rung.EVICT
    assert due(a_case(STUCK, source=Source.DEFIB), TIMEOUT) is None


def test_a_drain_of_our_own_keeps_evicting_until_it_may_delete() -> None:
    case = a_case(source=Source.DEFIB, eviction=broke(times=9))
    assert [due(case, at) for at in (1, 30, TIMEOUT)] == [Rung.EVICT] * 3
    assert due(case, TIMEOUT + 1) is Rung.DELETE


# Strategies that are switched off.


@pytest.mark.parametrize("pod", PODS)
@pytest.mark.parametrize("fields", [{}, PROTECTED, {"node": DEAD}, {"source": Source.DEFIB}, {"eviction": broke()}])
def test_dk_13_with_all_strategies_switched_off_no_pod_is_touched(pod: Pod, fields: dict[str, Any]) -> None:
    case = a_case(pod, policy=a_policy(*Strategy), **fields)
    assert nothing_comes(case)
    assert "switched off" in step_at(case, 100).why


def test_each_strategy_can_be_switched_off_by_itself() -> None:
    unprotected, protected = a_case(), a_case(eviction=refused(), **PROTECTED)
    held = terminating(a_pod("web-1"), ended=1, grace=0, finalizers=(HOLD,))
    cases = {
        Strategy.DELETE: unprotected,
        Strategy.FINALIZERS: a_case(held),
        Strategy.STUCK: a_case(STUCK),
        Strategy.PDB_DELETE: protected,
        Strategy.PDB_FINALIZERS: a_case(held, **PROTECTED),
    }
    for off in Strategy:
        policy = a_policy(off)
        for strategy, case in cases.items():
            usual = step_at(case, 500)
            assert usual.strategy is strategy
            without = step_at(
                change(case, policy=policy, schedule=change(case.schedule, strategies=policy.strategies)), 500
            )
            if strategy is not off:
                assert without.rung is usual.rung
            elif strategy is Strategy.PDB_DELETE:
                assert without.rung is Rung.EVICT  # which is what the budget decides about
            else:
                assert without.rung is None
                assert "switched off" in without.why


def test_where_only_budgets_are_passed_over_eviction_is_tried_first_too() -> None:
    only = a_policy(*(one for one in Strategy if one is not Strategy.PDB_DELETE))
    case = a_case(policy=only, **PROTECTED)
    assert due(case, BUDGET_WAIT) is None
    assert due(case, BUDGET_WAIT + 1) is Rung.EVICT
    assert due(change(case, eviction=refused()), BUDGET_WAIT + 1) is Rung.DELETE
    assert nothing_comes(a_case(policy=only))


# What is said.


def test_every_step_says_why() -> None:
    for pod in (
        *PODS,
        *EXCLUSIVE,
        *(terminating(one, ended=1, grace=grace) for one in EXCLUSIVE for grace in (0, 1, 30)),
    ):
        for fields in ({}, PROTECTED, {"knows_budgets": False}, {"node": DEAD}, {"eviction": broke()}):
            for at in (0, 50, 100):
                assert step_at(a_case(pod, **fields), at).why


def test_the_budgets_are_named_that_had_their_time() -> None:
    assert "disruption budget web had 1h8m" in step_at(a_case(eviction=refused(), **PROTECTED), 100).why
    assert "not in sight" in step_at(a_case(eviction=refused(), knows_budgets=False), 100).why


def test_a_step_without_a_moment_is_never_due() -> None:
    assert not any(
        step_at(a_case(Pod(metadata=Meta()), policy=a_policy(*Strategy)), at).is_due(minute(at)) for at in (0, 99)
    )
