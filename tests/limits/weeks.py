"""Weeks in the life of a small cluster, in virtual time: machines hang and are power-cycled, nodes come, fail and go for ever."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import msgspec
import yaml

from defib.app import Operator
from defib.config import Settings
from defib.decide.accounts.history import KEPT_IN_ALL
from defib.hollow.attacher import StorageTimers
from defib.hollow.power import HollowPower
from defib.hollow.site import Blueprint
from defib.hollow.timers import Timers
from defib.kube.client import Client, Deletion
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, Kind
from defib.kube.transport import MERGE_PATCH, Request
from defib.model import medik8s
from defib.model.incident import INCIDENTS, Phase, account_name
from defib.power.registry import Drivers
from defib.replica import leadership_of, until_cancelled
from defib.simulate.audit import Audit
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.deleting import DeleteOptions
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.virtual_time import VirtualClock, run
from defib.simulate.workloads import WorkloadTimers
from defib.telemetry.metrics import Metrics
from tests.limits.weighing import Weight, weigh
from tests.scraping import scraped

CRDS = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))
HOME, SHOP = "defib-system", "shop"
POWER, PODS = "PowerCycleRemediation", "PodFailoverRemediation"
HOUR = 3600.0
DAY_SECONDS = 24 * HOUR
PASSING_AT_A_TIME = 6
CHECK_TURNS = 12  # so many hours a check of a name of its own is there
PASSING = "passing"
# Slow, so that weeks do not consist of heartbeats.
TIMERS = Timers(renew_seconds=300, status_seconds=7200, lease_seconds=1200, monitor_seconds=120, grace_seconds=1000)
SLOW_WORK = WorkloadTimers(pod_gc_seconds=600, verify_seconds=3600)
SETTINGS = Settings(
    replica_name="r0",
    default_check="off",
    resync_seconds=3600,
    lease_duration_seconds=900,
    renew_deadline_seconds=600,
    retry_period_seconds=120,
    watch_stall_seconds=3600,
    fence_check_seconds=6 * HOUR,
    upgrade_signals=("announced",),
    remedies=("pod-failover", "power-cycle"),
    pod_failover_policies="off",
)

Object = dict[str, Any]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands at the end of a week."""

    weight: Weight
    series: tuple[str, ...]
    stored: dict[str, int]


