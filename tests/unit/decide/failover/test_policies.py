"""A policy from the first sight of a failed node to the last: what is written, deleted, held back, remembered."""

from datetime import timedelta
from typing import Any

import pytest

from defib.model.action import MovePod, ReportRemediation
from defib.model.amount import Amount
from defib.model.cluster import Cluster
from defib.model.failover_policy import State
from defib.model.failure import Failure
from defib.model.node import Taint
from defib.model.pod import Toleration
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
from tests.unit.decide.failover.failovers import (
    FAILED_AT,
    POLICIES,
    STATEFUL_SET,
    a_failed_node,
    a_fleet,
    a_pod,
    a_policy,
    after,
    change,
    entry_of,
    go_on,
    moved,
    moves,
    on,
    plan_of,
    settled,
    status_of,
    tainted,
    told,
    within,
)

WEB = (a_pod("web-1"), a_pod("web-2"))
ONE = within(max_unhealthy=Amount(1))
MAINTENANCE = Taint(key="example.com/maintenance", effect="NoSchedule", time_added=T0 - MINUTE)


# From the first sight to the last.


def test_a_node_that_has_failed_is_looked_at_and_nothing_is_said_before_its_pods_are_in_sight() -> None:
    cluster = a_fleet(a_policy(status=None), pods=WEB)
    unseen = change(cluster, others={POLICIES: cluster.others[POLICIES]})
    told_first = after(unseen, plan_of(unseen))
    plan = plan_of(told_first)
    assert (plan.nodes, plan.actions) == (frozenset({"n1"}), ())
    assert settled(told_first) == ("True", "Quiet")


def test_it_is_written_down_before_the_first_pod_is_deleted() -> None:
    """EV-06, EV-07: whether anybody has seen the node fail does not matter."""
    cluster = a_fleet(a_policy(), pods=WEB)
    plan = plan_of(cluster)
    assert moved(plan) == []
    cluster = after(cluster, plan)
    entry = entry_of(cluster)
    assert entry is not None
    assert (entry.state, entry.uid, entry.not_ready_since) == (State.MOVING, "uid-n1", FAILED_AT)
    assert (entry.found, entry.moved, entry.message) == (2, 0, "2 pods to be moved")
    assert settled(cluster) == ("False", "Moving")
    assert moved(plan_of(cluster)) == ["web-1", "web-2"]


def test_a_deletion_names_the_very_pod_and_node_and_is_by_force_unless_the_policy_says_otherwise() -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 0),
        ({"deletion": {"mode": "Graceful", "gracePeriodSeconds": 9}}, 9),
    ]
    for spec, grace in cases:
        cluster, _ = go_on(a_fleet(a_policy(**spec), pods=[a_pod("web-1")]))
        assert moves(plan_of(cluster)) == [
            MovePod(
                node="n1",
                node_uid="uid-n1",
                namespace="apps",
                name="web-1",
                uid="uid-web-1",
                because="PodFailoverPolicy apps/web",
                since=FAILED_AT,
                grace_seconds=grace,
            )
        ]


def test_when_all_have_left_it_says_so_and_counts_them_once() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    cluster = after(cluster, plan, pods=[a_pod("web-2")])
    assert [type(action) for action in plan_of(cluster).actions] == [MovePod], "progress alone is no news"
    cluster, plan = go_on(after(cluster, plan_of(cluster), pods=[]))
    assert settled(cluster) == ("True", "Moved")
    assert (status_of(cluster).moved, status_of(cluster).failed_nodes) == (2, 1)
    last = plan_of(cluster, plan)
    assert (last.actions, last.nodes) == ((), frozenset())
    assert plan_of(cluster).actions == (), "after a restart as well"


def test_a_node_that_is_well_again_or_gone_is_forgotten_and_what_was_moved_stays_counted() -> None:
    cluster, _ = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    cluster, _ = go_on(after(cluster, plan_of(cluster), pods=[]))
    for nodes in ({"n1": a_node("n1", since=T0)}, {}):
        rest = {name: node for name, node in cluster.nodes.items() if name != "n1"}
        later, _ = go_on(change(cluster, nodes={**rest, **nodes}))
        assert (settled(later), entry_of(later)) == (("True", "Quiet"), None)
        assert (status_of(later).moved, status_of(later).failed_nodes) == (2, 0)


