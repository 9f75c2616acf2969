"""Which nodes each upgrade tool holds back while it takes them down on purpose, and when it no longer does."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from defib.decide.upgrade import Signal
from defib.model.meta import Unstructured
from defib.model.node import Node, NodeSpec
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.upgrade_builders import (
    CLUSTER_VERSION,
    CONTROL_PLANE,
    DEPLOYMENT,
    NEWER,
    OLD_DEPLOYMENT,
    OLDER,
    PLAN,
    a_cluster_of,
    a_lock,
    a_node_with,
    an_object,
    having,
    held,
    locked,
    rfc3339,
    under_way,
)

DAY = 24 * HOUR

# --- OpenShift ---


def progressing(status: str) -> Unstructured:
    condition = {
        "type": "Progressing",
        "status": status,
        "lastTransitionTime": rfc3339(T0 - HOUR),
        "message": "12% done",
    }
    return an_object("version", status={"desired": {"version": "4.20.1"}, "conditions": [condition]})


def test_a_progressing_cluster_version_holds_every_node_back_since_it_began() -> None:
    (signal,) = under_way(having(CLUSTER_VERSION, progressing("True")))
    assert signal == Signal(
        name="cluster-version", message="OpenShift is upgrading the cluster to 4.20.1", since=T0 - HOUR
    )
    assert under_way(having(CLUSTER_VERSION, progressing("False"))) == ()


def test_a_changing_machine_config_holds_back_that_node_alone() -> None:
    desired, current = (
        "machineconfiguration.openshift.io/desiredConfig",
        "machineconfiguration.openshift.io/currentConfig",
    )
    cluster = a_cluster_of(
        a_node_with("changing", {desired: "rendered-2", current: "rendered-1"}),
        a_node_with("done", {desired: "rendered-2", current: "rendered-2"}),
        a_node_with("empty", {desired: "", current: "rendered-1"}),
        a_node_with("plain"),
    )
    assert [(signal.message, signal.nodes) for signal in under_way(cluster)] == [
        ("the Machine Config Operator is moving the node from rendered-1 to rendered-2", frozenset({"changing"}))
    ]


# --- kubeadm ---


def test_a_cordoned_node_with_an_older_kubelet_is_being_upgraded() -> None:
    cordon = T0 - 10 * MINUTE
    cluster = a_cluster_of(
        a_node_with("new", kubelet=NEWER), a_node_with("old", kubelet=OLDER, cordoned=cordon, not_ready=T0 - MINUTE)
    )
    assert under_way(cluster) == (
        Signal(
            name="kubeadm",
            message="the node is cordoned with kubelet v1.31.3 while others have v1.31.4",
            nodes=frozenset({"old"}),
            until=cordon + DAY,
            since=cordon,
        ),
    )


def test_pools_of_different_versions_are_no_upgrade() -> None:
    assert (
        held(a_cluster_of(a_node_with("new", kubelet=NEWER), a_node_with("old", kubelet=OLDER, not_ready=T0 - MINUTE)))
        == set()
    )


def test_a_cordoned_node_is_no_upgrade_when_all_versions_are_the_same_or_its_own_is_the_newest() -> None:
    cordon = T0 - MINUTE
    assert (
        held(a_cluster_of(a_node_with("a", kubelet=OLDER), a_node_with("b", kubelet=OLDER, cordoned=cordon))) == set()
    )
    assert (
        held(a_cluster_of(a_node_with("a", kubelet=OLDER), a_node_with("b", kubelet=NEWER, cordoned=cordon))) == set()
    )


def test_ten_is_newer_than_nine() -> None:
    cordon = T0 - MINUTE
    assert (
        held(a_cluster_of(a_node_with("a", kubelet="v1.9.9"), a_node_with("b", kubelet="v1.10.0", cordoned=cordon)))
        == set()
    )
    assert held(
        a_cluster_of(a_node_with("a", kubelet="v1.9.9", cordoned=cordon), a_node_with("b", kubelet="v1.10.0"))
    ) == {"a"}


def test_a_cordon_that_came_after_the_failure_is_no_upgrade() -> None:
    for late, expected in ((timedelta(), {"old"}), (SECOND, set())):
        failed = T0 - MINUTE
        old = a_node_with("old", kubelet=OLDER, cordoned=failed + late, not_ready=failed)
        assert held(a_cluster_of(a_node_with("new", kubelet=NEWER), old)) == expected


def test_a_cordon_older_than_a_day_is_a_parked_node_and_no_upgrade() -> None:
    for age, expected in ((DAY - SECOND, {"old"}), (DAY, set())):
        old = a_node_with("old", kubelet=OLDER, cordoned=T0 - age)
        assert held(a_cluster_of(a_node_with("new", kubelet=NEWER), old)) == expected


def test_a_cordon_of_unknown_age_counts() -> None:
    old = msgspec.structs.replace(a_node_with("old", kubelet=OLDER), spec=NodeSpec(unschedulable=True))
    assert held(a_cluster_of(a_node_with("new", kubelet=NEWER), old)) == {"old"}


def test_a_failure_at_a_time_that_makes_no_sense_is_not_before_the_cordon() -> None:
    for odd in (T0.replace(tzinfo=None) - HOUR, datetime.min.replace(tzinfo=UTC)):
        old = a_node_with("old", kubelet=OLDER, cordoned=T0, not_ready=odd)
        assert held(a_cluster_of(a_node_with("new", kubelet=NEWER), old)) == {"old"}


def test_a_version_that_cannot_be_read_is_neither_older_nor_newer() -> None:
    for text in ("", "latest", "v1", "v1.31", "v" + "9" * 5000, "v1.2." + "3" * 5000):
        odd = a_node_with("odd", kubelet=text, cordoned=T0 - MINUTE)
        assert held(a_cluster_of(odd, a_node_with("new", kubelet=NEWER))) == set()
        assert (
            held(a_cluster_of(a_node_with("odd", kubelet=text), a_node_with("old", kubelet=OLDER, cordoned=T0)))
            == set()
        )


# --- system-upgrade-controller ---


def a_plan(*applying: str, complete: str = "False") -> Unstructured:
    conditions = [{"type": "Complete", "status": complete}]
    status = {"applying": [*applying], "latestVersion": "v1.31.4-k3s1", "conditions": conditions}
    return an_object("agents", "system-upgrade", status=status)


def test_a_plan_holds_back_the_nodes_that_it_is_applied_to() -> None:
    nodes = (a_node_with("a"), a_node_with("b", labels={"kubernetes.io/hostname": "b.example"}), a_node_with("c"))
    (signal,) = under_way(having(PLAN, a_plan("a", "b.example", "gone"), nodes=nodes))
    assert signal.nodes == frozenset({"a", "b"})
    assert signal.message == (
        "system-upgrade-controller is applying Plan system-upgrade/agents (v1.31.4-k3s1) to the node"
    )


def test_a_plan_that_is_complete_or_applied_to_nobody_holds_nothing_back() -> None:
    nodes = (a_node_with("a"),)
    assert under_way(having(PLAN, a_plan("a", complete="True"), nodes=nodes)) == ()
    assert under_way(having(PLAN, a_plan(), nodes=nodes)) == ()
    assert under_way(having(PLAN, a_plan("gone"), nodes=nodes)) == ()


# --- kured ---


def test_the_lock_of_kured_holds_back_the_node_that_it_reboots() -> None:
    assert under_way(locked(a_lock("a"))) == (
        Signal(name="kured", message="kured has locked the node to reboot it", nodes=frozenset({"a"}), since=T0),
    )
    assert held(locked(a_lock("a"), key="kured.dev/kured-node-lock")) == {"a"}


def test_with_concurrency_kured_holds_several_nodes() -> None:
    assert held(locked({"maxOwners": 2, "locks": [a_lock("a"), a_lock("b")]})) == {"a", "b"}
    assert held(locked({"maxOwners": 2, "locks": []})) == set()


def test_the_lock_of_kured_ends_with_its_ttl() -> None:
    (signal,) = under_way(locked(a_lock("a", ttl=HOUR), now=T0 + HOUR - SECOND))
    assert signal.until == T0 + HOUR
    assert held(locked(a_lock("a", ttl=HOUR), now=T0 + HOUR)) == set()


def test_a_lock_of_kured_is_read_as_go_writes_it() -> None:
    text = (
        '{"nodeID":"a","metadata":{"unschedulable":false},"created":"2030-01-01T00:00:00.441623000Z","TTL":60000000000}'
    )
    (signal,) = under_way(locked(text))
    assert signal.until == T0 + MINUTE + timedelta(microseconds=441623)


def test_a_lock_that_a_person_set_against_all_reboots_holds_nothing_back() -> None:
    assert under_way(locked({"nodeID": "manual"})) == ()


def test_only_the_daemon_set_of_kured_is_asked() -> None:
    assert under_way(locked(a_lock("a"), namespace="default")) == ()


def test_a_node_that_kured_marked_is_held_back_wherever_kured_lives() -> None:
    marked = a_node_with("a", {"weave.works/kured-reboot-in-progress": rfc3339(T0 - MINUTE)})
    (signal,) = under_way(a_cluster_of(marked, a_node_with("b")))
    assert (signal.nodes, signal.since) == (frozenset({"a"}), T0 - MINUTE)


# --- Cluster API ---


def a_machine(name: str, owner: str, kind: str = "MachineSet", cluster: str = "prod") -> Node:
    said = {"cluster-name": cluster, "cluster-namespace": "clusters", "owner-kind": kind, "owner-name": owner}
    return a_node_with(name, {f"cluster.x-k8s.io/{key}": value for key, value in said.items()})


def a_deployment(status: Any, name: str = "md", spec: Any = None, **meta: Any) -> Unstructured:
    return an_object(name, "clusters", spec={"clusterName": "prod", **(spec or {})}, status=status, **meta)


ROLLING = {"conditions": [{"type": "RollingOut", "status": "True"}], "replicas": 3, "upToDateReplicas": 3}
SETTLED = {"conditions": [{"type": "RollingOut", "status": "False"}], "replicas": 3, "upToDateReplicas": 2}
MACHINES = (
    a_machine("a", "md-x7k2p"),
    a_machine("b", "md-big-x7k2p"),
    a_machine("c", "md-x7k2p", cluster="other"),
    a_node_with("d"),
)


def test_a_rollout_holds_back_the_nodes_of_that_deployment_in_that_cluster() -> None:
    (signal,) = under_way(having(DEPLOYMENT, a_deployment(ROLLING), nodes=MACHINES))
    assert signal == Signal(
        name="cluster-api", message="Cluster API is rolling out MachineDeployment clusters/md", nodes=frozenset({"a"})
    )
    assert held(having(DEPLOYMENT, a_deployment(SETTLED), nodes=MACHINES)) == set()


def test_a_deployment_with_a_long_name_knows_its_nodes() -> None:
    name = "m" * 60
    machine = a_machine("a", f"{name[:58]}x7k2p")
    assert held(having(DEPLOYMENT, a_deployment(ROLLING, name), nodes=(machine,))) == {"a"}


def test_an_older_cluster_api_tells_a_rollout_by_its_counts() -> None:
    machine = a_machine("a", "md-6d7f9c8b54")
    for updated, expected in ((2, {"a"}), (3, set())):
        deployment = a_deployment({"replicas": 3, "updatedReplicas": updated})
        assert held(having(OLD_DEPLOYMENT, deployment, nodes=(machine,))) == expected
    between = a_deployment({"v1beta2": ROLLING, "conditions": [], "replicas": 3, "updatedReplicas": 3})
    assert held(having(OLD_DEPLOYMENT, between, nodes=(machine,))) == {"a"}


def test_a_rollout_that_is_paused_or_left_to_people_holds_nothing_back() -> None:
    for spec in ({"paused": True}, {"strategy": {"type": "OnDelete"}}, {"rollout": {"strategy": {"type": "OnDelete"}}}):
        assert held(having(DEPLOYMENT, a_deployment(ROLLING, spec=spec), nodes=MACHINES)) == set()
    paused = a_deployment(ROLLING, annotations={"cluster.x-k8s.io/paused": ""})
    assert held(having(DEPLOYMENT, paused, nodes=MACHINES)) == set()


def test_a_rollout_of_the_control_plane_holds_back_its_nodes() -> None:
    plane = an_object("cp", "clusters", status=ROLLING, labels={"cluster.x-k8s.io/cluster-name": "prod"})
    nodes = (a_machine("a", "cp", "KubeadmControlPlane"), a_machine("b", "cp"), a_machine("c", "md-x7k2p"))
    assert held(having(CONTROL_PLANE, plane, nodes=nodes)) == {"a"}
