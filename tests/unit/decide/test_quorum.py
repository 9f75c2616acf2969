"""Whether the control plane survives losing one more node for a while."""

from typing import Any

import pytest

from defib.decide.quorum import CLUSTER_VERSION, PODS
from defib.model.budget import BUDGET
from defib.model.cluster import Blindness, Cluster, Served
from defib.model.meta import Meta, Unstructured
from defib.model.node import Node
from tests.builders import T0, a_node
from tests.unit.decide.checks import (
    KINDS,
    a_check,
    gate_of,
    healthy,
    ill,
    node_of,
    plan_of,
    showing,
    started,
    the_cluster,
)

LABELS = {"node-role.kubernetes.io/control-plane": ""}
CHECK = a_check(maxUnhealthy="100%")


def members(ready: int, *, down: int = 0) -> list[Node]:
    """Ready ones, others that are not ready for a moment, and x, which is unhealthy."""
    well = [a_node(f"cp{place}", labels=LABELS) for place in range(ready)]
    soon = [ill(f"d{place}", since=T0, labels=LABELS) for place in range(down)]
    return [*well, *soon, ill("x", labels=LABELS)]


@pytest.mark.parametrize(
    ("ready", "down", "starts"),
    [
        (0, 0, []),  # the only one
        (1, 0, []),  # one of two: etcd needs both
        (2, 0, ["x"]),
        (1, 1, []),
        (3, 0, ["x"]),  # of four, three are needed
        (2, 1, []),
        (4, 0, ["x"]),
        (3, 1, ["x"]),
        (2, 2, []),
    ],
)
def test_a_control_plane_node_is_taken_out_only_if_the_others_are_a_quorum(
    ready: int, down: int, starts: list[str]
) -> None:
    assert started(plan_of(the_cluster(CHECK, *members(ready, down=down)))) == starts


def test_a_missing_quorum_says_how_many_are_ready_and_how_many_etcd_needs() -> None:
    plan = plan_of(the_cluster(CHECK, *members(1, down=1)))
    gate = gate_of(plan, "Quorum", "x")
    assert (gate.is_open, gate.value, gate.limit) == (False, "1 others ready", "at least 2 of 3")
    assert node_of(plan, "x").reason == "Quorum"


def test_workers_do_not_count_for_a_quorum() -> None:
    assert started(plan_of(the_cluster(CHECK, *members(1), *healthy(5)))) == []
    assert started(plan_of(the_cluster(CHECK, ill("n1"), *members(0), *healthy(5)))) == ["n1"]


# OpenShift

OPENSHIFT = KINDS | {
    CLUSTER_VERSION: Served("clusterversions", namespaced=False),
    BUDGET: Served("budgets", namespaced=True),
    PODS: Served("pods", namespaced=True),
}
NAMESPACE = "openshift-etcd"


def a_budget(allowed: Any, name: str = "guard", namespace: str = NAMESPACE) -> Unstructured:
    return Unstructured(
        metadata=Meta(name=name, namespace=namespace),
        spec={"selector": {"matchLabels": {"app": "guard"}}},
        status={"disruptionsAllowed": allowed},
    )


def a_guard(ready: str | None, node: str = "x", app: str = "guard") -> Unstructured:
    conditions = [{"type": "Ready", "status": ready}] if ready is not None else []
    return Unstructured(
        metadata=Meta(name=f"guard-{node}", namespace=NAMESPACE, labels={"app": app}),
        spec={"nodeName": node},
        status={"conditions": conditions},
    )


def openshift(budgets: list[Unstructured], pods: list[Unstructured], **more: Any) -> Cluster:
    others = {
        "clusterversions": {},
        "budgets": {item.key: item for item in budgets},
        "pods": {item.key: item for item in pods},
    }
    return the_cluster(CHECK, *members(2), kinds=OPENSHIFT, others=others, **more)


@pytest.mark.parametrize(
    ("budgets", "pods", "starts"),
    [
        ([], [], []),
        ([a_budget(1), a_budget(1, "second")], [], []),
        ([a_budget(1), a_budget(0, namespace="elsewhere")], [], ["x"]),
        ([a_budget(1)], [a_guard("True")], ["x"]),
        ([a_budget(0)], [a_guard("True")], []),
        ([a_budget(0)], [a_guard("Unknown")], []),
        ([a_budget(0)], [a_guard("False")], ["x"]),
        ([a_budget(0)], [a_guard(None)], ["x"]),
        ([a_budget(0)], [], ["x"]),
        ([a_budget(0)], [a_guard("True", node="cp0")], ["x"]),
        ([a_budget(0)], [a_guard("True", app="other")], ["x"]),
        ([a_budget(None)], [a_guard("True")], []),
        ([a_budget("2")], [a_guard("True")], []),
    ],
)
def test_on_openshift_the_budget_that_guards_etcd_is_asked(
    budgets: list[Unstructured], pods: list[Unstructured], starts: list[str]
) -> None:
    assert started(plan_of(openshift(budgets, pods))) == starts


def test_on_openshift_one_control_plane_node_at_a_time_holds_beside_the_budget() -> None:
    more = ill("y", labels=LABELS)
    cluster = openshift([a_budget(1)], [])
    nodes = {**cluster.nodes, "y": more}
    assert started(plan_of(the_cluster(CHECK, *nodes.values(), kinds=OPENSHIFT, others=dict(cluster.others)))) == ["x"]


def test_a_worker_is_not_asked_about_etcd() -> None:
    cluster = the_cluster(CHECK, ill("n1"), *healthy(2), kinds=OPENSHIFT)
    assert started(plan_of(cluster)) == ["n1"]


@pytest.mark.parametrize("kind", ["budgets", "pods"])
def test_guards_of_etcd_that_are_out_of_sight_cannot_be_asked(kind: str) -> None:
    blind = (Blindness(kind, T0, "connection refused"),)
    plan = plan_of(openshift([a_budget(0)], [], blind=blind))
    assert started(plan) == []
    assert "out of sight" in node_of(plan, "x").message


def test_guards_of_etcd_that_we_may_not_see_cannot_be_asked() -> None:
    plan = plan_of(openshift([a_budget(0)], [], absent={"pods": "forbidden"}))
    assert started(plan) == []


def test_guards_of_etcd_that_are_not_followed_yet_cannot_be_asked() -> None:
    kinds = {kind: served for kind, served in OPENSHIFT.items() if kind != PODS}
    cluster = the_cluster(CHECK, *members(2), kinds=kinds, others={"budgets": {"b": a_budget(0)}})
    assert started(plan_of(cluster)) == []


@pytest.mark.parametrize(("others", "starts"), [(1, []), (2, ["x"])])
def test_a_node_that_is_ready_and_ill_otherwise_does_not_count_itself(others: int, starts: list[str]) -> None:
    """Of three, one is down: it and another one are ready, and without it etcd would have no quorum."""
    check = a_check(
        maxUnhealthy="100%", unhealthyConditions=[{"type": "DiskPressure", "status": "True", "duration": "1s"}]
    )
    well = [a_node(f"cp{place}", labels=LABELS) for place in range(others)]
    down = [ill(f"d{place}", labels=LABELS) for place in range(2 - others)]
    x = showing(a_node("x", labels=LABELS), "DiskPressure", "True")
    plan = plan_of(the_cluster(check, *well, *down, x))
    assert started(plan) == starts
    assert gate_of(plan, "Quorum", "x").value == f"{others} others ready"
