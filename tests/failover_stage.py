"""A cluster on the embedded server in which nodes fail and pods leave them, by operators that can be killed.

Nodes are ready or not because somebody says so, and pods stand where they were put: nobody but the operator does
anything here. What it asks for is written down, so that a test can say exactly what was deleted, how, and what was
read on the way. It runs in virtual time.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from defib.app import Operator
from defib.config import Settings
from defib.kube.client import Client, Deletion, Merge
from defib.kube.kinds import CONFIG_MAPS, LEASES, NODE_HEALTH_CHECKS, NODES, unstructured
from defib.kube.transport import Request, Response, Transport
from defib.model import medik8s
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.pod_failover import REMEDIATION, TEMPLATE
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import RAW_NODES, taints_due
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.mortal_operator import NEVER, Doom, Life, MortalLine
from tests.scraping import scraped

HOME, SHOP, ELSEWHERE = "defib-system", "shop", "elsewhere"
OPERATOR = "defib"
LABELS = {"app": "noobaa"}
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", "PodFailoverPolicy", namespaced=True)
TEMPLATES = unstructured("defib.dev", "v1alpha1", "podfailoverremediationtemplates", TEMPLATE.name, namespaced=True)
FAILOVERS = unstructured("defib.dev", "v1alpha1", "podfailoverremediations", REMEDIATION.name, namespaced=True)
BEAT_SECONDS, BEAT_LASTS = 10.0, 40

# Who makes another one, by what stands before the dash in the name of a pod.
OWNERS = {
    "web": ("apps/v1", "ReplicaSet"),
    "db": ("apps/v1", "StatefulSet"),
    "job": ("batch/v1", "Job"),
    "pg": ("postgresql.cnpg.io/v1", "Cluster"),
    "noobaa": ("postgresql.cnpg.io/v1", "Cluster"),
    "agent": ("apps/v1", "DaemonSet"),
}

Object = dict[str, Any]
Step = Callable[[Request], Awaitable[None]]


class Deleted(msgspec.Struct, frozen=True):
    """What the operator asked for when it deleted a pod. Without `grace` it is as the pod says."""

    pod: str
    uid: str
    grace: int | None
    at: float


class _Babble:
    """An answer that nobody can read."""

    status = 200
    headers: Mapping[str, str] = {}

    async def read(self) -> bytes:
        return b'{"kind":\xff\xfe'

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield await self.read()


class _Line:
    """What goes over it is noted; a test may step in before something is sent, or answer nonsense itself."""

    def __init__(self, stage: "Stage") -> None:
        self._stage = stage
        self._transport = InProcess(stage.server, OPERATOR)

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        self._stage.asked.append(request)
        await self._stage.before(request)
        if self._stage.babbles(request):
            yield _Babble()
            return
        async with self._transport.send(request) as response:
            yield response

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()


async def _nothing(request: Request) -> None:  # noqa: ARG001 - nobody steps in
    return


def _never(request: Request) -> bool:  # noqa: ARG001 - every answer is as it was given
    return False


class Running(msgspec.Struct):
    """An operator at work."""

    life: Life
    operator: Operator

    def measures(self, series: str) -> float | None:
        """The value of a series by its whole name; None when it is not there."""
        lines = scraped(self.operator).splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == series), None)

    def held(self, reason: str) -> float | None:
        return self.measures(f'defib_failover_held_nodes{{reason="{reason}"}}')


class Stage:
    """What a test can do to the cluster, and what it can see of it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.server = _a_server(clock)
        self.person = Client(InProcess(self.server, "person"), clock)
        self.deleted: list[Deleted] = []
        self.wrongs: list[str] = []
        self.asked: list[Request] = []
        self.before: Step = _nothing
        self.babbles: Callable[[Request], bool] = _never

    # What is there from the start

    def node(self, name: str, **labels: str) -> None:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.server.put("nodes", {"metadata": {"name": name, "labels": labels}, "status": ready})

    def pod(
        self,
        name: str,
        node: str = "n1",
        *,
        namespace: str = SHOP,
        labels: Mapping[str, str] = LABELS,
        claims: Iterable[str] = (),
        **spec: Any,
    ) -> str:
        """Its UID."""
        owner = OWNERS.get(name.partition("-")[0])
        meta: Object = {"name": name, "namespace": namespace, "labels": dict(labels)}
        if owner is not None:
            reference = {"apiVersion": owner[0], "kind": owner[1], "name": name.rpartition("-")[0], "uid": "u"}
            meta["ownerReferences"] = [reference | {"controller": True}]
        volumes = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": claim}} for n, claim in enumerate(claims)]
        made = {"nodeName": node, "containers": [{"name": "main", "image": "x"}], "volumes": volumes} | spec
        put = self.server.put("pods", {"metadata": meta, "spec": made, "status": {"phase": "Running"}})
        return str(put.object["metadata"]["uid"])

    def claim(self, name: str, mode: str, namespace: str = SHOP) -> None:
        meta = {"name": name, "namespace": namespace}
        self.server.put("persistentvolumeclaims", {"metadata": meta, "spec": {"accessModes": [mode]}})

    async def policy(self, name: str = "noobaa", *, namespace: str = SHOP, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}} | spec}
        await self.person.create(POLICIES, body, namespace=namespace)

    async def check(self, **spec: Any) -> None:
        """A NodeHealthCheck for all nodes, which lets pods leave."""
        await self.person.create(
            TEMPLATES, {"metadata": {"name": "t"}, "spec": {"template": {"spec": {}}}}, namespace=HOME
        )
        template = {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.name, "name": "t", "namespace": HOME}
        unhealthy = [{"type": "Ready", "status": "Unknown", "duration": "10s"}]
        made = {"selector": {}, "unhealthyConditions": unhealthy, "remediationTemplate": template} | spec
        await self.person.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "all"}, "spec": made})

    async def change_check(self, **spec: Any) -> None:
        await self.person.patch(NODE_HEALTH_CHECKS.at("all"), Merge({"spec": spec}))

    # What happens

    async def turn(self, *names: str, ready: str) -> None:
        """Without a word the condition goes away. Kubernetes then keeps pods away from the nodes, or no longer."""
        since = f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        said = [{"type": "Ready", "status": ready, "lastTransitionTime": since}] if ready else []
        for name in names:
            await self.person.patch(NODES.at(name), Merge({"status": {"conditions": said}}), subresource="status")
        for name in names:
            taints = taints_due(await self.person.get(RAW_NODES.at(name)), self.clock.now())
            await self.person.patch(NODES.at(name), Merge({"spec": {"taints": taints}}))

    async def label(self, name: str, labels: Mapping[str, str | None]) -> None:
        await self.person.patch(NODES.at(name), Merge({"metadata": {"labels": dict(labels)}}))

    async def taint(self, name: str, *taints: tuple[str, str]) -> None:
        since = f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        said = [{"key": key, "effect": effect, "timeAdded": since} for key, effect in taints]
        await self.person.patch(NODES.at(name), Merge({"spec": {"taints": said}}))

    async def fail(self, *names: str) -> None:
        """A little later than whatever was done last, all of them at once."""
        await self.seconds(2)
        await self.turn(*names, ready="Unknown")

    async def beat(self, *names: str) -> None:
        """Heartbeats of kubelets, as of now."""
        known = self.server.store.collection(str(LEASES)).objects
        now = f"{self.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
        for name in names:
            spec = {"holderIdentity": name, "leaseDurationSeconds": BEAT_LASTS, "renewTime": now}
            if f"{HEARTBEAT_NAMESPACE}/{name}" in known:
                await self.person.patch(LEASES.at(name, HEARTBEAT_NAMESPACE), Merge({"spec": spec}))
            else:
                body = {"metadata": {"name": name}, "spec": spec}
                await self.person.create(LEASES, body, namespace=HEARTBEAT_NAMESPACE)

    async def go_on_beating(self, *names: str) -> None:
        while True:
            await self.beat(*names)
            await asyncio.sleep(BEAT_SECONDS)  # as kubelets do; virtual

    async def remove_node(self, name: str) -> None:
        node = await self.person.get(NODES.at(name))
        await self.person.delete(NODES.of(node), Deletion(uid=node.uid))

    async def brake(self) -> None:
        await self.person.create(CONFIG_MAPS, {"metadata": {"name": "defib-brake"}}, namespace=HOME)

    async def release(self) -> None:
        brake = await self.person.get(CONFIG_MAPS.at("defib-brake", HOME))
        await self.person.delete(CONFIG_MAPS.of(brake), Deletion(uid=brake.uid))

    async def give_up(self, policy: str) -> None:
        """Somebody deletes it."""
        item = await self.person.get(POLICIES.at(policy, SHOP))
        await self.person.delete(POLICIES.of(item), Deletion(uid=item.uid))

    async def seconds(self, count: float) -> None:
        """Virtual ones: they pass at once."""
        await asyncio.sleep(count)

    @asynccontextmanager
    async def operator(self, doom: Doom = NEVER, **settings: Any) -> AsyncIterator[Running]:
        """One with its own memory, until the context is left or its doom strikes. If it breaks, so does the test."""
        life = Life(doom)
        line: Transport = MortalLine(_Line(self), life, self._noted)
        operator = Operator(line, self.clock, Settings(default_check="off", **settings), Metrics())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            try:
                yield Running(life, operator)
            finally:
                running.cancel()

    def _noted(self, request: Request) -> None:
        if request.method != "DELETE" or "/pods/" not in request.path:
            return
        said = msgspec.json.decode(request.body)
        uid, grace = said["preconditions"]["uid"], said.get("gracePeriodSeconds")
        name = request.path.removeprefix("/api/v1/namespaces/").replace("/pods/", "/").removeprefix(f"{SHOP}/")
        self.deleted.append(Deleted(name, uid, grace, self.clock.monotonic()))
        self._check_record(uid)

    def _check_record(self, uid: str) -> None:
        """Before the first pod of a node is deleted, it stands written for whose sake."""
        node = next((pod["spec"]["nodeName"] for pod in self.all("pods") if pod["metadata"]["uid"] == uid), "")
        said = [one for policy in self.all(str(POLICIES)) for one in (policy.get("status") or {}).get("nodes") or ()]
        by_policy = any(one["name"] == node and one.get("begun") for one in said)
        asked_for = [item for item in self.all(str(FAILOVERS)) if item["metadata"]["name"].startswith(node)]
        by_check = any("found" in (item.get("status") or {}) for item in asked_for)
        if node and not by_policy and not by_check:
            self.wrongs.append(f"a pod of {node} was deleted before anything was written down")

    # What is there

    def all(self, resource: str) -> list[Object]:
        return [version.object for version in self.server.store.collection(resource).objects.values()]

    def pods(self, namespace: str = SHOP, *, node: str = "") -> list[str]:
        """Those that are there to stay."""
        metas = [pod["metadata"] for pod in self.all("pods") if node in ("", pod["spec"]["nodeName"])]
        staying = [meta for meta in metas if meta["namespace"] == namespace and "deletionTimestamp" not in meta]
        return sorted(str(meta["name"]) for meta in staying)

    def uid(self, pod: str) -> str:
        return next((str(one["metadata"]["uid"]) for one in self.all("pods") if one["metadata"]["name"] == pod), "")

    @property
    def tried(self) -> list[str]:
        """Pods that the operator asked to be deleted, each as often as it did."""
        return sorted(one.pod for one in self.deleted)

    def status(self, policy: str = "noobaa") -> Object:
        return next(one for one in self.all(str(POLICIES)) if one["metadata"]["name"] == policy).get("status") or {}

    def settled(self, policy: str = "noobaa") -> str:
        """`True Moved`, `False Budget`."""
        return self._condition(policy, "Settled", "reason")

    def valid(self, policy: str = "noobaa") -> str:
        return self._condition(policy, "Valid", "reason")

    def message(self, policy: str = "noobaa") -> str:
        return self._condition(policy, "Settled", "message").partition(" ")[2]

    def _condition(self, policy: str, kind: str, field: str) -> str:
        conditions = self.status(policy).get("conditions") or ()
        return next((f"{one['status']} {one[field]}" for one in conditions if one["type"] == kind), "")

    def entry(self, node: str, policy: str = "noobaa") -> Object:
        """What it says about a node. A number that is not written is 0."""
        said: Object = next((one for one in self.status(policy).get("nodes") or () if one["name"] == node), {})
        return {"found": 0, "moved": 0, "waiting": 0, "kept": 0} | said

    def states(self, policy: str = "noobaa") -> dict[str, str]:
        return {one["name"]: one["state"] for one in self.status(policy).get("nodes") or ()}

    def events(self, reason: str) -> list[str]:
        return [event["message"] for event in self.all("events") if event["reason"] == reason]


@cache
def _definitions() -> list[Object]:
    """Reading them takes longer than a whole simulated failover, so it is done once."""
    files = sorted((Path(__file__).parents[1] / "deploy" / "crds").glob("*.yaml"))
    return [yaml.safe_load(file.read_text()) for file in files]


def _a_server(clock: VirtualClock) -> ApiServer:
    server = ApiServer(clock)
    for definition in _definitions():
        server.put("customresourcedefinitions.apiextensions.k8s.io", definition)
    for name in (HOME, SHOP, ELSEWHERE, medik8s.LOCK_NAMESPACE):
        server.put("namespaces", {"metadata": {"name": name}})
    return server


Story = Callable[[Stage], Awaitable[None]]


def play(story: Story, *, nodes: int = 5, limit: timedelta = timedelta(hours=4)) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        for number in range(1, nodes + 1):
            stage.node(f"n{number}")
        await stage.seconds(5)
        await story(stage)
        assert stage.wrongs == []

    run(main, limit=limit)
