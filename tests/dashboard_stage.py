"""Pictures for the dashboard, and the dashboard on loopback: what an operator of a cluster of any size would show."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.clock import Clock, SystemClock
from defib.decide.plan import NOTHING, Plan, decide
from defib.decide.rules import Rules
from defib.decide.wanted import wanted_kinds
from defib.kube.client import Client
from defib.model import medik8s
from defib.model.cluster import HEARTBEAT_NAMESPACE, Cluster, Missing, Served
from defib.model.health_check import KindRef, NodeHealthCheck
from defib.model.meta import Meta, Unstructured
from defib.model.node import ZONE_LABEL, Lease, LeaseSpec, Node
from defib.model.secret import Secret
from defib.picture import Picture
from defib.web.access import Access
from defib.web.actions import CarryOut
from defib.web.board import Site
from defib.web.board_work import Seats
from defib.web.dashboard import Dashboard, serving_dashboard
from defib.web.live import Sight
from tests.builders import T0, a_node

LOOPBACK = "127.0.0.1"
API = "test.defib.dev/v1alpha1"
TEMPLATE, REMEDIATION = KindRef(API, "FooRemediationTemplate"), KindRef(API, "FooRemediation")
RULES = Rules()
HOUR = timedelta(hours=1)
ALONE = Seats(mode="off", leads=True)


def a_check(name: str = "workers", **spec: Any) -> NodeHealthCheck:
    template = {"apiVersion": API, "kind": TEMPLATE.name, "name": "foo", "namespace": "ns"}
    conditions = [{"type": "Ready", "status": status, "duration": "300s"} for status in ("False", "Unknown")]
    wanted = {
        "selector": {},
        "minHealthy": "51%",
        "unhealthyConditions": conditions,
        "remediationTemplate": template,
    }
    body = {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1}, "spec": wanted | spec}
    return msgspec.convert(body, NodeHealthCheck)


def worker(number: int) -> str:
    return f"worker-{number:04}"


def nodes_of(count: int, *, zones: int = 3, since: datetime = T0 - HOUR) -> dict[str, Node]:
    labels = [{ZONE_LABEL: f"zone-{'abcdefgh'[number % zones]}"} for number in range(count)]
    return {worker(n): a_node(worker(n), labels=labels[n], since=since) for n in range(count)}


def ill(node: Node, since: datetime = T0 - HOUR) -> Node:
    return a_node(node.name, ready="Unknown", labels=node.labels, since=since, version=2)


def a_site(nodes: Mapping[str, Node], *checks: NodeHealthCheck, now: datetime = T0) -> Cluster:
    """With a template that the checks can use, and a heartbeat of every node."""
    template = Unstructured(
        metadata=Meta(name="foo", namespace="ns", uid="uid-foo"), spec={"template": {"spec": {"size": 1}}}
    )
    beats = LeaseSpec(holder_identity="kubelet", lease_duration_seconds=40, renew_time=now)
    site = Cluster(
        now=now,
        nodes=nodes,
        heartbeats={
            f"{HEARTBEAT_NAMESPACE}/{name}": Lease(metadata=Meta(name=name, namespace=HEARTBEAT_NAMESPACE), spec=beats)
            for name in nodes
        },
        others={
            medik8s.CHECKS: {check.name: check for check in checks or (a_check(),)},
            "templates": {template.key: template},
            "foos": {},
        },
        kinds={TEMPLATE: Served("templates", namespaced=True), REMEDIATION: Served("foos", namespaced=True)},
    )
    missing = {kind: Missing("not installed") for kind in wanted_kinds(decide(site, RULES), site, RULES)}
    return msgspec.structs.replace(site, kinds=missing | dict(site.kinds))


def pictured(cluster: Cluster, before: Plan = NOTHING) -> Picture:
    return Picture(cluster, decide(cluster, RULES, before))


class Scene:
    """What the operator would show now; tests put another picture there."""

    def __init__(self, picture: Picture, seats: Seats = ALONE) -> None:
        self.picture = picture
        self.seats = seats
        self.looks = 0

    def look(self) -> Picture:
        self.looks += 1
        return self.picture

    def change(self, **nodes: Node) -> None:
        """Another pass, in which these nodes are others."""
        was = self.picture
        named = {node.name: node for node in nodes.values()}
        cluster = msgspec.structs.replace(was.cluster, nodes={**was.cluster.nodes, **named})
        self.picture = pictured(cluster, was.plan)


def nobody(_: Secret) -> AbstractAsyncContextManager[Client]:
    raise AssertionError("nobody is to be asked about a token")


@asynccontextmanager
async def showing(
    scene: Scene,
    *,
    as_user: Callable[[Secret], AbstractAsyncContextManager[Client]] = nobody,
    carry_out: CarryOut | None = None,
    host: str = LOOPBACK,
    tells: Mapping[str, Callable[[], Awaitable[Any]]] | None = None,
    port: int = 0,
    clock: Clock | None = None,
) -> AsyncIterator[str]:
    """Gives the address of the page."""
    clock = clock or SystemClock()
    dashboard = Dashboard(
        sight=Sight(picture=scene.look, seats=lambda: scene.seats),
        site=Site(replica="defib-0", version="9.9.9", can_act=carry_out is not None, rules=RULES),
        clock=clock,
        access=Access(as_user, clock, RULES.namespace),
        carry_out=carry_out,
        tells=tells or {},
    )
    async with serving_dashboard(dashboard, host, port) as found:
        yield f"http://{LOOPBACK}:{found}"
