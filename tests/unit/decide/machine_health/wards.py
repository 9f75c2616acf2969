"""Sentences for tests of MachineHealthChecks: `a_machine("m1")`, `a_check()`, `plan_of(...)`."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from defib.decide.machine_health.plan import SETTING, MachineHealth, plan_machine_health
from defib.decide.machine_health.reading import MachineCheck, read_machine_check
from defib.decide.machine_health.said import ALLOWED
from defib.decide.quorum import CLUSTER_VERSION
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action, ReportRemediation
from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef
from defib.model.incident import Cause, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.machine import STRATEGY
from defib.model.machine_action import MachineAction
from defib.model.meta import Meta, OwnerReference, Resource, Unstructured
from defib.model.node import Node
from tests.builders import HOUR, MINUTE, T0, a_node

HOME = "openshift-machine-api"
CHECK = KindRef("machine.openshift.io/v1beta1", "MachineHealthCheck")
MACHINE = KindRef("machine.openshift.io/v1beta1", "Machine")
CAPI_CHECK = KindRef("cluster.x-k8s.io/v1beta2", "MachineHealthCheck")
CAPI_MACHINE = KindRef("cluster.x-k8s.io/v1beta2", "Machine")
FOO = KindRef("example.com/v1", "FooRemediation")
FOO_TEMPLATE = KindRef("example.com/v1", "FooRemediationTemplate")
REF = {"apiVersion": "example.com/v1", "kind": "FooRemediationTemplate", "name": "usual"}
NOT_READY = [
    {"type": "Ready", "status": "False", "timeout": "5m"},
    {"type": "Ready", "status": "Unknown", "timeout": "300s"},
]
KINDS: dict[KindRef, Served | Missing] = {
    CHECK: Served("checks", namespaced=True),
    MACHINE: Served("machines", namespaced=True),
    CLUSTER_VERSION: Missing("this is no OpenShift"),
    FOO: Served("foos", namespaced=True),
    FOO_TEMPLATE: Served("templates", namespaced=True),
}
MASTER = {"machine.openshift.io/cluster-api-machine-role": "master"}
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}
RULES = Rules(serves=frozenset({SETTING}))


def a_machine(name: str, *, node: str | None = None, owned: bool = True, **more: Any) -> Unstructured:
    """Its node is called after it: m1 has n1. `node=""` is one that has none."""
    node = f"n{name[1:]}" if node is None else node
    status: dict[str, Any] = {"phase": more.pop("phase", "Running"), "lastUpdated": stamp(T0 - HOUR)}
    if node:
        status["nodeRef"] = {"kind": "Node", "name": node}
    owner = OwnerReference(api_version=MACHINE.api_version, kind="MachineSet", name="set", uid="s", controller=True)
    meta: dict[str, Any] = {
        "name": name,
        "namespace": HOME,
        "uid": f"uid-{name}",
        "resource_version": "7",
        "labels": {"role": "worker"},
        "owner_references": [owner] if owned else None,
    }
    return Unstructured(
        metadata=Meta(**meta | more.pop("meta", {})),
        spec=more.pop("spec", {}),
        status=status | more.pop("status", {}),
    )


def an_item(
    name: str = "workers", *, meta: Mapping[str, Any] | None = None, status: Any = None, **spec: Any
) -> Unstructured:
    usual: dict[str, Any] = {"name": name, "namespace": HOME, "uid": f"uid-{name}", "resource_version": "3"}
    return Unstructured(
        metadata=Meta(**usual | {"generation": 2} | dict(meta or {})),
        spec={"unhealthyConditions": NOT_READY, "selector": {}} | spec,
        status=status,
    )


def a_check(**spec: Any) -> MachineCheck:
    return read_machine_check(an_item(**spec), CHECK)


def ill(name: str, *, since: datetime = T0 - HOUR, **more: Any) -> Node:
    return a_node(name, ready=more.pop("ready", "Unknown"), since=since, **more)


def a_remediation(name: str, *, owner: str = "", node: str = "", **meta: Any) -> Unstructured:
    owners = [OwnerReference(api_version=MACHINE.api_version, kind="Machine", name=name, uid=owner)] if owner else None
    return Unstructured(
        metadata=Meta(
            name=name,
            namespace=HOME,
            uid=f"uid-foo-{name}",
            annotations={medik8s.NODE_NAME: node} if node else None,
            owner_references=owners,
            **meta,
        )
    )


def an_incident(node: str, phase: Phase = Phase.POWERING_OFF, **spec: Any) -> NodeIncident:
    return NodeIncident(
        metadata=Meta(name=node, uid=f"uid-incident-{node}"),
        spec=IncidentSpec(node=node, cause=Cause(uid="somebody"), **spec),
        status=IncidentStatus(phase=phase),
    )


TEMPLATE = Unstructured(
    metadata=Meta(name="usual", namespace=HOME), spec={"template": {"spec": {"strategy": {"type": "Reboot"}}}}
)


def the_cluster(
    checks: Unstructured | Iterable[Unstructured],
    machines: Iterable[Unstructured],
    *nodes: Node,
    foos: Iterable[Unstructured] = (),
    incidents: Iterable[NodeIncident] = (),
    templates: Iterable[Unstructured] = (TEMPLATE,),
    **more: Any,
) -> Cluster:
    checks = (checks,) if isinstance(checks, Unstructured) else checks
    shelves: dict[str, Iterable[Resource]] = {
        "checks": checks,
        "machines": machines,
        "foos": foos,
        "templates": templates,
        "nodeincidents.defib.dev": incidents,
    }
    others = {name: {item.key: item for item in items} for name, items in shelves.items()}
    fields: dict[str, Any] = {"now": T0, "kinds": KINDS} | more
    return Cluster(nodes={node.name: node for node in nodes}, others=others | fields.pop("others", {}), **fields)


def plan_of(cluster: Cluster, rules: Rules = RULES) -> MachineHealth:
    return plan_machine_health(cluster, rules)


def cures(plan: MachineHealth) -> list[tuple[str, str]]:
    """What is done, to which machines."""
    found = [one for one in plan.actions if isinstance(one, MachineAction)]
    return [(type(one).__name__, one.patient.machine.name) for one in found]


def replaced(plan: MachineHealth) -> list[str]:
    return [name for what, name in cures(plan) if what == "ReplaceMachine"]


def status_in(actions: Iterable[Action]) -> dict[str, Any]:
    """The one status that is written; empty when none is."""
    found = [one.status for one in actions if isinstance(one, ReportRemediation)]
    assert len(found) <= 1
    return found[0] if found else {}


def said(plan: MachineHealth) -> tuple[str, str, str]:
    """Status, reason and message of what is said about being allowed."""
    (condition,) = [one for one in status_in(plan.actions)["conditions"] if one["type"] == ALLOWED]
    return condition["status"], condition["reason"], condition["message"]


def counts(plan: MachineHealth) -> tuple[int, int, int]:
    status = status_in(plan.actions)
    return status["expectedMachines"], status["currentHealthy"], status["remediationsAllowed"]


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


FIVE_MINUTES = 5 * MINUTE
TEN_MINUTES = timedelta(minutes=10)


ITEM = an_item()
EXTERNAL = {"annotations": {STRATEGY: "external-baremetal"}}


def three(*nodes: Node, item: Unstructured = ITEM, **more: Any) -> Cluster:
    """Three machines; those nodes that are not given are ready."""
    known = {node.name: node for node in (a_node("n1"), a_node("n2"), a_node("n3"))}
    known |= {node.name: node for node in nodes}
    return the_cluster(item, [a_machine(name) for name in ("m1", "m2", "m3")], *known.values(), **more)


def the_cure(cluster: Cluster) -> MachineAction:
    (cure,) = [one for one in plan_of(cluster).actions if isinstance(one, MachineAction)]
    return cure