def test_a_node_that_fails_once_more_is_another_failure() -> None:
    """EV-08."""
    cluster, _ = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    cluster, plan = go_on(after(cluster, plan_of(cluster), pods=[]))
    again = {**cluster.nodes, "n1": a_failed_node(since=T0 + MINUTE)}
    cluster = after(cluster, plan, pods=[a_pod("web-9", created=T0 + SECOND)], seconds=120, nodes=again)
    cluster, plan = go_on(cluster, plan)
    entry = entry_of(cluster)
    assert entry is not None
    assert (entry.state, entry.found, entry.moved) == (State.MOVING, 1, 0)
    cluster, plan = go_on(after(cluster, plan, pods=[]), plan)
    assert status_of(cluster).moved == 3


def test_another_node_under_the_same_name_is_another_failure() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    cluster = change(cluster, nodes={**cluster.nodes, "n1": a_failed_node(uid="another")})
    cluster, plan = go_on(cluster, plan)
    assert moved(plan) == [], "about that one nothing is written down yet"
    entry = entry_of(cluster)
    assert entry is not None
    assert entry.uid == "another"
    assert {move.node_uid for move in moves(plan_of(cluster, plan))} == {"another"}


@pytest.mark.parametrize("ready", ["False", "Unknown", "odd"])
def test_every_node_that_is_not_ready_has_failed(ready: str) -> None:
    cluster, _ = go_on(a_fleet(a_policy(), a_failed_node(ready=ready), pods=WEB))
    assert moved(plan_of(cluster)) == ["web-1", "web-2"]


def test_pods_that_must_not_run_twice_wait_and_it_says_for_what() -> None:
    """I1: and nothing that a policy could do moves them."""
    db = a_pod("db-0", owner=STATEFUL_SET)
    cluster, plan = go_on(a_fleet(a_policy(), pods=[db]))
    entry = entry_of(cluster)
    assert entry is not None
    assert (entry.state, entry.waiting, status_of(cluster).waiting) == (State.WAITING, 1, 1)
    assert "a proof of grade A or B that the node is down: apps/db-0" in entry.message
    assert settled(cluster) == ("False", "WaitingForProof")
    assert [event.reason for event in told(plan)] == ["WaitingForProof"]
    assert plan_of(cluster, plan).nodes == {"n1"}, "they are watched until they are gone"
    assert go_on(cluster, plan, passes=3)[1].actions == ()


def test_what_waits_takes_no_place_of_those_that_can_be_moved() -> None:
    nodes = [a_failed_node("n1", since=FAILED_AT - MINUTE), a_failed_node("n2")]
    pods = [a_pod("db-0", owner=STATEFUL_SET), *on("n2", "web-1")]
    cluster, _ = go_on(a_fleet(a_policy(), *nodes, pods=pods), **ONE)
    assert moved(plan_of(cluster, **ONE)) == ["web-1"]


def test_a_deletion_that_fails_is_told_and_tried_again() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB), passes=2)
    failure = Failure(why="pods is forbidden", times=3, again_in=timedelta(seconds=4))
    cluster, plan = go_on(change(cluster, failures={"move uid-web-2": failure}), plan)
    assert settled(cluster) == ("False", "DeletionFailed")
    entry = entry_of(cluster)
    assert entry is not None
    assert entry.message == "1 pod could not be deleted, such as apps/web-2: pods is forbidden"
    again = plan_of(cluster, plan)
    assert moved(again) == ["web-1", "web-2"]
    assert [one for one in again.actions if isinstance(one, ReportRemediation)] == []


def test_events_tell_every_step_once_on_the_policy_itself() -> None:
    cluster, plan = go_on(a_fleet(a_policy(), pods=WEB))
    (event,) = told(plan)
    assert (event.reason, event.check, event.namespace, event.is_warning) == ("PodsMoving", "web", "apps", False)
    assert event.message == "node n1: 2 pods to be moved"
    cluster = after(cluster, plan_of(cluster), pods=[])
    assert [event.reason for event in told(plan_of(cluster))] == ["PodsMoved"]


# When a node counts.


