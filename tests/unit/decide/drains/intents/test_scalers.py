"""Drains by those who take machines away: Karpenter, cluster-autoscaler and Cluster API. Each has its own deadline."""

from datetime import datetime
from typing import Any

import pytest

from defib.decide.drains.intent import Intent
from defib.decide.drains.intents.cluster_api import EXCLUDED, MACHINES
from defib.decide.drains.intents.karpenter import NODE_CLAIMS, TERMINATION
from defib.model.drain_policy import Source
from defib.model.meta import Unstructured
from defib.model.node import Node, Taint
from tests.builders import HOUR, MINUTE, T0
from tests.unit.decide.drains.intents.scene import CORDON, CORDONED_AT, a_draining_node, an_object, find, rfc3339

# --- Karpenter ---

DISRUPTED = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")


def a_claim(
    name: str,
    node: object,
    *,
    deleted: datetime | None = T0 - HOUR,
    ends: str | None = None,
    grace: object = None,
) -> Unstructured:
    return an_object(
        name,
        spec={"terminationGracePeriod": grace},
        status={"nodeName": node},
        deletion_timestamp=deleted,
        annotations={TERMINATION: ends} if ends is not None else {},
    )


def a_disrupted_node(owner: str = "", *taints: Taint) -> Node:
    return a_draining_node("a", taints=taints or (DISRUPTED,), owner=owner)


@pytest.mark.parametrize("owner", ["", "mine", "long-gone"])
def test_dk_24_karpenter_drains_a_node_since_its_node_claim_was_deleted(owner: str) -> None:
    claims = (a_claim("other", "b", deleted=T0), a_claim("mine", "a"))
    assert find(a_disrupted_node(owner), {NODE_CLAIMS: claims}) == Intent(
        source=Source.KARPENTER,
        why="Karpenter is deleting NodeClaim mine",
        started_at=T0 - HOUR,
        taint="karpenter.sh/disrupted",
    )


def test_dk_25_karpenter_forces_by_itself_at_the_termination_that_it_wrote_down() -> None:
    claim = a_claim("mine", "a", ends=rfc3339(T0 + 5 * MINUTE), grace="10h")
    found = find(a_disrupted_node(), {NODE_CLAIMS: (claim,)})
    assert found is not None
    assert found.deadline == T0 + 5 * MINUTE


@pytest.mark.parametrize("written", [None, "soon"])
def test_dk_25_until_karpenter_wrote_its_deadline_down_the_grace_period_tells_it(written: str | None) -> None:
    claim = a_claim("mine", "a", ends=written, grace="1h30m")
    found = find(a_disrupted_node(), {NODE_CLAIMS: (claim,)})
    assert found is not None
    assert found.deadline == T0 + 30 * MINUTE


@pytest.mark.parametrize("grace", [None, "", "Never", 30, "-5m", "0s", []])
def test_without_a_grace_period_karpenter_has_no_deadline(grace: object) -> None:
    found = find(a_disrupted_node(), {NODE_CLAIMS: (a_claim("mine", "a", grace=grace),)})
    assert found is not None
    assert found.deadline is None


def test_the_taint_of_karpenter_alone_is_no_drain() -> None:
    for claims in ((a_claim("mine", "a", deleted=None),), (a_claim("other", "b"),), (a_claim("odd", ["a"]),), ()):
        assert find(a_disrupted_node(), {NODE_CLAIMS: claims}) is None
    assert find(a_disrupted_node()) is None


def test_a_deleted_node_claim_without_the_taint_is_no_drain_yet() -> None:
    soft = Taint(key=DISRUPTED.key, effect="PreferNoSchedule")
    for taint in (soft, CORDON):
        assert find(a_disrupted_node("mine", taint), {NODE_CLAIMS: (a_claim("mine", "a"),)}) is None


def test_a_deletion_at_a_time_that_makes_no_sense_is_one_all_the_same() -> None:
    for moment in (datetime(1, 1, 1), T0.replace(tzinfo=None), T0.replace(year=9999)):  # noqa: DTZ001  that is the point
        found = find(a_disrupted_node(), {NODE_CLAIMS: (a_claim("mine", "a", deleted=moment, grace="1h"),)})
        assert found is not None
        assert (found.started_at, found.deadline) == (None, None)


# --- cluster-autoscaler ---


def to_be_deleted(value: str, effect: str = "NoSchedule") -> Taint:
    return Taint(key="ToBeDeletedByClusterAutoscaler", effect=effect, value=value)


SECONDS = str(int((T0 - MINUTE).timestamp()))


def test_dk_24_cluster_autoscaler_drains_a_node_since_its_taint_says_so() -> None:
    found = find(a_draining_node("a", taints=(to_be_deleted(SECONDS),)))
    assert found == Intent(
        source=Source.CLUSTER_AUTOSCALER,
        why="cluster-autoscaler is removing the node",
        started_at=T0 - MINUTE,
        deadline=T0 + 14 * MINUTE,
        ends_at=T0 + 119 * MINUTE,
        taint="ToBeDeletedByClusterAutoscaler",
    )


