"""Pods do not leave a node before the scheduler knows that it has failed: it would send others back to it."""

from datetime import timedelta
from typing import Any

import pytest

from defib.decide.failover.plan import NOTHING, Failover
from defib.model.cluster import Blindness, Cluster
from defib.model.failover_policy import State
from defib.model.node import Node, Taint
from defib.model.pod import pods_on
from tests.builders import HOUR, SECOND, T0, a_node
from tests.unit.decide.failover.failovers import (
    STATEFUL_SET,
    a_fleet,
    a_pod,
    a_policy,
    after,
    as_kubernetes_taints,
    change,
    entry_of,
    moved,
    plan_of,
    settled,
    tainted,
)

TICK = 0.01
WEB = (a_pod("web-1"), a_pod("web-2"))
UNREACHABLE = "node.kubernetes.io/unreachable"
OF_ITS_POOL = Taint(key="example.com/dedicated", value="db", effect="NoSchedule")


def an_open_node(ready: str = "Unknown", **fields: Any) -> Node:
    """It has just failed, and nobody but its condition says so."""
    return a_node("n1", ready=ready, since=T0, **fields)


def begun(node: Node | None = None, *, pods: Any = WEB, **spec: Any) -> tuple[Cluster, Failover]:
    """The failure was seen at T0, and has just been written down."""
    cluster = a_fleet(a_policy(**spec), an_open_node() if node is None else node, pods=pods)
    plan = plan_of(cluster)
    return after(cluster, plan, seconds=TICK), plan


def with_node(cluster: Cluster, node: Node) -> Cluster:
    return change(cluster, nodes={**cluster.nodes, node.name: node})


def at(cluster: Cluster, seconds: float) -> Cluster:
    return change(cluster, now=T0 + timedelta(seconds=seconds))


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_pods_stay_while_the_scheduler_may_send_others_back_and_it_is_written_down_meanwhile(ready: str) -> None:
    cluster, plan = begun(an_open_node(ready))
    entry = entry_of(cluster)
    assert entry is not None
    assert (entry.state, entry.found, entry.message) == (State.MOVING, 2, "2 pods to be moved")
    assert settled(cluster) == ("False", "Moving")
    for seconds in (TICK, 0.5, 0.999):
        plan = plan_of(at(cluster, seconds), plan)
        assert (plan.actions, plan.nodes) == ((), frozenset({"n1"}))


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_they_leave_in_the_very_pass_that_sees_the_taint(ready: str) -> None:
    cluster, plan = begun(an_open_node(ready))
    plan = plan_of(at(cluster, 0.1), plan)
    closed = with_node(at(cluster, 0.1), as_kubernetes_taints(an_open_node(ready)))
    for before in (plan, NOTHING):
        plan = plan_of(closed, before)
        assert (moved(plan), plan.moments) == (["web-1", "web-2"], (None, None))


def test_they_leave_after_a_second_if_nobody_taints_the_node_and_the_plan_asks_to_be_woken_then() -> None:
    cluster, plan = begun()
    plan = plan_of(at(cluster, 0.3), plan)
    assert plan.moments == (T0 + SECOND, None)
    plan = plan_of(at(cluster, 1), plan)
    assert (moved(plan), plan.moments) == (["web-1", "web-2"], (None, None))


def test_a_node_that_is_cordoned_is_closed() -> None:
    cluster, plan = begun(an_open_node(cordoned=True))
    assert moved(plan_of(cluster, plan)) == ["web-1", "web-2"]


@pytest.mark.parametrize(
    "taint",
    [OF_ITS_POOL, Taint(key=UNREACHABLE, effect="NoExecute"), Taint(key=UNREACHABLE, effect="PreferNoSchedule")],
    ids=["of its pool", "only drives out", "only a preference"],
)
def test_a_taint_that_the_pods_tolerate_does_not_close_it(taint: Taint) -> None:
    """Pods tolerate those of their pool, and nearly all of them that of a failed node for some minutes."""
    cluster, plan = begun(tainted(an_open_node(), taint))
    assert moved(plan_of(cluster, plan)) == []
    closed = as_kubernetes_taints(tainted(an_open_node(), OF_ITS_POOL))
    assert moved(plan_of(with_node(cluster, closed), plan)) == ["web-1", "web-2"]


def test_a_node_that_is_ready_and_counts_as_failed_for_its_taint_is_closed_by_that() -> None:
    node = tainted(a_node("n1", since=T0 - HOUR), Taint(key="example.com/broken", effect="NoExecute", time_added=T0))
    cluster, plan = begun(node, taints=["*"])
    assert moved(plan_of(cluster, plan)) == ["web-1", "web-2"]


def test_a_failure_that_has_been_seen_for_longer_than_that_waits_for_nothing_more() -> None:
    """Such as for the dwell time."""
    cluster = a_fleet(a_policy(dwell="10s"), an_open_node(), pods=WEB)
    plan = plan_of(cluster)
    plan = plan_of(at(cluster, 10), plan)
    assert plan.moments == (None, None)
    assert moved(plan_of(after(at(cluster, 10), plan, seconds=TICK), plan)) == ["web-1", "web-2"]


def test_after_a_restart_it_waits_for_the_taint_once_more() -> None:
    cluster, _ = begun()
    late = at(cluster, 60)
    plan = plan_of(late)
    assert (moved(plan), plan.moments) == ([], (T0 + 61 * SECOND, None))
    assert moved(plan_of(at(late, 61), plan)) == ["web-1", "web-2"]


def test_where_no_pod_can_leave_nobody_is_woken() -> None:
    cluster, plan = begun(pods=[a_pod("db-0", owner=STATEFUL_SET)])
    assert plan.moments == (None, None)
    assert plan_of(cluster, plan).moments == (None, None)


def test_a_node_whose_pods_go_out_of_sight_meanwhile_wakes_nobody_for_a_moment_that_is_over() -> None:
    cluster, plan = begun()
    plan = plan_of(cluster, plan)
    unseen = change(cluster, blind=(Blindness(kind=pods_on("n1"), since=T0, why="broken"),))
    for seconds in (0.5, 2):
        plan = plan_of(at(unseen, seconds), plan)
        assert (moved(plan), plan.moments, plan.nodes) == ([], (None, None), frozenset({"n1"}))
    assert moved(plan_of(at(cluster, 3), plan)) == ["web-1", "web-2"]


def test_what_is_held_leaves_only_when_it_is_neither_held_nor_open() -> None:
    cluster, plan = begun()
    held = change(at(cluster, 0.2), doubts=("most requests fail",))
    plan = plan_of(held, plan)
    assert (moved(plan), plan.moments) == ([], (T0 + SECOND, None))
    cluster = after(held, plan, seconds=0.2)
    late = plan_of(at(cluster, 5), plan)
    assert (moved(late), late.moments) == ([], (T0 + 6 * SECOND, None)), "it looks again every second"
    free = change(cluster, doubts=())
    plan = plan_of(free, plan)
    cluster = after(free, plan, seconds=TICK)
    assert moved(plan_of(cluster, plan)) == []
    assert moved(plan_of(at(cluster, 1), plan)) == ["web-1", "web-2"]
