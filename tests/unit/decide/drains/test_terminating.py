"""What comes next for a pod that is terminating and does not end: its finalizers, a kill, force, or the wait for a proof."""

import pytest

from defib.decide.drains.ladder import WAITS_FOR_PROOF
from defib.model.drain_policy import Strategy
from defib.model.node_drain import Rung
from defib.model.pod import Pod
from tests.unit.decide.drains.drains import (
    BUDGET_WAIT,
    DEAD,
    EXCLUSIVE,
    HOLD,
    ONE,
    OTHER,
    PROTECTED,
    STUCK,
    TIMEOUT,
    a_case,
    a_drained_node,
    a_policy,
    an_entry,
    broke,
    due,
    first_due,
    minute,
    nothing_comes,
    step_at,
    terminating,
)
from tests.unit.decide.failover.failovers import RWX, STATEFUL_SET, a_pod, change


def test_dk_11_a_terminating_pod_is_not_deleted_again_but_counts_as_stuck_with_a_budget_too() -> None:
    for fields in ({}, PROTECTED):
        step = step_at(a_case(STUCK, eviction=broke(times=9), **fields), BUDGET_WAIT + 1)
        assert (step.rung, step.strategy) == (Rung.KILL, Strategy.STUCK)


def test_dk_11_a_pod_is_killed_and_half_a_minute_later_deleted_by_force() -> None:
    killed = terminating(a_pod("web-1"), ended=1, grace=1)
    case = a_case(killed, entry=an_entry(Rung.KILL, 50))
    assert due(case, 50.5) is None
    assert due(case, 50.51) is Rung.FORCE


@pytest.mark.parametrize("last", [Rung.KILL, Rung.FINALIZERS, Rung.DELETE, Rung.EVICT])
def test_whatever_was_done_last_has_its_time_to_take_effect_before_anything_is_forced(last: Rung) -> None:
    killed = terminating(a_pod("web-1"), ended=1, grace=1)
    assert first_due(a_case(killed, entry=an_entry(last, 50)), Rung.FORCE) == 50.5
    assert first_due(a_case(killed, entry=an_entry(Rung.FORCE, 50)), Rung.FORCE) == TIMEOUT


def test_a_kill_that_shows_no_effect_in_the_pod_is_asked_for_again() -> None:
    assert due(a_case(STUCK, entry=an_entry(Rung.KILL, 46)), 60) is Rung.KILL


def test_a_node_that_is_not_ready_hears_no_kill() -> None:
    for ready in ("False", "Unknown"):
        case = a_case(STUCK, node=a_drained_node(ready=ready))
        assert due(case, TIMEOUT) is None
        assert due(case, TIMEOUT + 1) is Rung.FORCE
        assert "not ready" in step_at(case, TIMEOUT + 1).why


def test_a_pod_with_years_of_grace_has_them() -> None:
    case = a_case(terminating(a_pod("web-1"), ended=60 * 24 * 3650, grace=315_360_000))
    assert due(case, 10_000) is None
    assert first_due(case, Rung.KILL) == 60 * 24 * 3650 + 0.5


def test_times_at_the_end_of_the_calendar_break_nothing() -> None:
    last = minute(0).replace(year=9999, month=12, day=31, hour=23, minute=59, second=59)
    pod = change(STUCK, metadata=change(STUCK.metadata, deletion_timestamp=last))
    assert due(a_case(pod), 10_000) is None
    odd = change(an_entry(Rung.KILL), at=last)
    assert due(a_case(terminating(a_pod("web-1"), ended=1, grace=1), entry=odd), 10_000) is None


# Finalizers.


def test_dk_12_finalizers_are_removed_only_from_terminating_pods_that_should_have_ended() -> None:
    staying = a_pod("web-1", finalizers=[HOLD])
    assert due(a_case(staying), 500) is Rung.EVICT
    leaving = a_case(terminating(a_pod("web-1"), ended=90, finalizers=(HOLD,)))
    assert due(leaving, 90.5) is None
    assert due(leaving, 90.51) is Rung.FINALIZERS


def test_dk_12_only_those_that_the_policy_allows() -> None:
    both = terminating(a_pod("web-1"), ended=1, finalizers=(OTHER, HOLD))
    assert step_at(a_case(both), 100).finalizers == (HOLD,)
    assert step_at(a_case(both, policy=a_policy(finalizers=("*",))), 100).finalizers == (OTHER, HOLD)
    none = step_at(a_case(both, policy=a_policy(finalizers=())), 100)
    assert (none.rung, none.finalizers) == (Rung.KILL, ())


@pytest.mark.parametrize("node", [a_drained_node(), DEAD])
def test_a_pod_that_a_foreign_finalizer_would_hold_anyway_is_not_deleted_by_force(node: object) -> None:
    """To kill it may help; to force it would not take it away."""
    pod = terminating(a_pod("web-1"), ended=1, grace=1, finalizers=(OTHER,))
    case = a_case(pod, node=node)
    assert nothing_comes(case)
    assert OTHER in step_at(case, 100).why
    assert "spec.finalizers" in step_at(case, 100).why


