"""When all attempts have failed: the Machine behind a node is deleted, where somebody would make another one."""

from typing import Any

import pytest

from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.power_cycles import power_cycle_order, report_power_cycle
from defib.model import medik8s
from defib.model.action import ReportRemediation
from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef
from defib.model.incident import Phase
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.metal3 import HOST, HOST_LINK
from defib.model.power_cycle import FINALIZER
from tests.builders import T0, a_node
from tests.unit.decide.fencing.cases import an_incident

MACHINE = KindRef("machine.openshift.io/v1beta1", "Machine")
OTHERS = ("v1beta2", "v1beta1")
SPEC = {"power": {"driver": "redfish", "address": "https://bmc"}, "handOver": "DeleteMachine"}
OWNER = OwnerReference(kind="MachineSet", name="workers", uid="s-1", controller=True)


def a_machine(name: str = "m1", node: str = "n1", **meta: Any) -> Unstructured:
    usual: dict[str, Any] = {"owner_references": [OWNER], "annotations": {HOST_LINK: "metal/h1"}}
    metadata = Meta(name=name, namespace="metal", uid=f"uid-{name}", **(usual | meta))
    return Unstructured(metadata=metadata, spec={}, status={"nodeRef": {"name": node}})


def a_host(*, external: bool = False) -> Unstructured:
    spec = {"online": True, "externallyProvisioned": external}
    return Unstructured(metadata=Meta(name="h1", namespace="metal", uid="uid-h1"), spec=spec)


def a_cluster(
    *machines: Unstructured, host: Unstructured | None = None, node: Any = None, seen: bool = True
) -> Cluster:
    kinds: dict[KindRef, Served | Missing] = {
        KindRef(f"cluster.x-k8s.io/{one}", "Machine"): Missing("no") for one in OTHERS
    }
    kinds |= {MACHINE: Served("machines", namespaced=True)} if seen else {}
    kinds |= {HOST: Served("hosts", namespaced=True)}
    others = {"machines": {one.key: one for one in machines}, "hosts": {host.key: host} if host is not None else {}}
    return Cluster(now=T0, nodes={"n1": node or a_node("n1", ready="Unknown")}, kinds=kinds, others=others)


def an_item(**spec: Any) -> Unstructured:
    return Unstructured(metadata=Meta(name="n1", namespace="ops", uid="p-1", finalizers=[FINALIZER]), spec=SPEC | spec)


def handed_over(cluster: Cluster, **spec: Any) -> tuple[str, str]:
    order = power_cycle_order(an_item(**spec), cluster)
    return order.machine.name if order.machine else "", order.host.name if order.host else ""


def test_the_machine_of_the_node_can_be_replaced_and_its_host_is_not_used_again() -> None:
    assert handed_over(a_cluster(a_machine(), a_machine("m2", node="n2"), host=a_host())) == ("m1", "h1")


def test_a_machine_without_a_metal3_host_can_be_replaced_too() -> None:
    assert handed_over(a_cluster(a_machine(annotations={}))) == ("m1", "")


def test_nothing_is_handed_over_where_nobody_wants_that() -> None:
    assert handed_over(a_cluster(a_machine(), host=a_host()), handOver="Person") == ("", "")


@pytest.mark.parametrize(
    "cluster",
    [
        a_cluster(a_machine(owner_references=None), host=a_host()),
        a_cluster(a_machine(labels={"machine.openshift.io/cluster-api-machine-role": "master"}), host=a_host()),
        a_cluster(a_machine(), host=a_host(), node=a_node("n1", labels={"node-role.kubernetes.io/control-plane": ""})),
        a_cluster(a_machine(), host=a_host(external=True)),
        a_cluster(a_machine()),
        a_cluster(a_machine(), a_machine("m2"), host=a_host()),
        a_cluster(host=a_host()),
    ],
    ids=[
        "no owner",
        "master",
        "control plane",
        "externally provisioned",
        "its host is not found",
        "two claim the node",
        "no machine",
    ],
)
def test_what_nobody_would_give_back_is_not_deleted(cluster: Cluster) -> None:
    """RM-19."""
    assert handed_over(cluster) == ("", "")


def test_a_machine_that_is_not_in_sight_is_not_taken_for_gone() -> None:
    assert power_cycle_order(an_item(), a_cluster(a_machine(), host=a_host())).knows_machine
    assert not power_cycle_order(an_item(), a_cluster(seen=False)).knows_machine
    assert power_cycle_order(an_item(), a_cluster(a_machine(node="n2"))).knows_machine


@pytest.mark.parametrize(
    "cluster",
    [a_cluster(a_machine()), a_cluster(a_machine(annotations={"cluster.x-k8s.io/paused": ""}), host=a_host())],
    ids=["its host is not found", "paused"],
)
def test_a_machine_that_must_stay_is_not_taken_for_gone(cluster: Cluster) -> None:
    """While it is being replaced, that would close the incident as if it had been."""
    assert not power_cycle_order(an_item(), cluster).knows_machine


def test_a_check_is_told_that_the_node_goes_for_good() -> None:
    cluster = a_cluster(a_machine(), host=a_host())
    item = an_item()
    (report,) = report_power_cycle(
        item, power_cycle_order(item, cluster), an_incident(Phase.REPLACING), Obstacle("R", "so"), cluster
    )
    assert isinstance(report, ReportRemediation)
    told = {one["type"]: one["status"] for one in report.status["conditions"]}
    assert told == {"Processing": "True", "Succeeded": "Unknown", medik8s.PERMANENT_DELETION: "True"}
