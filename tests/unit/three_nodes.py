"""A small cluster on the embedded server in virtual time, and a whole operator on it, for tests of pod failover."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml

from defib.app import Operator
from defib.config import Settings
from defib.decide.defaults import default_check
from defib.kube.client import Client, Merge
from defib.kube.kinds import NODE_HEALTH_CHECKS, NODES, Kind, unstructured
from defib.model import medik8s
from defib.model.action import AddDefaultCheck
from defib.model.cluster import Cluster, Served
from defib.model.failover_policy import POLICY
from defib.model.pod_failover import REMEDIATION, TEMPLATE
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import RAW_NODES, taints_due
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import START, VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.mortal_line import Line

CRDS = sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml"))
FAILOVERS = unstructured("defib.dev", "v1alpha1", "podfailoverremediations", REMEDIATION.name, namespaced=True)
TEMPLATES = unstructured("defib.dev", "v1alpha1", "podfailoverremediationtemplates", TEMPLATE.name, namespaced=True)
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", POLICY.name, namespaced=True)
HOME = "defib-system"
OWNERS = {"web": ("apps/v1", "ReplicaSet"), "db": ("apps/v1", "StatefulSet")}


class Cluster3(msgspec.Struct):
    """Three nodes, of which n1 runs two pods that can be moved and one that cannot."""

    server: ApiServer
    clock: VirtualClock
    admin: Client

    async def turn(self, ready: str, node: str = "n1") -> None:
        """And then, as Kubernetes does, it keeps pods away from the node or no longer."""
        await self.say(ready, node)
        await self.taint(node)

    async def say(self, ready: str, node: str = "n1") -> None:
        since = f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        said = [{"type": "Ready", "status": ready, "lastTransitionTime": since}]
        await self.admin.patch(NODES.at(node), Merge({"status": {"conditions": said}}), subresource="status")

    async def taint(self, node: str = "n1") -> None:
        """As its condition asks for."""
        taints = taints_due(await self.admin.get(RAW_NODES.at(node)), self.clock.now())
        await self.admin.patch(NODES.at(node), Merge({"spec": {"taints": taints}}))

    def put_pod(self, name: str, node: str = "n1", **more: Any) -> None:
        api_version, kind = OWNERS[name.partition("-")[0]]
        owner = {"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "u", "controller": True}
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}], **more}
        meta = {"name": name, "namespace": "default", "ownerReferences": [owner]}
        self.server.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})

    async def make_check(self) -> None:
        """The default one, in a hurry."""
        kinds = {kind: Served(kind.name, namespaced=True) for kind in (TEMPLATE, REMEDIATION)}
        action = default_check(Cluster(now=START, others={medik8s.CHECKS: {}}, kinds=kinds), HOME)
        assert isinstance(action, AddDefaultCheck)
        await self.admin.create(TEMPLATES, action.template_body, namespace=HOME)
        hurry = [{"type": "Ready", "status": "Unknown", "duration": "10s"}]
        spec = action.check_body["spec"] | {"unhealthyConditions": hurry}
        await self.admin.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "hasty"}, "spec": spec})

    async def make_policy(self, name: str = "web", **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"selector": {}} | spec}
        await self.admin.create(POLICIES, body, namespace="default")

    async def policy(self, name: str = "web") -> dict[str, Any]:
        """Its status."""
        return (await self.admin.get(POLICIES.at(name, "default"))).status or {}

    async def settled(self, name: str = "web") -> tuple[str, str]:
        said = {one["type"]: one for one in (await self.policy(name)).get("conditions", ())}
        return said["Settled"]["status"], said["Settled"]["reason"]

    def there(self) -> list[str]:
        """The pods that are there and not on their way out."""
        pods = [version.object["metadata"] for version in self.server.store.collection("pods").objects.values()]
        return sorted(meta["name"] for meta in pods if "deletionTimestamp" not in meta)

    def told(self) -> list[tuple[str, str]]:
        """The reasons of all Events in the namespace of the pods, and whom they are about."""
        events = [version.object for version in self.server.store.collection("events").objects.values()]
        return [
            (event["reason"], event["involvedObject"]["kind"])
            for event in events
            if event["involvedObject"].get("namespace") == "default"
        ]

    def leaving(self) -> list[str]:
        pods = [version.object["metadata"] for version in self.server.store.collection("pods").objects.values()]
        return sorted(meta["name"] for meta in pods if "deletionTimestamp" in meta)

    def asked(self, verb: str, what: str) -> list[str]:
        """The names of what the operator has asked for, of one kind."""
        paths = [asked.path for asked in self.server.audit if (asked.client, asked.verb) == ("operator", verb)]
        return [path.rpartition("/")[2] for path in paths if f"/{what}/" in path]

    async def names(self, kind: Kind[Any]) -> list[str]:
        return [item.name for item in (await self.admin.list_all(kind)).items]

    async def status(self) -> dict[str, Any]:
        (item,) = (await self.admin.list_all(FAILOVERS)).items
        return item.status or {}


Scenario = Callable[[Cluster3], Awaitable[None]]


def play(scenario: Scenario, *, crds: bool = True) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        for path in CRDS if crds else ():
            server.put("customresourcedefinitions.apiextensions.k8s.io", yaml.safe_load(path.read_text()))
        for name in (HOME, medik8s.LOCK_NAMESPACE):
            server.put("namespaces", {"metadata": {"name": name}})
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        for name in ("n1", "n2", "n3"):
            server.put("nodes", {"metadata": {"name": name}, "status": ready})
        stage = Cluster3(server, clock, Client(InProcess(server, client="admin"), clock))
        for name in ("web-1", "web-2", "db-0"):
            stage.put_pod(name)
        stage.put_pod("web-3", "n2")
        await asyncio.sleep(1)  # virtual; whatever happens now is later than these
        await scenario(stage)

    run(main, limit=timedelta(hours=2))


@asynccontextmanager
async def operating(stage: Cluster3, *, writes: float = float("inf"), **settings: Any) -> AsyncIterator[Operator]:
    """Until the end of the block, or until so many writes were made."""
    line = Line(stage.server, writes)
    operator = Operator(line, stage.clock, Settings(**settings), Metrics())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(operator.run())
        yield operator
        running.cancel()


async def seconds(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)
