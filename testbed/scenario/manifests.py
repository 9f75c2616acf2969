"""The Kubernetes objects that the header of a story stands for."""

from collections.abc import Iterator
from typing import Any

import msgspec

from defib.hollow.objects import PODS
from defib.hollow.site import Blueprint
from defib.hollow.storage import CLASS
from defib.kube.kinds import Kind, unstructured
from testbed.scenario.story import (
    Access,
    BarePod,
    Budget,
    DaemonSet,
    Deployment,
    MaxUnavailable,
    MinAvailable,
    NodeRow,
    NodesWithRole,
    StatefulSet,
    StatefulSetWithVolume,
    Story,
    Workload,
)

DEPLOYMENTS = unstructured("apps", "v1", "deployments", "Deployment", namespaced=True)
STATEFUL_SETS = unstructured("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
DAEMON_SETS = unstructured("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
NAMESPACES = unstructured("", "v1", "namespaces", "Namespace", namespaced=False)

APP = "app"
CLAIM = "data"
IMAGE = "registry.example.com/app:1"
GRACE_SECONDS = 5
_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MODES = {Access.RWO: "ReadWriteOnce", Access.RWOP: "ReadWriteOncePod", Access.RWX: "ReadWriteMany"}


class Manifest(msgspec.Struct, frozen=True):
    kind: Kind[Any]
    body: dict[str, Any]


def claim_of(pod: str) -> str:
    """As a StatefulSet names it."""
    return f"{CLAIM}-{pod}"


def blueprints(story: Story, address: str = "") -> list[Blueprint]:
    """Each with an address of its own, or all with this one."""
    placed = [(name, row) for row in story.nodes for name in row.names]
    return [
        Blueprint(name=name, zone=row.zone, address=address or f"10.0.{number >> 8}.{number & 255}", roles=_roles(row))
        for number, (name, row) in enumerate(placed, 1)
    ]


def _roles(row: NodeRow) -> tuple[str, ...]:
    return (row.role.value,) if isinstance(row, NodesWithRole) else ()


def manifests(story: Story, toleration_seconds: int) -> Iterator[Manifest]:
    """In the order in which to make them: a budget is there before the pods that it guards."""
    yield from (_budget(budget) for budget in story.budgets)
    yield from (manifest_of(workload, toleration_seconds) for workload in story.workloads)


def manifest_of(workload: Workload, toleration_seconds: int = 300) -> Manifest:
    """The embedded API server knows only the default toleration, so a pod that no controller makes has its own."""
    match workload:
        case Deployment(name=name, replicas=replicas):
            return _set(DEPLOYMENTS, name, replicas=replicas)
        case StatefulSet(name=name, replicas=replicas):
            return _set(STATEFUL_SETS, name, replicas=replicas, serviceName=name)
        case StatefulSetWithVolume(name=name, replicas=replicas, access=access):
            claims = [{"metadata": {"name": CLAIM}, "spec": _claim_spec(access)}]
            return _set(STATEFUL_SETS, name, replicas=replicas, serviceName=name, volumeClaimTemplates=claims)
        case DaemonSet(name=name):
            return _set(DAEMON_SETS, name)
        case BarePod(name=name):
            spec = _pod_spec() | {"tolerations": [_tolerates(taint, toleration_seconds) for taint in _LOST]}
            return Manifest(PODS, {"metadata": {"name": name, "labels": {APP: name}}, "spec": spec})


def kind_of(workload: Workload) -> Kind[Any]:
    return manifest_of(workload).kind


def pods_wanted(workload: Workload, nodes: int) -> int:
    match workload:
        case DaemonSet():
            return nodes
        case BarePod():
            return 1
        case _:
            return workload.replicas


def _set(kind: Kind[Any], name: str, **spec: Any) -> Manifest:
    mounts = [{"name": CLAIM, "mountPath": "/data"}] if "volumeClaimTemplates" in spec else []
    template = {"metadata": {"labels": {APP: name}}, "spec": _pod_spec(mounts)}
    whole = {"selector": {"matchLabels": {APP: name}}, "template": template, **spec}
    return Manifest(kind, {"metadata": {"name": name}, "spec": whole})


def _pod_spec(mounts: list[dict[str, str]] | None = None) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE} | ({"volumeMounts": mounts} if mounts else {})
    return {"terminationGracePeriodSeconds": GRACE_SECONDS, "containers": [container]}


def _tolerates(taint: str, seconds: int) -> dict[str, Any]:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


def _claim_spec(access: Access) -> dict[str, Any]:
    return {
        "accessModes": [_MODES[access]],
        "storageClassName": CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }


def _budget(budget: Budget) -> Manifest:
    match budget:
        case MinAvailable(count=count):
            limit = {"minAvailable": count}
        case MaxUnavailable(count=count):
            limit = {"maxUnavailable": count}
    selector = {"matchLabels": {APP: budget.workload}}
    return Manifest(BUDGETS, {"metadata": {"name": budget.workload}, "spec": {"selector": selector, **limit}})
