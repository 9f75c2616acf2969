"""A remediation of a failed node from its first sight to its end: what is written down, what is deleted, what waits."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.failover.sight import FIRST_SIGHT
from defib.model import medik8s
from defib.model.action import MovePod, SetFinalizers
from defib.model.cluster import Blindness, Cluster
from defib.model.config_map import ConfigMap
from defib.model.failure import Failure
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec, Node
from defib.model.pod import Toleration, pods_on
from defib.model.pod_failover import FINALIZER
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.failover.failovers import (
    COLLECTION,
    FAILED_AT,
    a_failed_node,
    a_failover,
    a_pod,
    after,
    conditions,
    message,
    moved,
    plan_of,
    reported,
    the_cluster,
)

WEB = (a_pod("web-1"), a_pod("web-2"))
WORKING = {"Processing": "True", "Succeeded": "Unknown", "reason": "RemediationStarted"}
FINISHED = {"Processing": "False", "Succeeded": "True", "reason": "RemediationFinished"}


def at_work(*pods: Any, **cluster: Any) -> Cluster:
    """It is written down that so many pods were found, and deleting begins."""
    before = the_cluster(a_failover(), pods=pods or WEB, **cluster)
    return after(before, plan_of(before))


def test_it_is_held_before_anything_else_and_its_pods_come_into_sight() -> None:
    cluster = the_cluster(a_failover(held=False, finalizers=["example.com/other"]), pods=None)
    plan = plan_of(cluster)
    (hold,) = plan.actions
    assert isinstance(hold, SetFinalizers)
    assert (hold.finalizers, hold.version) == (("example.com/other", FINALIZER), "9")
    assert plan.nodes == {"n1"}
    following = plan_of(after(cluster, plan))
    assert (following.actions, following.nodes) == ((), frozenset({"n1"}))


def test_what_was_found_is_written_down_before_the_first_pod_is_deleted() -> None:
    cluster = the_cluster(a_failover(), pods=[*WEB, a_pod("db-0", owner=("apps/v1", "StatefulSet"))])
    plan = plan_of(cluster)
    assert moved(plan) == []
    assert conditions(plan) == WORKING
    assert message(plan) == "2 pods to be moved; 1 more waits for a proof that the node is down"
    said = reported(plan)
    assert {name: said[name] for name in ("node", "nodeUID", "found", "moved", "waiting", "left")} == {
        "node": "n1",
        "nodeUID": "uid-n1",
        "found": 2,
        "moved": 0,
        "waiting": 1,
        "left": 0,
    }
    plan = plan_of(after(cluster, plan))
    assert moved(plan) == ["web-1", "web-2"]
    assert reported(plan) == {}


def test_a_deletion_names_the_very_pod_and_the_very_node() -> None:
    move = plan_of(at_work(a_pod("web-1"))).actions[0]
    assert move == MovePod(
        node="n1",
        node_uid="uid-n1",
        namespace="apps",
        name="web-1",
        uid="uid-web-1",
        because="PodFailoverRemediation defib-system/n1-abcde",
        since=FAILED_AT,
    )
    assert move.grace_seconds is None, "as the pod says"


def test_progress_alone_writes_nothing() -> None:
    cluster = at_work()
    plan = plan_of(after(cluster, plan_of(cluster), pods=[a_pod("web-1", leaving=True), a_pod("web-2")]))
    assert [type(action) for action in plan.actions] == [MovePod]


def test_it_has_succeeded_when_no_pod_is_left_that_could_be_moved() -> None:
    cluster = at_work()
    daemon = a_pod("proxy-1", owner=("apps/v1", "DaemonSet"))
    cluster = after(cluster, plan_of(cluster), pods=[a_pod("web-1", leaving=True), daemon])
    plan = plan_of(cluster)
    assert conditions(plan) == FINISHED
    assert message(plan) == "2 pods moved; 1 left in place: 1 of a DaemonSet"
    assert (reported(plan)["moved"], reported(plan)["left"]) == (2, 1)
    done = plan_of(after(cluster, plan))
    assert (done.actions, done.nodes, done.moments) == ((), frozenset(), (None, None))


def test_a_node_without_such_pods_is_done_with_one_report() -> None:
    plan = plan_of(the_cluster(a_failover(), pods=[]))
    assert conditions(plan) == FINISHED
    assert message(plan) == "0 pods moved"


def test_another_replica_goes_on_from_what_is_written_down() -> None:
    cluster = at_work()
    half = after(cluster, plan_of(cluster), pods=[a_pod("web-2")])
    assert moved(plan_of(half)) == ["web-2"]
    done = after(half, plan_of(half), pods=[])
    assert reported(plan_of(done))["moved"] == 2


def test_one_that_is_being_deleted_is_let_go_whatever_holds_us_back() -> None:
    item = a_failover(deletion_timestamp=T0, finalizers=["example.com/other", FINALIZER])
    blind = (Blindness("nodes", T0, "gone"), Blindness(COLLECTION, T0, "gone"))
    plan = plan_of(the_cluster(item, pods=WEB, blind=blind), brake_setting=True)
    (release,) = plan.actions
    assert isinstance(release, SetFinalizers)
    assert release.finalizers == ("example.com/other",)
    assert plan.nodes == frozenset()


def test_one_that_is_deleted_and_held_by_others_is_left_to_them() -> None:
    item = a_failover(deletion_timestamp=T0, finalizers=["example.com/other"])
    assert plan_of(the_cluster(item, pods=WEB)).actions == ()


def test_when_its_time_is_up_it_stops_and_says_so() -> None:
    item = a_failover(annotations={medik8s.TIMED_OUT: "2030-01-01T00:00:00Z"})
    cluster = the_cluster(item, pods=WEB)
    plan = plan_of(cluster)
    assert moved(plan) == []
    assert conditions(plan) == {"Processing": "False", "Succeeded": "False", "reason": "RemediationTimedOut"}
    assert plan.nodes == frozenset()
    assert plan_of(after(cluster, plan)).actions == ()


@pytest.mark.parametrize("nodes", [(a_failed_node("n2"),), (a_failed_node("n1", uid="another"),)])
def test_when_the_node_is_gone_it_has_failed(nodes: Any) -> None:
    cluster = msgspec.structs.replace(at_work(), nodes={node.name: node for node in nodes})
    plan = plan_of(cluster)
    assert moved(plan) == []
    assert conditions(plan) == {"Processing": "False", "Succeeded": "False", "reason": "NodeNotFound"}
    assert plan_of(after(cluster, plan)).actions == ()


def test_a_success_stays_one_when_the_node_goes_or_recovers() -> None:
    cluster = the_cluster(a_failover(), pods=[])
    cluster = after(cluster, plan_of(cluster))
    for nodes in ({}, {"n1": a_failed_node(ready="True", since=T0)}):
        assert plan_of(msgspec.structs.replace(cluster, nodes=nodes)).actions == ()


def test_a_node_that_is_ready_keeps_its_pods() -> None:
    for item in (a_failover(), a_failover(held=False)):
        plan = plan_of(the_cluster(item, a_failed_node(ready="True"), pods=WEB))
        assert moved(plan) == []
        assert conditions(plan) == {"Processing": "False", "Succeeded": "Unknown", "reason": "NodeReady"}
        assert plan.nodes == frozenset()


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_not_ready_or_silent_loses_them(ready: str) -> None:
    cluster = the_cluster(a_failover(), a_failed_node(ready=ready), pods=WEB)
    assert moved(plan_of(after(cluster, plan_of(cluster)))) == ["web-1", "web-2"]


def test_a_node_that_fails_once_more_loses_what_it_has_got_meanwhile() -> None:
    cluster = the_cluster(a_failover(), pods=[])
    cluster = after(cluster, plan_of(cluster))
    again = msgspec.structs.replace(
        after(cluster, plan_of(cluster), pods=[a_pod("web-9", created=T0 + MINUTE)]),
        nodes={"n1": a_failed_node(since=T0 + 2 * MINUTE)},
        now=T0 + 3 * MINUTE,
    )
    plan = plan_of(again)
    assert conditions(plan) == WORKING
    assert (reported(plan)["found"], reported(plan)["notReadySince"]) == (1, "2030-01-01T00:02:00Z")
    assert moved(plan_of(after(again, plan))) == ["web-9"]


def test_a_pod_that_was_put_there_after_the_failure_is_never_moved() -> None:
    """It tolerates the failure, and so would its copy: deleting it would make another one, and so on for ever."""
    tolerant = a_pod("web-3", created=T0 + SECOND, tolerations=[Toleration(operator="Exists")])
    plan = plan_of(the_cluster(a_failover(), pods=[tolerant], now=T0 + MINUTE))
    assert conditions(plan) == FINISHED
    assert message(plan) == "0 pods moved; 1 left in place: 1 placed there since the node failed"


def test_a_failure_that_lies_in_the_future_is_no_measure_for_pods() -> None:
    node = a_failed_node(since=T0 + HOUR)
    pods = [a_pod("web-1"), a_pod("web-2", created=T0 + 5 * SECOND)]
    cluster = the_cluster(a_failover(), node, pods=pods, now=T0 + MINUTE)
    assert reported(plan_of(cluster))["found"] == 1


def test_pods_that_have_not_changed_are_not_sorted_again() -> None:
    cluster = at_work()
    before = plan_of(cluster)
    again = plan_of(cluster, before)
    assert again == before
    judged = again.remediations.judged["uid-of-n1"]
    assert judged is before.remediations.judged["uid-of-n1"]
    for other in (after(cluster, before, pods=[a_pod("web-2")]), msgspec.structs.replace(cluster, nodes=newer())):
        assert plan_of(other, before).actions == plan_of(other).actions


def newer() -> dict[str, Node]:
    return {"n1": a_failed_node(since=T0 + SECOND)}


# What holds deletions back.


def paused(reason: str) -> dict[str, Any]:
    return {
        "configmaps": {
            "defib-system/defib-brake": ConfigMap(metadata=Meta(name="defib-brake"), data={"reason": reason})
        }
    }


def test_the_brake_holds_deletions_and_says_so_and_they_go_on_after_it() -> None:
    cluster = at_work()
    braked = msgspec.structs.replace(cluster, others={**cluster.others, **paused("an outage")})
    plan = plan_of(braked)
    assert moved(plan) == []
    assert conditions(plan) == {"Processing": "True", "Succeeded": "Unknown", "reason": "Brake"}
    assert message(plan) == "the brake is on: an outage"
    assert plan.nodes == {"n1"}
    told = after(braked, plan)
    assert plan_of(told).actions == ()
    free = msgspec.structs.replace(told, others={**told.others, "configmaps": {}})
    plan = plan_of(free)
    assert (conditions(plan), reported(plan)["found"]) == (WORKING, 2)
    assert moved(plan_of(after(free, plan))) == ["web-1", "web-2"]


def silent(count: int) -> dict[str, Any]:
    spec = LeaseSpec(holder_identity="x", lease_duration_seconds=40, renew_time=T0 - HOUR)
    nodes = {f"n{place}": a_failed_node(f"n{place}") for place in range(1, count + 1)}
    leases = [Lease(metadata=Meta(name=name, namespace="kube-node-lease"), spec=spec) for name in nodes]
    return {"nodes": nodes, "heartbeats": {lease.key: lease for lease in leases}}


@pytest.mark.parametrize(
    ("doubt", "said"),
    [
        ({"blind": (Blindness("heartbeats", T0, "refused"),)}, "heartbeats are out of sight: refused"),
        ({"blind": (Blindness("configmaps", T0, "refused"),)}, "configmaps are out of sight: refused"),
        ({"blind": (Blindness(COLLECTION, T0, "refused"),)}, f"{COLLECTION} are out of sight: refused"),
        ({"absent": {"configmaps": "forbidden"}}, "configmaps are out of sight: forbidden"),
        ({"absent": {pods_on("n1"): "forbidden"}}, "the pods of node n1 are out of sight: forbidden"),
        ({"doubts": ("most requests fail",)}, "most requests fail"),
        (silent(3), "heartbeats of"),
    ],
)
def test_self_doubt_holds_deletions_and_looks_again_soon(doubt: dict[str, Any], said: str) -> None:
    cluster = msgspec.structs.replace(at_work(), **doubt)
    plan = plan_of(cluster)
    assert moved(plan) == []
    assert conditions(plan)["reason"] == "SelfDoubt"
    assert said in message(plan)
    assert plan.remediations.wake_at == cluster.now + SECOND


def test_while_nodes_are_out_of_sight_nothing_is_concluded_about_them() -> None:
    cluster = msgspec.structs.replace(at_work(), blind=(Blindness("nodes", T0, "refused"),), nodes={})
    assert plan_of(cluster).actions == ()


def unseen(cluster: Cluster, since: datetime, why: str = "not listed yet") -> Cluster:
    return msgspec.structs.replace(cluster, blind=(Blindness(pods_on("n1"), since, why),))


def test_a_first_list_of_pods_may_take_a_moment_before_anybody_is_told() -> None:
    cluster = unseen(the_cluster(a_failover(), pods=[]), T0)
    plan = plan_of(cluster)
    assert plan.actions == ()
    wake_at = plan.remediations.wake_at
    assert wake_at is not None
    late = msgspec.structs.replace(cluster, now=wake_at)
    assert wake_at > T0 + FIRST_SIGHT
    assert conditions(plan_of(late))["reason"] == "SelfDoubt"


def test_pods_that_were_lost_out_of_sight_are_not_deleted_from_memory() -> None:
    cluster = unseen(at_work(), T0 - MINUTE, "connection refused")
    plan = plan_of(cluster)
    assert moved(plan) == []
    assert message(plan) == "the pods of node n1 are out of sight: connection refused"


def test_a_deletion_that_fails_is_told_and_tried_again() -> None:
    failure = Failure(why="pods is forbidden", times=3, again_in=timedelta(seconds=4))
    cluster = msgspec.structs.replace(at_work(), failures={"move uid-web-2": failure})
    plan = plan_of(cluster)
    assert conditions(plan)["reason"] == "DeletionFailed"
    assert message(plan) == "1 pod could not be deleted, such as apps/web-2: pods is forbidden"
    plan = plan_of(after(cluster, plan))
    assert moved(plan) == ["web-1", "web-2"]
    assert reported(plan) == {}


# Oddities.


def test_without_the_annotation_the_name_is_the_node() -> None:
    item = a_failover(name="n1")
    item = msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations=None))
    assert reported(plan_of(the_cluster(item, pods=WEB)))["node"] == "n1"


@pytest.mark.parametrize("status", [{"found": "many"}, {"conditions": "none"}, {"conditions": [{"status": 1}]}, {}])
def test_a_status_that_makes_no_sense_is_written_anew(status: dict[str, Any]) -> None:
    assert conditions(plan_of(the_cluster(a_failover(status=status), pods=WEB))) == WORKING


def test_conditions_of_others_stay_and_ours_keep_the_time_of_their_last_change() -> None:
    foreign = {"type": "Seen", "status": "True", "lastTransitionTime": "2029-01-01T00:00:00Z"}
    cluster = the_cluster(a_failover(status={"conditions": [foreign]}), pods=WEB)
    cluster = after(cluster, plan_of(cluster))
    said = {one["type"]: one for one in reported(plan_of(after(cluster, plan_of(cluster), pods=[])))["conditions"]}
    assert said["Seen"]["lastTransitionTime"] == "2029-01-01T00:00:00Z"
    assert said["Succeeded"]["lastTransitionTime"] == "2030-01-01T00:00:02Z"
    assert said["Succeeded"]["observedGeneration"] == 1


def test_a_name_that_no_node_can_have_is_a_node_that_is_not_there() -> None:
    plan = plan_of(the_cluster(a_failover("x" * 5000, name="odd"), pods=WEB))
    assert conditions(plan)["reason"] == "NodeNotFound"
    assert len(reported(plan)["node"]) == 253


def test_two_remediations_of_one_node_want_its_pods_once() -> None:
    items = [a_failover(name="a"), a_failover(name="b")]
    cluster = the_cluster(items, pods=WEB)
    plan = plan_of(after(cluster, plan_of(cluster)))
    assert plan.nodes == {"n1"}
    assert sorted({action.key for action in plan.actions}) == ["move uid-web-1", "move uid-web-2"]


def test_a_cluster_without_the_kind_has_nothing_to_do() -> None:
    plan = plan_of(Cluster(now=T0))
    assert (plan.actions, plan.nodes, plan.moments) == ((), frozenset(), (None, None))
