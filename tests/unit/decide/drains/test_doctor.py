"""The doctor says of a node who drains it, since when, what comes next and what holds that back."""

from typing import Any

import pytest

from defib.decide.drains.doctor import State
from defib.decide.drains.findings import Reason
from defib.decide.drains.intents.karpenter import NODE_CLAIMS
from defib.model import medik8s
from defib.model.cluster import Blindness, Missing, Served, Unread
from defib.model.config_map import ConfigMap
from defib.model.drain_policy import POLICY
from defib.model.meta import Meta, Unstructured
from defib.model.node import Lease, LeaseSpec, Taint
from defib.model.node_drain import APPROVED_UNTIL, LOCK_HOLDER, WATCH_MARK
from defib.model.pod import pods_on
from tests.builders import HOUR, MINUTE, T0, a_node
from tests.unit.decide.drains.ward import (
    KINDS,
    a_budget,
    a_drain_policy,
    a_drained_node,
    a_leaving_pod,
    a_parked_node,
    a_record,
    a_ward,
    a_web_pod,
    examined,
    reasons,
    the_finding,
    the_pod,
)
from tests.unit.decide.failover.failovers import PLACE, STATEFUL_SET, a_pod, change


def test_a_node_that_is_merely_cordoned_is_parked_and_hears_what_would_block() -> None:
    told = examined(a_ward(a_parked_node(), a_web_pod(), budgets=[a_budget()], policies=[a_drain_policy()]))
    assert (told.state, told.source, told.since) == (State.PARKED, "", T0 - 10 * MINUTE)
    assert told.summary == (
        "not being drained: it is cordoned, but nobody we know drains it (parked); "
        "1 pod would have to leave, 1 of which could not leave now"
    )
    assert told.defib == (
        "does nothing while nobody drains the node; DrainPolicy workers, mode Automatic, would watch that; "
        f"if kubectl drains it, mark it for Defib to see to the end: {WATCH_MARK}=true"
    )
    assert told.is_stuck


def test_a_node_in_service_hears_what_would_block() -> None:
    told = examined(a_ward(a_node("n1"), a_web_pod(), budgets=[a_budget(allowed=1)]))
    assert (told.state, told.since) == (State.IN_SERVICE, None)
    assert told.summary == (
        "not being drained: it is not cordoned; 1 pod would have to leave, and nothing is in its way"
    )
    assert not told.is_stuck


def test_who_drains_it_since_when_and_by_which_policy() -> None:
    told = examined(a_ward(a_drained_node(minutes=7), a_web_pod(), policies=[a_drain_policy(mode="Automatic")]))
    assert (told.state, told.source, told.policy, told.mode) == (State.DRAINING, "Kubectl", "workers", "Automatic")
    assert told.since == T0 - 7 * MINUTE
    assert told.defib == (
        "watches the drain, by DrainPolicy workers, mode Automatic; no operator has recorded the drain yet (does one run?)"
    )
    assert told.summary.startswith("being drained: the node is cordoned, and marked with defib.dev/watch-drain; ")


def test_what_is_written_down_beats_the_cordon() -> None:
    record = a_record(startedAt="2029-12-31T23:00:00Z", phase="Held", reason="Budget", message="at most 1", failed=True)
    cluster = a_ward(a_drained_node(), a_web_pod(), policies=[a_drain_policy()], records=[record])
    told = examined(cluster)
    assert told.since == T0 - HOUR
    assert told.record is not None
    assert (told.record.phase, told.record.reason, told.record.message) == ("Held", "Budget", "at most 1")
    assert told.record.has_failed
    assert told.is_stuck


def test_a_record_of_another_node_of_that_name_is_none() -> None:
    record = a_record(nodeUID="uid-of-its-predecessor", startedAt="2029-12-31T23:00:00Z", failed=True)
    told = examined(a_ward(a_drained_node(), a_web_pod(), policies=[a_drain_policy()], records=[record]))
    assert (told.record, told.since) == (None, T0 - 10 * MINUTE)


