"""What a person would have applied to the demo's cluster: workloads, a check, a template, a drain policy. Data."""

import base64
from collections.abc import Iterator, Mapping

from defib.hollow.machine import Bmc
from defib.hollow.storage import CLASS
from defib.model import medik8s
from defib.model.node_drain import WATCH_MARK
from defib.simulate.store import Object

SHOP = "shop"
CHECK = "workers"
TEMPLATE = "power-cycle"
DRIVER = "demo"
WEB_PODS = 18
DATABASES = ("db-0", "db-1", "db-2")
DRAIN_SECONDS = 60.0  # for so long a budget has its way, in the cluster's own time
CACHE = "cache"  # its one pod has a budget that never lets it go
MOST_AT_ONCE = 2  # of nine: a whole zone, which is three, is nobody's failure but the network's


def furniture(namespace: str, patience: str, drain_seconds: float) -> Iterator[tuple[str, Object]]:
    """Each with the resource that it is of."""
    for name in (namespace, SHOP, medik8s.LOCK_NAMESPACE):
        yield "namespaces", {"metadata": {"name": name}}
    yield from _workloads()
    yield "secrets", _secret(namespace)
    yield "powercycleremediationtemplates.defib.dev", _template(namespace)
    yield medik8s.CHECKS, _check(namespace, patience)
    yield "drainpolicies.defib.dev", _drain_policy(drain_seconds)


def let_in(bmc: Bmc) -> None:
    """All machines of the demo have the same password, which stands in its only secret."""
    bmc.username, bmc.password = "demo", "demo"


def labels() -> Mapping[str, str]:
    """Whoever cordons a node of the demo means to drain it."""
    return {WATCH_MARK: "true"}


def _workloads() -> Iterator[tuple[str, Object]]:
    yield "deployments.apps", _deployment("web", WEB_PODS)
    yield "deployments.apps", _deployment(CACHE, 1)
    yield "poddisruptionbudgets.policy", _budget("web", {"maxUnavailable": "50%"})
    yield "poddisruptionbudgets.policy", _budget(CACHE, {"minAvailable": 1})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}
    spec = {
        "replicas": len(DATABASES),
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "db"}},
        "template": _template_of("db", [{"name": "data", "mountPath": "/data"}]),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    yield "statefulsets.apps", {"metadata": {"name": "db", "namespace": SHOP}, "spec": spec}


def _deployment(name: str, replicas: int) -> Object:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": _template_of(name)}
    return {"metadata": {"name": name, "namespace": SHOP}, "spec": spec}


def _template_of(name: str, mounts: list[Object] | None = None) -> Object:
    container = {"name": name, "image": f"registry.example.com/{name}:1"} | ({"volumeMounts": mounts} if mounts else {})
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def _budget(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": SHOP}, "spec": {"selector": {"matchLabels": {"app": name}}} | spec}


def _secret(namespace: str) -> Object:
    data = {key: base64.b64encode(b"demo").decode() for key in ("username", "password")}
    return {"metadata": {"name": "bmc", "namespace": namespace}, "data": data}


def _template(namespace: str) -> Object:
    power = {"driver": DRIVER, "address": "{node}", "credentials": {"name": "bmc"}}
    return {"metadata": {"name": TEMPLATE, "namespace": namespace}, "spec": {"template": {"spec": {"power": power}}}}


def _check(namespace: str, patience: str) -> Object:
    template = {
        "apiVersion": "defib.dev/v1alpha1",
        "kind": "PowerCycleRemediationTemplate",
        "name": TEMPLATE,
        "namespace": namespace,
    }
    spec = {
        "maxUnhealthy": MOST_AT_ONCE,
        "unhealthyConditions": [
            {"type": "Ready", "status": status, "duration": patience} for status in ("Unknown", "False")
        ],
        "remediationTemplate": template,
    }
    return {"metadata": {"name": CHECK}, "spec": spec}


def _drain_policy(seconds: float) -> Object:
    """Budgets have their way for so long; then the pod is deleted past them."""
    times = {"timeout": "1s", "expectedDrainTime": "1s", "pdbForceDrainTimeout": f"{seconds:g}s"}
    return {"metadata": {"name": "default"}, "spec": times}
