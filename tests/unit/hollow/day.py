"""A day in the life of a small hollow cluster on the embedded server, in virtual time, with a person who looks at it.

There is no controller manager here: what it would do to pods and volumes, the person does by hand.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from defib.hollow.attacher import StorageTimers
from defib.hollow.disk import Disk, Disks
from defib.hollow.nodes import HollowNodes
from defib.hollow.objects import ATTACHMENTS, CLAIMS, KNOWN_NODES, PODS, VOLUMES, Attachment, Claim, KnownNode, Pod
from defib.hollow.site import DRIVER, Blueprint, Site
from defib.hollow.storage import HollowStorage
from defib.hollow.timers import Timers
from defib.kube.client import Client, Deletion, Merge
from defib.kube.errors import NotFound
from defib.kube.kinds import NODES
from defib.model.node import Node
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run

TIMERS = Timers()
NAMES = ("n1", "n2", "n3")
HEARD_SECONDS = 2.0  # long enough for a watch to tell, and for a polite container to start or stop


class Day:
    def __init__(self, clock: VirtualClock, blueprints: list[Blueprint]) -> None:
        self.clock = clock
        self.server = ApiServer(clock)
        self.disks = Disks(clock)
        site = Site(client=self.client("kubelet"), clock=clock, timers=TIMERS, disks=self.disks)
        self.nodes = HollowNodes(site, blueprints)
        self.storage = HollowStorage(self.client("storage"), clock, StorageTimers())
        self.person = self.client("person")

    def client(self, name: str) -> Client:
        return Client(InProcess(self.server, name), self.clock)

    async def live(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            group.create_task(self.storage.run())

    async def node(self, name: str) -> Node:
        return await self.person.get(NODES.at(name))

    def beats(self, name: str) -> int:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        return sum(1 for asked in self.server.audit if asked.path == path and asked.status == 200)

    async def make_pod(self, name: str, node: str, claim: str = "", **spec: Any) -> Pod:
        """Keywords in capitals are metadata; `annotations` are the hollow ones, without their prefix."""
        annotations = {f"hollow.defib.dev/{key}": value for key, value in spec.pop("annotations", {}).items()}
        metadata = {"name": name, "annotations": annotations, "finalizers": spec.pop("finalizers", [])}
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
        container = {"name": "main", "image": "registry.example.com/db:1"} | spec.pop("container", {})
        body = {"metadata": metadata, "spec": {"nodeName": node, "containers": [container], "volumes": volumes, **spec}}
        return await self.person.create(PODS, body, namespace="default")

    async def pod(self, name: str, namespace: str = "default") -> Pod | None:
        try:
            return await self.person.get(PODS.at(name, namespace))
        except NotFound:
            return None

    async def phase(self, name: str) -> str:
        pod = await self.pod(name)
        return pod.phase if pod else "gone"

    async def delete(self, pod: Pod, grace_seconds: int | None = None) -> None:
        await self.person.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=grace_seconds))

    async def make_volume(self, name: str, mode: str = "ReadWriteOnce") -> Disk:
        """A claim of that name, bound to a volume of that name."""
        source = {"driver": DRIVER, "volumeHandle": f"disk-{name}"}
        spec: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": [mode]}
        await self.person.create(VOLUMES, {"metadata": {"name": name}, "spec": spec | {"csi": source}})
        asked = {"requests": {"storage": "1Gi"}}
        claim = {"accessModes": [mode], "volumeName": name, "resources": asked}
        await self.person.create(CLAIMS, {"metadata": {"name": name}, "spec": claim}, namespace="default")
        return self.disks.at(f"disk-{name}", mode)

    async def attach(self, volume: str, node: str) -> Attachment:
        """What the attach-detach controller does first, and, once the attacher answered, last."""
        spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
        made = await self.person.create(ATTACHMENTS, {"metadata": {"name": f"{volume}-{node}"}, "spec": spec})
        await pass_seconds(2 * StorageTimers().attach_seconds)
        unique = {"name": f"kubernetes.io/csi/{DRIVER}^disk-{volume}", "devicePath": ""}
        patch = Merge({"status": {"volumesAttached": [unique]}})
        await self.person.patch(KNOWN_NODES.at(node), patch, subresource="status")
        return made

    async def attachment(self, volume: str, node: str) -> Attachment | None:
        try:
            return await self.person.get(ATTACHMENTS.at(f"{volume}-{node}"))
        except NotFound:
            return None

    async def detach(self, volume: str, node: str) -> None:
        known = await self.attachment(volume, node)
        assert known
        await self.person.delete(ATTACHMENTS.of(known), Deletion(uid=known.uid))

    async def known_node(self, name: str) -> KnownNode:
        return await self.person.get(KNOWN_NODES.at(name))

    async def claim(self, name: str) -> Claim:
        return await self.person.get(CLAIMS.at(name, "default"))


def blueprints(**also: Any) -> list[Blueprint]:
    return [Blueprint(name=name, zone="zone-a", address=f"10.0.0.{place}", **also) for place, name in enumerate(NAMES)]


def live(
    story: Callable[[Day], Coroutine[Any, Any, None]], *, seed: int = 0, nodes: list[Blueprint] | None = None
) -> None:
    async def main(clock: VirtualClock) -> None:
        day = Day(clock, nodes or blueprints())
        async with asyncio.TaskGroup() as group:
            living = group.create_task(day.live())
            await pass_seconds(1)
            await story(day)
            living.cancel()

    run(main, seed=seed)


async def pass_seconds(seconds: float) -> None:
    await asyncio.sleep(seconds)  # virtual: it takes no time


async def until(holds: Callable[[], Awaitable[bool]], within: float) -> None:
    async with asyncio.timeout(within):
        while not await holds():
            await pass_seconds(0.1)
