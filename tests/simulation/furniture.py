"""What is in a cluster of a drawn shape from the start: its objects."""

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import yaml

from defib.hollow.machine import Bmc
from defib.hollow.storage import CLASS
from defib.model import medik8s
from tests.simulation.shape import (
    DRIVER,
    HOME,
    PODS,
    POOL,
    POOLS,
    SELF,
    SHOP,
    STEP_SECONDS,
    WAIVED,
    ZONE_LABEL,
    Object,
    Shape,
)

FILES = 2  # pods that share a disk
SCRATCH = 2

POLICIES: dict[str, Object] = {
    "at-once": {"selector": {"matchLabels": {"app": "web"}}},
    "gently": {
        "selector": {"matchLabels": {"app": "files"}},
        "deletion": {"mode": "Graceful", "gracePeriodSeconds": 5},
    },
    "after-a-while": {"selector": {}, "dwell": "20s"},
    "proof-d": {"selector": {"matchLabels": {"app": "db"}}, "acceptedProofs": ["A", "D"]},
    "waived": {"selector": {"matchLabels": {"app": WAIVED}}, "acceptedProofs": ["None"]},
}


@cache
def definitions() -> tuple[Object, ...]:
    """Reading them takes longer than a whole simulated day, so it is done once."""
    files = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))
    return tuple(yaml.safe_load(file.read_text()) for file in files)


def furniture(shape: Shape) -> Iterator[tuple[str, Object]]:
    """Each with the resource that it is of."""
    for name in (HOME, SHOP, medik8s.LOCK_NAMESPACE):
        yield "namespaces", {"metadata": {"name": name}}
    data = {key: base64.b64encode(b"demo").decode() for key in ("username", "password")}
    yield "secrets", {"metadata": {"name": "bmc", "namespace": HOME}, "data": data}
    web = {"replicas": shape.web_pods, "selector": {"matchLabels": {"app": "web"}}, "template": _pods("web")}
    yield "deployments.apps", _in_shop("web", web)
    yield "statefulsets.apps", _in_shop("db", _database(shape))
    for app in shape.apps:
        yield from _APPS[app]()
    for kind in dict.fromkeys(shape.ladder):
        spec = {"template": {"spec": _remediation(kind, shape)}}
        yield f"{kind.lower()}templates.defib.dev", {"metadata": {"name": "t", "namespace": HOME}, "spec": spec}
    for name in shape.policies:
        yield "podfailoverpolicies.defib.dev", _in_shop(name, POLICIES[name])
    if shape.watches_drains:
        yield "drainpolicies.defib.dev", {"metadata": {"name": "all"}, "spec": _drains()}
    for number, name in enumerate(shape.check_names):
        yield medik8s.CHECKS, {"metadata": {"name": name}, "spec": _check(shape, number)}


def serving(shape: Shape) -> int:
    """How many pods serve when all is well, but for those of which every node has one."""
    more = {"files": FILES, WAIVED: SCRATCH}
    return shape.databases + shape.web_pods + sum(more.get(app, 0) for app in shape.apps)


def let_in(bmc: Bmc) -> None:
    """All machines have the password that stands in the only secret."""
    bmc.username, bmc.password = "demo", "demo"


# Workloads


def _in_shop(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "namespace": SHOP}, "spec": spec}


def _pods(app: str, mounts: tuple[Object, ...] = (), **more: object) -> Object:
    container = {"name": app, "image": "x"} | ({"volumeMounts": list(mounts)} if mounts else {})
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container], **more}}


def _claim(mode: str) -> Object:
    return {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}


def _database(shape: Shape) -> Object:
    return {
        "replicas": shape.databases,
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "db"}},
        "template": _pods("db", ({"name": "data", "mountPath": "/data"},)),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": _claim("ReadWriteOnce")}],
    }