class Cluster:
    def __init__(self, clock: VirtualClock) -> None:
        names = [f"n{number}" for number in range(1, 5)]
        blueprints = [Blueprint(name=name, zone="zone-a", address=f"10.0.0.{name[1]}") for name in names]
        self.clock = clock
        self.metrics = Metrics()
        self._cluster = SimulatedCluster(clock, TIMERS, blueprints, SLOW_WORK, StorageTimers())
        self.server = self._cluster.server
        self.server.audit = Audit(100)
        self._admin = Client(self._cluster.transport("admin"), clock)
        self._hours = count()
        for definition in CRDS:
            self.server.put(DEFINITIONS, yaml.safe_load(definition.read_text()))
        for resource, item in _furniture():
            self.server.put(resource, item)
        for node in self._cluster.nodes.values():
            node.machine.bmc.username = node.machine.bmc.password = "demo"
        self.operator = self._operator()

    def _operator(self) -> Operator:
        machines = {name: node.machine for name, node in self._cluster.nodes.items()}
        drivers = Drivers(self.clock, {"hollow": HollowPower(self.clock, machines)})
        transport = self._cluster.transport("defib")
        operator = Operator(transport, self.clock, SETTINGS, self.metrics, drivers)
        operator.leadership = leadership_of(SETTINGS, transport, self.clock, operator)
        return operator

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cluster.run())
            group.create_task(until_cancelled(self.operator))

    async def begin(self) -> None:
        """All nodes have joined."""
        await asyncio.sleep(TIMERS.renew_seconds)

    def grow_old(self) -> None:
        """As many nodes have failed before as Defib remembers: others like the last one that did."""
        incidents = self.server.store.collection(INCIDENTS).objects
        closed = max((one.object for name, one in incidents.items() if PASSING in name), key=_opened)
        assert closed["status"]["phase"] == Phase.CLOSED, closed
        for number in range(KEPT_IN_ALL):
            node, uid = f"before-{number}", f"{number:08}"
            spec = closed["spec"] | {"node": node, "cause": closed["spec"]["cause"] | {"uid": uid}}
            name = account_name(node, uid)
            self.server.put(INCIDENTS, {"metadata": {"name": name}, "spec": spec})
            body = msgspec.json.encode({"status": closed["status"]})
            path = f"{NODE_INCIDENTS.collection()}/{name}/status"
            request = Request(method="PATCH", path=path, body=body, content_type=MERGE_PATCH)
            answer = self.server.answer(request, "admin")  # before anybody else has a turn
            assert answer.status == 200, answer.body

    async def an_hour(self) -> None:
        """A machine hangs; nodes that never were there before come, are not heard of again, and are taken away."""
        hour = next(self._hours)
        self._cluster.nodes[f"n{hour % 4 + 1}"].hang()
        passing = [f"{PASSING}-{hour}-{letter}" for letter in ascii_lowercase[:PASSING_AT_A_TIME]]
        for name in passing:
            self._join(name)
        if hour % CHECK_TURNS == 0:
            await self._exchange_check(hour // CHECK_TURNS)
        await asyncio.sleep(HOUR * 2 / 3)
        for name in passing:
            await self._remove(NODES, name)
        await asyncio.sleep(HOUR / 3)
        self._forget_events()

    def _join(self, name: str) -> None:
        since = f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since, "lastHeartbeatTime": since}
        labels = {PASSING: "yes", "kubernetes.io/hostname": name}
        self.server.put("nodes", {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [ready]}})

    async def _exchange_check(self, number: int) -> None:
        """Somebody writes checks with a new name each time, as deployments by hash do."""
        await self._admin.create(NODE_HEALTH_CHECKS, _check(f"{PASSING}-{number}", PODS, PASSING, "Exists"))
        if number:
            await self._remove(NODE_HEALTH_CHECKS, f"{PASSING}-{number - 1}")

    async def _remove(self, kind: Kind[Any], name: str) -> None:
        item = await self._admin.get(kind.at(name))
        await self._admin.delete(kind.at(name), Deletion(uid=item.uid))

    def _forget_events(self) -> None:
        """As a real API server does after an hour. Of versions that are gone it keeps as little."""
        kind, events = self.server.catalog.of_resource("events"), self.server.store.collection("events")
        for key in tuple(events.objects):
            self.server.deleter.delete(kind, events.objects[key], DeleteOptions())
        self.server.compact()

    def look(self) -> Look:
        text = scraped(self.operator)
        store = self.server.store
        watched = ("nodes", INCIDENTS, "leases.coordination.k8s.io", medik8s.CHECKS, "events")
        return Look(
            weight=weigh(self.operator),
            series=tuple(line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")),
            stored={name: len(store.collection(name).objects) for name in watched},
        )


def _opened(incident: Object) -> str:
    return str(incident["metadata"]["creationTimestamp"])


def live(days: int, at_the_end_of: Callable[[Cluster, int], None]) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = Cluster(clock)
        async with _living(cluster):
            await cluster.begin()
            for _ in range(3):
                await cluster.an_hour()
            cluster.grow_old()
            for day in range(1, days + 1):
                while clock.monotonic() < day * DAY_SECONDS:
                    await cluster.an_hour()
                at_the_end_of(cluster, day)

    run(main, limit=timedelta(days=days + 1))


@asynccontextmanager
async def _living(cluster: Cluster) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(cluster.run())
        yield
        running.cancel()


def _furniture() -> Iterable[tuple[str, Object]]:
    for name in (HOME, SHOP, medik8s.LOCK_NAMESPACE):
        yield "namespaces", {"metadata": {"name": name}}
    data = {key: base64.b64encode(b"demo").decode() for key in ("username", "password")}
    yield "secrets", {"metadata": {"name": "bmc", "namespace": HOME}, "data": data}
    power = {"driver": "hollow", "address": "{node}", "credentials": {"name": "bmc"}}
    for kind, spec in ((POWER, {"power": power}), (PODS, {})):
        template = {"metadata": {"name": "t", "namespace": HOME}, "spec": {"template": {"spec": spec}}}
        yield f"{kind.lower()}templates.defib.dev", template
    web = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "x"}]}}
    deployment: Object = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": web}
    yield "deployments.apps", {"metadata": {"name": "web", "namespace": SHOP}, "spec": deployment}
    yield medik8s.CHECKS, _check("machines", POWER, PASSING, "DoesNotExist")


def _check(name: str, kind: str, label: str, operator: str) -> Object:
    reference = {"apiVersion": "defib.dev/v1alpha1", "kind": f"{kind}Template", "name": "t", "namespace": HOME}
    spec = {
        "selector": {"matchExpressions": [{"key": label, "operator": operator}]},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "duration": "60s"}],
        "maxUnhealthy": "100%",
        "remediationTemplate": reference,
    }
    return {"metadata": {"name": name}, "spec": spec}