def test_without_a_policy_findings_are_told_and_defib_does_nothing() -> None:
    told = examined(a_ward(a_drained_node(), a_web_pod(), budgets=[a_budget()]))
    assert told.defib == "does nothing: the cluster has no DrainPolicy"
    assert reasons(told.pods[0]) == ["BudgetNeverAllows"]
    assert told.pods[0].next is None


def test_a_cluster_without_the_kind_has_no_policy_either() -> None:
    kinds = {**KINDS, POLICY: Missing("no such kind")}
    assert examined(a_ward(a_drained_node(), kinds=kinds)).defib == "does nothing: the cluster has no DrainPolicy"


def test_policies_that_cannot_be_read_are_not_said_to_be_absent() -> None:
    told = examined(a_ward(a_drained_node(), a_web_pod(), absent={"policies": "forbidden"}))
    assert told.defib == "is not known to do anything: DrainPolicies cannot be read"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (a_drain_policy(nodeSelector={"matchLabels": {"a": "b"}}), "no DrainPolicy selects the node"),
        (a_drain_policy(timeout="soon"), "no DrainPolicy selects the node, and workers makes no sense: spec.timeout"),
        (a_drain_policy(sources=["Kured"]), "DrainPolicy workers does not watch drains of Kubectl (spec.sources)"),
    ],
)
def test_a_policy_that_has_nothing_to_do_with_it_says_why(policy: Any, words: str) -> None:
    told = examined(a_ward(a_drained_node(), a_web_pod(), policies=[policy]))
    assert told.defib.startswith("does nothing: ")
    assert words in told.defib
    assert told.pods[0].next is None


def test_what_comes_next_is_the_ladders_own_answer() -> None:
    told = the_pod(a_web_pod(), budgets=[a_budget()], policies=[a_drain_policy()])
    assert told.next is not None
    assert told.next.at == T0 + 35 * MINUTE
    assert told.next.message == "Defib asks for its eviction: it is asked to leave within disruption budget web"
    assert told.later is not None
    assert told.later.at == T0 + 58 * MINUTE


def test_what_is_due_has_no_moment_any_more() -> None:
    told = the_pod(a_web_pod(), policies=[a_drain_policy(timeout="5m")])
    assert told.next is not None
    assert told.next.at is None
    assert told.later is None


def test_a_policy_that_observes_would_only() -> None:
    told = the_pod(a_web_pod(), budgets=[a_budget()], policies=[a_drain_policy(mode="Observe")])
    assert told.next is not None
    assert "would ask for its eviction, but the policy only observes" in told.next.message
    assert told.later is None


def test_a_policy_that_waits_for_approval_says_so_until_it_is_given() -> None:
    policies = [a_drain_policy(mode="Approve")]
    told = the_pod(a_web_pod(), policies=policies)
    assert told.next is not None
    assert "once a person approves it" in told.next.message
    approved = a_drained_node(annotations={APPROVED_UNTIL: "2030-01-01T01:00:00Z"})
    told = the_pod(a_web_pod(), policies=policies, node=approved)
    assert told.next is not None
    assert "approves" not in told.next.message


def test_finalizers_that_may_be_removed_are_named() -> None:
    pod = a_leaving_pod(ended=T0 - MINUTE, finalizers=["example.com/backup"])
    told = the_pod(pod, policies=[a_drain_policy(finalizers=["example.com/backup"])])
    assert told.next is not None
    assert told.next.message.startswith("Defib removes finalizers example.com/backup: ")


def test_the_last_step_is_told() -> None:
    entry = {"namespace": PLACE, "name": "web-1", "uid": "uid-web-1", "rung": "Evict", "at": "2029-12-31T23:59:00Z"}
    record = a_record(startedAt="2029-12-31T22:00:00Z", pods=[entry | {"why": "it is asked to leave"}])
    told = the_pod(a_web_pod(), policies=[a_drain_policy()], records=[record])
    assert told.last is not None
    assert (told.last.message, told.last.at) == ("Evict: it is asked to leave", T0 - MINUTE)