def test_dk_25_cluster_autoscaler_is_given_the_time_after_which_it_gives_up() -> None:
    found = find(a_draining_node("a", taints=(CORDON, to_be_deleted(SECONDS))))
    assert found is not None
    assert found.started_at is not None
    assert found.deadline == found.started_at + 15 * MINUTE


def test_the_soft_taint_of_cluster_autoscaler_is_no_drain() -> None:
    candidate = Taint(key="DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule", value=SECONDS)
    for taint in (candidate, to_be_deleted(SECONDS, "PreferNoSchedule")):
        assert find(a_draining_node("a", taints=(taint,))) is None


@pytest.mark.parametrize("value", ["", "true", "-1", "1", "1893456000.5", "9" * 11, "9" * 5000, "٣" * 10, "1_89345600"])
def test_a_taint_without_a_time_is_not_cluster_autoscalers(value: str) -> None:
    assert find(a_draining_node("a", taints=(to_be_deleted(value),))) is None


# --- Cluster API ---

NEW, OLD = MACHINES
BELONGS = {"cluster.x-k8s.io/machine": "m", "cluster.x-k8s.io/cluster-namespace": "fleet"}
BEGUN = {"nodeDrainStartTime": rfc3339(T0 - MINUTE)}
SINCE_START = Intent(source=Source.CLUSTER_API, why="Cluster API is deleting Machine fleet/m", started_at=T0 - MINUTE)


def a_machine(
    *,
    node: object = "a",
    deleted: datetime | None = T0 - HOUR,
    deletion: object = BEGUN,
    namespace: str = "fleet",
    annotations: dict[str, str] | None = None,
    spec: Any = None,
) -> Unstructured:
    return an_object(
        "m",
        namespace,
        spec=spec,
        status={"nodeRef": {"name": node}, "deletion": deletion},
        deletion_timestamp=deleted,
        annotations=annotations or {},
    )


@pytest.mark.parametrize("kind", MACHINES)
def test_dk_24_cluster_api_drains_the_node_of_a_deleted_machine_since_it_says_so(kind: Any) -> None:
    assert find(a_draining_node("a", BELONGS), {kind: (a_machine(),)}) == SINCE_START


def test_dk_25_cluster_api_gives_up_draining_after_the_timeout_of_its_machine() -> None:
    by_seconds = a_machine(spec={"deletion": {"nodeDrainTimeoutSeconds": 600}})
    by_duration = a_machine(spec={"nodeDrainTimeout": "10m"})
    for kind, machine in ((NEW, by_seconds), (OLD, by_duration)):
        found = find(a_draining_node("a", BELONGS), {kind: (machine,)})
        assert found is not None
        assert found.deadline == T0 + 9 * MINUTE


def test_dk_25_a_timeout_counts_from_the_cordon_where_the_machine_does_not_say_when_it_began() -> None:
    machine = a_machine(deletion=None, spec={"deletion": {"nodeDrainTimeoutSeconds": 600}})
    found = find(a_draining_node("a", BELONGS), {NEW: (machine,)})
    assert found is not None
    assert (found.started_at, found.deadline) == (None, CORDONED_AT + 10 * MINUTE)


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {"deletion": {"nodeDrainTimeoutSeconds": 0}},
        {"deletion": {"nodeDrainTimeoutSeconds": -1}},
        {"deletion": {"nodeDrainTimeoutSeconds": 10**30}},
        {"deletion": {"nodeDrainTimeoutSeconds": True}},
        {"deletion": {"nodeDrainTimeoutSeconds": "600"}},
        {"deletion": "soon"},
        {"nodeDrainTimeout": "0s"},
        {"nodeDrainTimeout": 600},
    ],
)
def test_no_timeout_is_no_deadline(spec: Any) -> None:
    assert find(a_draining_node("a", BELONGS), {NEW: (a_machine(spec=spec),)}) == SINCE_START


@pytest.mark.parametrize(
    "machine",
    [
        a_machine(deleted=None),
        a_machine(node="b"),
        a_machine(node=None),
        a_machine(annotations={EXCLUDED: ""}),
        a_machine(annotations={"cluster.x-k8s.io/paused": "true"}),
        a_machine(annotations={"pre-drain.delete.hook.machine.cluster.x-k8s.io/backup": "backup"}),
        a_machine(deletion={**BEGUN, "waitForNodeVolumeDetachStartTime": rfc3339(T0)}),
    ],
)
def test_a_machine_that_stays_or_is_not_to_be_drained_or_waits_or_is_done_drains_nothing(machine: Unstructured) -> None:
    assert find(a_draining_node("a", BELONGS), {NEW: (machine,)}) is None


def test_a_machine_of_another_cluster_whose_node_has_the_same_name_drains_nothing() -> None:
    assert find(a_draining_node("a"), {NEW: (a_machine(),)}) is None
    assert find(a_draining_node("a", BELONGS), {NEW: (a_machine(namespace="another"),)}) is None


def test_cluster_api_drains_nothing_that_is_not_cordoned() -> None:
    assert find(a_draining_node("a", BELONGS, taints=()), {NEW: (a_machine(),)}) is None


def test_where_both_versions_are_served_the_newer_one_counts() -> None:
    objects = {NEW: (a_machine(),), OLD: (a_machine(deleted=None),)}
    assert find(a_draining_node("a", BELONGS), objects) == SINCE_START
