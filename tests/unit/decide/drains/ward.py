"""Nodes that are drained, the pods on them and their budgets, for whoever asks what is the matter."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from defib.decide.drains.budgets import Budgets, index_budgets
from defib.decide.drains.doctor import NO_DETAILS, Diagnosis, PodDiagnosis, diagnose
from defib.decide.drains.findings import Details, Finding
from defib.decide.drains.intent import UNSCHEDULABLE
from defib.decide.rules import Rules
from defib.model.budget import BUDGET
from defib.model.cluster import Cluster, Served
from defib.model.drain_policy import POLICY
from defib.model.meta import Meta, Unstructured
from defib.model.node import Node, NodeSpec, Taint
from defib.model.node_drain import DRAIN, WATCH_MARK
from defib.model.pod import Pod, pods_on
from tests.builders import MINUTE, T0, a_node
from tests.unit.decide.failover.failovers import PLACE, a_pod

KINDS = {
    BUDGET: Served("budgets", namespaced=True),
    POLICY: Served("policies", namespaced=False),
    DRAIN: Served("drains", namespaced=False),
}
READY = [{"type": "Ready", "status": "True"}]
WEB = {"app": "web"}


def a_web_pod(name: str = "web-1", *, ready: bool = True, **fields: Any) -> Pod:
    """Of the application that budgets protect here."""
    pod = a_pod(name, **{"labels": WEB} | fields)
    status = msgspec.structs.replace(pod.status, conditions=READY if ready else [])
    return msgspec.structs.replace(pod, status=status)


def a_leaving_pod(name: str = "web-1", *, ended: datetime, grace: int = 30, **fields: Any) -> Pod:
    """One that was told to go, and should have ended by then."""
    pod = a_web_pod(name, **fields)
    meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=ended, deletion_grace_period_seconds=grace)
    return msgspec.structs.replace(pod, metadata=meta)


def a_budget(
    name: str = "web",
    *,
    allowed: int = 0,
    healthy: int = 3,
    desired: int = 3,
    expected: int = 3,
    changed: bool = False,
    conditions: Iterable[Mapping[str, str]] = (),
    **spec: Any,
) -> Unstructured:
    """`changed`: since its pods were last counted."""
    spec = {"selector": {"matchLabels": WEB}} | (spec or {"minAvailable": desired})
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "observedGeneration": 1 if changed else 2,
        "conditions": [*conditions],
    }
    meta = Meta(name=name, namespace=PLACE, uid=f"uid-{name}", generation=2)
    return Unstructured(metadata=meta, spec=spec, status=status)


def a_drain_policy(name: str = "workers", **spec: Any) -> Unstructured:
    return Unstructured(metadata=Meta(name=name, uid=f"uid-{name}", generation=1), spec=spec)


def a_record(node: str = "n1", **status: Any) -> Unstructured:
    return Unstructured(
        metadata=Meta(name=node, uid=f"uid-drain-{node}"), spec={}, status={"nodeUID": f"uid-{node}"} | status
    )


def a_parked_node(name: str = "n1", *, minutes: float = 10, **fields: Any) -> Node:
    """Cordoned so many minutes ago."""
    taint = Taint(key=UNSCHEDULABLE, effect="NoSchedule", time_added=T0 - minutes * MINUTE)
    return msgspec.structs.replace(a_node(name, **fields), spec=NodeSpec(unschedulable=True, taints=[taint]))


def a_drained_node(name: str = "n1", *, minutes: float = 10, **fields: Any) -> Node:
    """By kubectl, with the mark."""
    return a_parked_node(name, minutes=minutes, **{"labels": {WATCH_MARK: "true"}} | fields)


def a_ward(
    node: Node,
    *pods: Pod,
    budgets: Iterable[Unstructured] = (),
    policies: Iterable[Unstructured] = (),
    records: Iterable[Unstructured] = (),
    **changes: Any,
) -> Cluster:
    cluster = Cluster(
        now=T0,
        nodes={node.name: node},
        kinds=KINDS,
        others={
            pods_on(node.name): {pod.key: pod for pod in pods},
            "budgets": {item.key: item for item in budgets},
            "policies": {item.key: item for item in policies},
            "drains": {item.key: item for item in records},
        },
    )
    return msgspec.structs.replace(cluster, **changes)


def indexed(*budgets: Unstructured) -> Budgets:
    return index_budgets({item.key: item for item in budgets})


def examined(cluster: Cluster, details: Details = NO_DETAILS) -> Diagnosis:
    (node,) = cluster.nodes.values()
    return diagnose(node, cluster, Rules(), details)


def the_pod(*pods: Pod, details: Details = NO_DETAILS, node: Node | None = None, **ward: Any) -> PodDiagnosis:
    """What is said of the one pod of a node that is drained."""
    (told,) = examined(a_ward(node or a_drained_node(), *pods, **ward), details).pods
    return told


def the_finding(*pods: Pod, **ward: Any) -> Finding:
    (found,) = the_pod(*pods, **ward).findings
    return found


def reasons(told: PodDiagnosis) -> list[str]:
    return [finding.reason.value for finding in told.findings]