def test_a_node_must_have_failed_for_as_long_as_the_policy_says() -> None:
    cluster = a_fleet(a_policy(dwell="10m"), pods=WEB)
    cluster, plan = go_on(cluster)
    assert (plan.nodes, entry_of(cluster)) == (frozenset(), None)
    assert plan.policies.todo.wake_at == FAILED_AT + 10 * MINUTE
    cluster, plan = go_on(change(cluster, now=FAILED_AT + 10 * MINUTE), plan)
    assert entry_of(cluster) is not None


def test_a_time_that_is_yet_to_come_does_not_count_before_it_has_come() -> None:
    node = a_failed_node(since=T0 + HOUR)
    plan = plan_of(a_fleet(a_policy(dwell="10s"), node, pods=WEB))
    assert plan.nodes == frozenset()
    cluster, plan = go_on(a_fleet(a_policy(), node, pods=[*WEB, a_pod("new", created=T0 + MINUTE)]))
    entry = entry_of(cluster)
    assert entry is not None
    assert (entry.found, entry.kept) == (2, 1)
    assert moved(plan_of(cluster, plan)) == ["web-1", "web-2"]


def test_only_on_the_nodes_that_it_selects() -> None:
    policy = a_policy(nodeSelector={"matchLabels": {"pool": "a"}})
    nodes = [a_failed_node("n1", labels={"pool": "b"}), a_failed_node("n2", labels={"pool": "a"})]
    pods = [*on("n1", "web-1"), *on("n2", "web-2")]
    cluster, _ = go_on(a_fleet(policy, *nodes, pods=pods))
    assert moved(plan_of(cluster)) == ["web-2"]


def test_only_pods_of_its_own_namespace() -> None:
    cluster, _ = go_on(a_fleet(a_policy(), pods=[a_pod("web-1"), a_pod("web-2", namespace="other")]))
    assert moved(plan_of(cluster)) == ["web-1"]


# Taints (EV-22).


def tainted_fleet(*pods: Any, taint: Taint = MAINTENANCE, **spec: Any) -> Cluster:
    node = tainted(a_node("n1", since=FAILED_AT), taint)
    return a_fleet(a_policy(taints=["*"], **spec), node, pods=pods or WEB)


def test_a_taint_drives_pods_out_gracefully_whatever_the_policy_says() -> None:
    """EV-22: the kubelet is alive. It ends them in order, so none runs twice, and none needs a proof."""
    db = a_pod("db-0", owner=STATEFUL_SET)
    cases: list[tuple[dict[str, Any], int | None]] = [
        ({}, None),
        ({"deletion": {"mode": "Graceful", "gracePeriodSeconds": 9}}, 9),
    ]
    for spec, grace in cases:
        cluster, _ = go_on(tainted_fleet(a_pod("web-1"), db, **spec))
        found = moves(plan_of(cluster))
        assert [(move.name, move.grace_seconds, move.taints) for move in found] == [
            ("db-0", grace, (MAINTENANCE.key,)),
            ("web-1", grace, (MAINTENANCE.key,)),
        ]


def test_a_pod_that_wants_no_time_to_end_gets_a_second_where_its_kubelet_is_alive() -> None:
    """Else the API server would drop it at once, and another one would run beside it."""
    pod = a_pod("db-0", owner=STATEFUL_SET)
    hasty = change(pod, spec=change(pod.spec, termination_grace_period_seconds=0))
    cluster, _ = go_on(tainted_fleet(hasty))
    assert [move.grace_seconds for move in moves(plan_of(cluster))] == [1]


def test_who_tolerates_the_taint_stays() -> None:
    tolerant = a_pod("web-3", tolerations=[Toleration(key=MAINTENANCE.key, operator="Exists")])
    briefly = a_pod("web-4", tolerations=[Toleration(operator="Exists", toleration_seconds=30)])
    cluster, _ = go_on(tainted_fleet(*WEB, tolerant, briefly))
    assert moved(plan_of(cluster)) == ["web-1", "web-2", "web-4"]


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_taints_all_must_be_tolerated_in_whichever_order_they_stand(turned: bool) -> None:
    gpu = Taint(key="nvidia.com/gpu", effect="NoSchedule")
    taints = (MAINTENANCE, gpu) if turned else (gpu, MAINTENANCE)
    trains = a_pod("train-1", tolerations=[Toleration(key=gpu.key, operator="Exists")])
    stays = a_pod("agent-1", tolerations=[Toleration(operator="Exists")])
    node = tainted(a_node("n1", since=FAILED_AT), *taints)
    cluster, _ = go_on(a_fleet(a_policy(taints=["*"]), node, pods=[trains, stays]))
    assert moved(plan_of(cluster)) == ["train-1"]
    cluster, _ = go_on(a_fleet(a_policy(taints=[gpu.key]), node, pods=[trains, stays]))
    assert moved(plan_of(cluster)) == [], "it does not mind the only one that counts"