def _shared_files() -> Iterator[tuple[str, Object]]:
    """One disk that several nodes may write to."""
    yield "persistentvolumeclaims", _in_shop("files", _claim("ReadWriteMany"))
    volume = {"name": "files", "persistentVolumeClaim": {"claimName": "files"}}
    pods = _pods("files", ({"name": "files", "mountPath": "/files"},), volumes=[volume])
    spec = {"replicas": FILES, "selector": {"matchLabels": {"app": "files"}}, "template": pods}
    yield "deployments.apps", _in_shop("files", spec)


def _one_on_each_node() -> Iterator[tuple[str, Object]]:
    pods = _pods("log", tolerations=[{"operator": "Exists"}])
    yield "daemonsets.apps", _in_shop("log", {"selector": {"matchLabels": {"app": "log"}}, "template": pods})


def _without_disks() -> Iterator[tuple[str, Object]]:
    """Of a StatefulSet, so it must not run twice, but for a policy that waives it."""
    spec = {
        "replicas": SCRATCH,
        "serviceName": WAIVED,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": WAIVED}},
        "template": _pods(WAIVED),
    }
    yield "statefulsets.apps", _in_shop(WAIVED, spec)


def _never_lets_go() -> Iterator[tuple[str, Object]]:
    """As one that somebody wrote too tight: it never lets a pod go."""
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    yield "poddisruptionbudgets.policy", _in_shop("web", spec)


_APPS = {"files": _shared_files, "log": _one_on_each_node, WAIVED: _without_disks, "budget": _never_lets_go}


# What is asked of Defib


def _drains() -> Object:
    """With times by which a drain is over within a short day."""
    return {
        "timeout": "20s",
        "expectedDrainTime": "10s",
        "pdbForceDrainTimeout": "30s",
        "extraGrace": "10s",
        "flapWindow": "30s",
        "includeControlPlane": True,
    }


def _remediation(kind: str, shape: Shape) -> Object:
    if kind == PODS:
        return shape.failover
    if kind == SELF:
        return {"workloads": shape.workloads, "attempts": shape.attempts, **shape.self_fence, **shape.times}
    power: Object = {"driver": DRIVER, "address": "{node}", "credentials": {"name": "bmc"}}
    if shape.by_hand:
        power = {"driver": "manual"}
    return {"power": power, "workloads": shape.workloads, "attempts": shape.attempts, **shape.times}


def _check(shape: Shape, number: int) -> Object:
    guards: Object = {} if shape.max_in_flight is None else {"maxInFlight": shape.max_in_flight}
    if shape.per_zone is not None:
        guards["failureDomains"] = [{"label": ZONE_LABEL, "maxInFlight": shape.per_zone}]
    guards |= shape.guards
    patience = f"{shape.patience_seconds}s"
    spec: Object = {
        "selector": _selector(shape, number),
        "unhealthyConditions": [
            {"type": "Ready", "status": status, "duration": patience} for status in ("Unknown", "False")
        ],
        "mode": shape.mode,
    }
    spec |= shape.limit | _steps(shape) | shape.demands
    if guards:
        spec["guards"] = guards
    if shape.healthy_delay_seconds:
        spec["healthyDelay"] = f"{shape.healthy_delay_seconds}s"
    return spec


def _selector(shape: Shape, number: int) -> Object:
    if shape.checks > 1:
        return {"matchLabels": {POOL: POOLS[number]}}
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}


def _steps(shape: Shape) -> Object:
    templates = [_reference(kind) for kind in shape.ladder]
    if len(templates) == 1:
        return {"remediationTemplate": templates[0]}
    steps = [
        {"remediationTemplate": template, "order": order, "timeout": f"{STEP_SECONDS}s"}
        for order, template in enumerate(templates)
    ]
    return {"escalatingRemediations": steps}


def _reference(kind: str) -> Object:
    return {"apiVersion": "defib.dev/v1alpha1", "kind": f"{kind}Template", "name": "t", "namespace": HOME}