def test_when_the_drain_counts_as_failed() -> None:
    told = examined(a_ward(a_drained_node(), a_web_pod(), budgets=[a_budget()], policies=[a_drain_policy()]))
    assert told.fails_at == T0 - 10 * MINUTE + 76 * MINUTE
    nobody = examined(a_ward(a_drained_node(), policies=[a_drain_policy()]))
    assert nobody.fails_at is None


def test_a_pod_about_which_nothing_can_be_done_fails_when_the_operator_says_so_too() -> None:
    """It has a budget, so it is the time of budgets that counts, also when only a finalizer of somebody else is left."""
    stuck = a_leaving_pod(ended=T0 - 5 * MINUTE, grace=1, finalizers=["example.com/x"])
    told = examined(a_ward(a_drained_node(), stuck, budgets=[a_budget()], policies=[a_drain_policy()]))
    assert told.pods[0].next is not None
    assert told.pods[0].next.message.startswith("nothing: it is held by example.com/x")
    assert told.fails_at == T0 - 10 * MINUTE + 76 * MINUTE


def test_brake_lock_and_remediation_hold_it() -> None:
    brake = ConfigMap(metadata=Meta(name="defib-brake", namespace="defib-system"), data={"reason": "storage"})
    lease = Lease(
        metadata=Meta(name=medik8s.lock_of("n1"), namespace=medik8s.LOCK_NAMESPACE),
        spec=LeaseSpec(holder_identity="node-maintenance", lease_duration_seconds=600, renew_time=T0),
    )
    cluster = a_ward(a_drained_node(), a_web_pod(), policies=[a_drain_policy()], locks={lease.key: lease})
    cluster = change(cluster, others={**cluster.others, "configmaps": {brake.key: brake}})
    assert examined(cluster).holds == (
        "the brake is on: storage",
        "node-maintenance works on the node and holds its lock",
    )
    ours = change(lease, spec=change(lease.spec, holder_identity=LOCK_HOLDER))
    assert examined(change(cluster, others={**cluster.others, "configmaps": {}}, locks={ours.key: ours})).holds == ()


def test_pods_that_are_out_of_sight_are_not_said_to_have_left() -> None:
    blind = (Blindness(pods_on("n1"), T0 - HOUR, "forbidden"),)
    told = examined(a_ward(a_drained_node(), policies=[a_drain_policy()], blind=blind))
    assert told.state is State.DRAINING
    assert told.unknown == ("the pods of node n1 are out of sight: forbidden",)


def test_a_budget_that_cannot_be_read_protects_and_nobody_knows_how() -> None:
    unread = (Unread("budgets", "apps/odd", "not a map"),)
    found = the_finding(a_web_pod(), unread=unread)
    assert (found.reason, found.blocks) == (Reason.BUDGETS_UNKNOWN, False)


def test_a_peers_own_deadline_is_told() -> None:
    taint = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")
    node = a_node("n1")
    node = change(node, spec=change(node.spec, taints=[taint], provider_id="x://1"))
    until = {"karpenter.sh/nodeclaim-termination-timestamp": "2030-01-01T02:00:00Z"}
    claim = Unstructured(
        metadata=Meta(name="c", annotations=until, deletion_timestamp=T0 - MINUTE), status={"nodeName": "n1"}
    )
    cluster = a_ward(node, a_web_pod(), kinds={**KINDS, NODE_CLAIMS: Served("claims", namespaced=False)})
    told = examined(change(cluster, others={**cluster.others, "claims": {"c": claim}}))
    assert (told.source, told.peer_deadline) == ("Karpenter", T0 + 2 * HOUR)


def test_what_cannot_leave_comes_first() -> None:
    pods = (a_web_pod("a", labels={}), a_web_pod("b"), a_pod("c", owner=STATEFUL_SET))
    told = examined(a_ward(a_drained_node(), *pods, budgets=[a_budget()]))
    assert [pod.pod for pod in told.pods] == ["apps/b", "apps/a", "apps/c"]
    assert [pod.pod for pod in told.blocked] == ["apps/b"]