def test_a_pod_that_has_ended_and_that_a_foreign_finalizer_holds_is_not_killed() -> None:
    for pod in (a_pod("web-1", phase="Succeeded"), a_pod("web-1", phase="Failed")):
        assert nothing_comes(a_case(terminating(pod, ended=1, finalizers=(OTHER,))))
    assert nothing_comes(a_case(terminating(a_pod("web-1"), ended=1, grace=0, finalizers=(OTHER,))))


# Pods that must not run twice.


@pytest.mark.parametrize("pod", EXCLUSIVE)
@pytest.mark.parametrize("grace", [1, 0, None])
@pytest.mark.parametrize("node", [a_drained_node(), DEAD])
@pytest.mark.parametrize("finalizers", [(), (HOLD,)])
def test_a_pod_that_must_not_run_twice_waits_for_a_proof(
    pod: Pod, grace: int | None, node: object, finalizers: tuple[str, ...]
) -> None:
    """Neither is it deleted by force, nor does it lose the last that keeps it from vanishing."""
    case = a_case(terminating(pod, ended=1, grace=grace, finalizers=finalizers), node=node, claims=ONE)
    if grace == 1 and finalizers:
        assert due(case, 100) is Rung.FINALIZERS  # it is still there then, and its kubelet is asked
    else:
        assert nothing_comes(case)
        assert WAITS_FOR_PROOF in step_at(case, 100).why


@pytest.mark.parametrize("pod", EXCLUSIVE)
def test_a_pod_that_must_not_run_twice_is_killed_where_a_kubelet_hears_it(pod: Pod) -> None:
    stuck = terminating(pod, ended=1)
    assert due(a_case(stuck, claims=ONE), 100) is Rung.KILL
    assert nothing_comes(a_case(stuck, claims=ONE, node=DEAD))


@pytest.mark.parametrize("pod", EXCLUSIVE)
def test_whoever_waives_the_proof_has_such_pods_forced_too(pod: Pod) -> None:
    policy = a_policy(needs_proof=False)
    assert due(a_case(terminating(pod, ended=1, grace=1), policy=policy), 100) is Rung.FORCE
    held = terminating(pod, ended=1, grace=0, finalizers=(HOLD,))
    step = step_at(a_case(held, policy=policy), 100)
    assert (step.rung, step.to_read) == (Rung.FINALIZERS, ())


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_loses_its_finalizers_though_it_must_not_run_twice(phase: str) -> None:
    pod = terminating(a_pod("db-0", owner=STATEFUL_SET, phase=phase), ended=1, grace=0, finalizers=(HOLD,))
    assert due(a_case(pod), 100) is Rung.FINALIZERS


def test_a_claim_of_which_nothing_is_known_is_read_before_anything_is_forced() -> None:
    killed = terminating(a_pod("web-1", claims=["data"]), ended=1, grace=1)
    forced = terminating(a_pod("web-1", claims=["data"]), ended=1, grace=0, finalizers=(HOLD,))
    for pod, rung in ((killed, Rung.FORCE), (forced, Rung.FINALIZERS)):
        step = step_at(a_case(pod), 100)
        assert (step.rung, [one.key for one in step.to_read]) == (rung, ["read claim apps/data"])
        shared = step_at(a_case(pod, claims={"apps/data": RWX}), 100)
        assert (shared.rung, shared.to_read) == (rung, ())


def test_nobody_reads_a_claim_that_changes_nothing() -> None:
    pod = a_pod("web-1", claims=["data"])
    held = terminating(pod, ended=1, finalizers=(HOLD,))
    for one in (pod, terminating(pod, ended=1), held):
        assert step_at(a_case(one), 100).to_read == ()
    db = terminating(a_pod("db-0", owner=STATEFUL_SET, claims=["data"]), ended=1, grace=1)
    assert step_at(a_case(db), 100).to_read == ()


@pytest.mark.parametrize("grace", [1, 0])
def test_a_claim_that_cannot_be_read_counts_as_exclusive_and_is_read_again(grace: int) -> None:
    finalizers = (HOLD,) if grace == 0 else ()
    pod = terminating(a_pod("web-1", claims=["data", "more"]), ended=1, grace=grace, finalizers=finalizers)
    step = step_at(a_case(pod, claims={"apps/data": RWX}, unreadable=frozenset({"apps/more"})), 100)
    assert step.rung is None
    assert WAITS_FOR_PROOF in step.why
    assert [one.key for one in step.to_read] == ["read claim apps/more"]


def test_claims_of_another_namespace_say_nothing() -> None:
    pod = terminating(a_pod("web-1", claims=["data"]), ended=1, grace=1)
    assert step_at(a_case(pod, claims={"other/data": RWX}), 100).to_read != ()