@pytest.mark.parametrize("what", ["unreachable", "not-ready"])
def test_any_taint_is_none_of_those_that_a_failed_node_has_for_a_moment_longer(what: str) -> None:
    """After a short partition all would leave a node that is well."""
    taint = Taint(key=f"node.kubernetes.io/{what}", effect="NoExecute", time_added=FAILED_AT)
    assert plan_of(tainted_fleet(taint=taint)).nodes == frozenset()
    node = tainted(a_node("n1", since=FAILED_AT), taint)
    assert plan_of(a_fleet(a_policy(taints=[taint.key]), node, pods=WEB)).nodes == {"n1"}, "who names it means it"


@pytest.mark.parametrize("effect", ["PreferNoSchedule", ""])
def test_a_taint_that_only_asks_is_none(effect: str) -> None:
    cluster = tainted_fleet(taint=change(MAINTENANCE, effect=effect))
    assert plan_of(cluster).nodes == frozenset()


def test_only_the_taints_that_a_policy_names() -> None:
    node = tainted(a_node("n1", since=FAILED_AT), MAINTENANCE)
    cluster = a_fleet([a_policy("a", taints=["example.com/other"]), a_policy("b")], node, pods=WEB)
    assert plan_of(cluster).nodes == frozenset()


def test_a_node_that_dies_while_it_is_drained_has_failed_anew_and_proofs_are_needed() -> None:
    db = a_pod("db-0", owner=STATEFUL_SET)
    cluster, plan = go_on(tainted_fleet(a_pod("web-1"), db))
    dead = tainted(a_failed_node(since=T0), MAINTENANCE)
    cluster, plan = go_on(change(cluster, nodes={**cluster.nodes, "n1": dead}), plan)
    assert moves(plan) == []
    cluster, plan = go_on(cluster, plan)
    assert [(move.name, move.grace_seconds) for move in moves(plan)] == [("web-1", 0)]


# Several policies.


def test_of_several_policies_that_select_a_pod_the_first_by_name_decides() -> None:
    policies = [a_policy("b"), a_policy("a", deletion={"mode": "Graceful"}, selector={"matchLabels": {"app": "web"}})]
    pods = [a_pod("web-1", labels={"app": "web"}), a_pod("other-1")]
    cluster, _ = go_on(a_fleet(policies, pods=pods))
    found = {move.name: (move.because, move.grace_seconds) for move in moves(plan_of(cluster))}
    assert found == {"web-1": ("PodFailoverPolicy apps/a", None), "other-1": ("PodFailoverPolicy apps/b", 0)}


def test_a_policy_decides_about_its_pods_even_while_it_still_waits() -> None:
    cluster, _ = go_on(a_fleet([a_policy("a", dwell="1h"), a_policy("b")], pods=WEB))
    assert moved(plan_of(cluster)) == []


def test_a_policy_for_other_nodes_has_no_say_about_this_one() -> None:
    elsewhere = a_policy("a", nodeSelector={"matchLabels": {"pool": "a"}})
    cluster, _ = go_on(a_fleet([elsewhere, a_policy("b")], pods=WEB))
    assert moved(plan_of(cluster)) == ["web-1", "web-2"]


def test_each_policy_writes_its_own_part_before_it_deletes() -> None:
    policies = [a_policy(name, selector={"matchLabels": {"app": name}}) for name in ("a", "b")]
    cluster = a_fleet(policies, pods=[a_pod("a-1", labels={"app": "a"}), a_pod("b-1", labels={"app": "b"})])
    plan = plan_of(cluster)
    only_a = change(plan, policies=change(plan.policies, todo=change(plan.policies.todo, actions=plan.actions[:1])))
    assert moved(plan_of(after(cluster, only_a))) == ["a-1"]
