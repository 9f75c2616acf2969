"""A small cluster as a seed draws it: nodes in zones, workloads, a check within its legal range, replicas of Defib. Data."""

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import yaml

from defib.hollow.machine import Bmc
from defib.hollow.site import Blueprint
from defib.hollow.storage import CLASS
from defib.model import medik8s
from defib.model.health_check import Mode

HOME, SHOP = "defib-system", "shop"
DRIVER = "hollow"
CHECK = "all"
POWER, PODS = "PowerCycleRemediation", "PodFailoverRemediation"
ZONE_LABEL, CONTROL_PLANE = "topology.kubernetes.io/zone", "control-plane"
LADDERS = ((POWER,), (POWER,), (PODS,), (PODS, POWER))
STEP_SECONDS = 300  # of a ladder, before the next one

Object = dict[str, Any]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """`ladder`: by which kinds of remediation the check goes, one after the other."""

    nodes: int
    zones: int
    control_plane: int
    databases: int
    web_pods: int
    ladder: tuple[str, ...]
    limit: Object
    max_in_flight: int | None
    per_zone: int | None
    patience_seconds: int
    healthy_delay_seconds: int
    mode: str
    workloads: str
    attempts: int
    replicas: int
    lease_seconds: float
    resync_seconds: float

    def blueprints(self) -> list[Blueprint]:
        return [self._blueprint(number) for number in range(self.nodes)]

    def _blueprint(self, number: int) -> Blueprint:
        return Blueprint(
            name=f"n{number + 1}",
            zone=f"zone-{'abc'[number % self.zones]}",
            address=f"10.0.0.{number + 1}",
            roles=(CONTROL_PLANE,) if number < self.control_plane else (),
        )

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(f"n{number + 1}" for number in range(self.nodes))

    @property
    def observes(self) -> bool:
        return self.mode == Mode.OBSERVE

    @property
    def switches_power(self) -> bool:
        return POWER in self.ladder and not self.observes


def draw_shape(chance: Random) -> Shape:
    nodes = chance.randint(3, 9)
    return Shape(
        nodes=nodes,
        zones=chance.randint(1, 3),
        control_plane=chance.choice((0, 0, 1, 3)) if nodes > 3 else 0,
        databases=chance.randint(1, 3),
        web_pods=chance.randint(1, 4),
        ladder=chance.choice(LADDERS),
        limit=_draw_limit(chance, nodes),
        max_in_flight=chance.choice((None, 1, 2)),
        per_zone=chance.choice((None, None, 1)),
        patience_seconds=chance.choice((1, 10, 60)),
        healthy_delay_seconds=chance.choice((0, 0, 20)),
        mode=chance.choice((Mode.AUTOMATIC,) * 9 + (Mode.OBSERVE,)),
        workloads=chance.choice(("Auto", "OutOfServiceTaint", "DeleteNode")),
        attempts=chance.randint(1, 3),
        replicas=chance.randint(1, 3),
        lease_seconds=chance.choice((15.0, 15.0, 30.0)),
        resync_seconds=chance.choice((30.0, 300.0)),
    )


def _draw_limit(chance: Random, nodes: int) -> Object:
    return chance.choice(
        (
            {},
            {"minHealthy": "51%"},
            {"minHealthy": chance.randint(1, nodes - 1)},
            {"maxUnhealthy": chance.randint(1, nodes - 1)},
            {"maxUnhealthy": "40%"},
        )
    )


@cache
def definitions() -> tuple[Object, ...]:
    """Reading them takes longer than a whole simulated day, so it is done once."""
    files = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))
    return tuple(yaml.safe_load(file.read_text()) for file in files)


def furniture(shape: Shape) -> Iterator[tuple[str, Object]]:
    """What is in the cluster from the start, each with the resource that it is of."""
    for name in (HOME, SHOP, medik8s.LOCK_NAMESPACE):
        yield "namespaces", {"metadata": {"name": name}}
    data = {key: base64.b64encode(b"demo").decode() for key in ("username", "password")}
    yield "secrets", {"metadata": {"name": "bmc", "namespace": HOME}, "data": data}
    web = {"replicas": shape.web_pods, "selector": {"matchLabels": {"app": "web"}}, "template": _pods("web")}
    yield "deployments.apps", {"metadata": {"name": "web", "namespace": SHOP}, "spec": web}
    yield "statefulsets.apps", {"metadata": {"name": "db", "namespace": SHOP}, "spec": _database(shape)}
    for kind in dict.fromkeys(shape.ladder):
        spec = {"template": {"spec": _remediation(kind, shape)}}
        yield f"{kind.lower()}templates.defib.dev", {"metadata": {"name": "t", "namespace": HOME}, "spec": spec}
    yield medik8s.CHECKS, {"metadata": {"name": CHECK}, "spec": _check(shape)}


def let_in(bmc: Bmc) -> None:
    """All machines have the password that stands in the only secret."""
    bmc.username, bmc.password = "demo", "demo"


def _pods(app: str, mounts: tuple[Object, ...] = ()) -> Object:
    container = {"name": app, "image": "x"} | ({"volumeMounts": list(mounts)} if mounts else {})
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}


def _database(shape: Shape) -> Object:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}
    return {
        "replicas": shape.databases,
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "db"}},
        "template": _pods("db", ({"name": "data", "mountPath": "/data"},)),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }


def _remediation(kind: str, shape: Shape) -> Object:
    if kind == PODS:
        return {}
    power = {"driver": DRIVER, "address": "{node}", "credentials": {"name": "bmc"}}
    return {"power": power, "workloads": shape.workloads, "attempts": shape.attempts}


def _check(shape: Shape) -> Object:
    guards: Object = {} if shape.max_in_flight is None else {"maxInFlight": shape.max_in_flight}
    if shape.per_zone is not None:
        guards["failureDomains"] = [{"label": ZONE_LABEL, "maxInFlight": shape.per_zone}]
    patience = f"{shape.patience_seconds}s"
    spec: Object = {
        "selector": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]},
        "unhealthyConditions": [
            {"type": "Ready", "status": status, "duration": patience} for status in ("Unknown", "False")
        ],
        "mode": shape.mode,
    }
    spec |= shape.limit | _steps(shape)
    if guards:
        spec["guards"] = guards
    if shape.healthy_delay_seconds:
        spec["healthyDelay"] = f"{shape.healthy_delay_seconds}s"
    return spec


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
