"""What a cluster may hold when somebody looks at the page: sentences that become objects of the embedded server."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from defib.model.medik8s import CHECKS
from defib.model.node_drain import DRAIN_MARK
from tests.check_corpus import a_check, a_condition, simple

Object = dict[str, Any]
Put = tuple[str, Object]

INCIDENTS = "nodeincidents.defib.dev"
DRAIN_POLICIES = "drainpolicies.defib.dev"
TEMPLATES = "podfailoverremediationtemplates.defib.dev"
REMEDIATIONS = "podfailoverremediations.defib.dev"
NAMESPACE = "defib-system"
PATIENCE = timedelta(seconds=300)


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def a_node(name: str, zone: str, now: datetime, *, silent: timedelta | None = None, drained_for: str = "") -> Put:
    """One that has been silent for so long; none means that it is well."""
    condition = {
        "type": "Ready",
        "status": "Unknown" if silent is not None else "True",
        "reason": "NodeStatusUnknown" if silent is not None else "KubeletReady",
        "message": "Kubelet stopped posting node status." if silent is not None else "kubelet is posting ready status",
        "lastTransitionTime": stamp(now - (silent if silent is not None else timedelta(days=9))),
    }
    return "nodes", {
        "metadata": {
            "name": name,
            "labels": {"topology.kubernetes.io/zone": zone} if zone else {},
            "annotations": {DRAIN_MARK: drained_for} if drained_for else {},
        },
        "spec": {
            "unschedulable": bool(drained_for),
            "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}] if drained_for else [],
        },
        "status": {"conditions": [condition], "nodeInfo": {"bootID": f"boot-{name}"}},
    }


def nodes(count: int, zones: Iterable[str], now: datetime) -> Iterator[Put]:
    """All well, as many in each zone."""
    names = list(zones)
    for number in range(count):
        zone = names[number % len(names)]
        yield a_node(f"worker-{zone or 'x'}-{number // len(names) + 1:04}", zone, now)


def a_failover_check(name: str = "workers", **fields: Any) -> Iterator[Put]:
    """With its template."""
    yield "namespaces", {"metadata": {"name": NAMESPACE}}
    yield (
        TEMPLATES,
        {
            "apiVersion": "defib.dev/v1alpha1",
            "kind": "PodFailoverRemediationTemplate",
            "metadata": {"name": "defib-pod-failover", "namespace": NAMESPACE},
            "spec": {"template": {"spec": {}}},
        },
    )
    spec = simple(unhealthyConditions=[a_condition(), a_condition("Ready", "False")], minHealthy="51%", **fields)
    spec.setdefault(
        "selector", {"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}]}
    )
    check = a_check(spec, name)
    yield CHECKS, {**check, "metadata": {**check["metadata"], "uid": f"uid-of-{name}"}}


def a_remediation(node: str, began: datetime, check: str = "workers") -> Put:
    """As the check made it."""
    owner = {
        "apiVersion": "remediation.medik8s.io/v1alpha1",
        "kind": "NodeHealthCheck",
        "name": check,
        "uid": f"uid-of-{check}",
        "controller": True,
    }
    return REMEDIATIONS, {
        "apiVersion": "defib.dev/v1alpha1",
        "kind": "PodFailoverRemediation",
        "metadata": {
            "name": node,
            "namespace": NAMESPACE,
            "creationTimestamp": stamp(began),
            "ownerReferences": [owner],
        },
        "spec": {},
    }


def _entry(at: datetime, phase: str, message: str, kind: str) -> Object:
    return {"at": stamp(at), "phase": phase, "message": message, "kind": kind, "by": "defib-0"}


POWER_CYCLE = (
    (0, "Open", "a NodeHealthCheck wants the machine of {node} power-cycled", "decision"),
    (1, "LookingAtPower", "its power is read as on, by Redfish at bmc-{node}", "evidence"),
    (3, "PoweringOff", "the machine is told to switch off", "action"),
    (11, "FreeingWorkloads", "its power was read as off, twice", "proof"),
    (19, "PoweringOn", "the machine is told to switch on", "action"),
    (26, "WaitingForNode", "it has power; its kubelet has not reported yet", "action"),
    (94, "Restoring", "the node is ready, with another boot", "evidence"),
    (96, "Closed", "the node has recovered", "end"),
)


def a_power_cycle(node: str, opened: datetime, *, steps: int = len(POWER_CYCLE), pace: float = 1.0) -> Put:
    """As far as so many steps; all of them close it."""
    told = [
        _entry(opened + timedelta(seconds=after * pace), phase, message.format(node=node), kind)
        for after, phase, message, kind in POWER_CYCLE[:steps]
    ]
    last, is_closed = told[-1], steps == len(POWER_CYCLE)
    status: Object = {
        "phase": last["phase"],
        "since": last["at"],
        "attempt": 1,
        "reason": last["phase"],
        "message": last["message"],
        "timeline": told,
    }
    if is_closed:
        status |= {"outcome": "Recovered", "closedAt": last["at"], "seconds": POWER_CYCLE[-1][0] * pace}
    if steps > 3:
        status["proof"] = {"grade": "A", "at": told[3]["at"], "how": "its power was read as off, twice"}
    return INCIDENTS, {
        "apiVersion": "defib.dev/v1alpha1",
        "kind": "NodeIncident",
        "metadata": {"name": node, "creationTimestamp": stamp(opened)},
        "spec": {
            "node": node,
            "check": "workers",
            "mode": "Automatic",
            "by": "defib-0",
            "cause": {
                "apiVersion": "defib.dev/v1alpha1",
                "kind": "PowerCycleRemediation",
                "namespace": NAMESPACE,
                "name": node,
                "uid": f"uid-of-{node}",
            },
            "unhealthySince": stamp(opened),
            "evidence": ["Ready is Unknown (NodeStatusUnknown), unhealthy after 300 s"],
            "gates": [
                {
                    "name": "Threshold",
                    "open": True,
                    "value": "8 healthy",
                    "limit": "at least 5 of 9",
                    "message": "8 of 9 nodes are healthy, at least 5 must be",
                }
            ],
        },
        "status": status,
    }


def past(names: Iterable[str], now: datetime) -> Iterator[Put]:
    """A closed power cycle of each, over the last days, some quick, some slow."""
    for number, name in enumerate(names):
        pace = 0.4 + ((number * 37) % 23) / 8
        yield a_power_cycle(name, now - timedelta(hours=5 + number * 7.3), pace=pace)


def a_pod(name: str, node: str, now: datetime, *, app: str, grace: int | None = None) -> Put:
    meta: Object = {
        "name": name,
        "namespace": "shop",
        "labels": {"app": app},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": f"rs-{app}", "controller": True}
        ],
    }
    if grace is not None:
        meta |= {
            "deletionTimestamp": stamp(now - timedelta(minutes=6)),
            "deletionGracePeriodSeconds": grace,
            "finalizers": ["example.com/keep"],
        }
    return "pods", {
        "metadata": meta,
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "shop"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_hanging_drain(node: str, now: datetime) -> Iterator[Put]:
    """Of a node that was given to Defib to drain. A budget allows no disruption, and one pod has a finalizer."""
    yield "namespaces", {"metadata": {"name": "shop"}}
    yield (
        DRAIN_POLICIES,
        {
            "apiVersion": "defib.dev/v1alpha1",
            "kind": "DrainPolicy",
            "metadata": {"name": "all-drains", "uid": "policy-1"},
            "spec": {"mode": "Approve"},
        },
    )
    yield (
        "poddisruptionbudgets.policy",
        {
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            "status": {
                "disruptionsAllowed": 0,
                "currentHealthy": 2,
                "desiredHealthy": 2,
                "expectedPods": 2,
                "observedGeneration": 1,
            },
        },
    )
    yield a_pod("web-7d9f-x2k", node, now, app="web")
    yield a_pod("web-7d9f-p8q", node, now, app="web")
    yield a_pod("queue-0", node, now, app="queue", grace=30)
