"""The real control plane with hollow nodes and hollow storage on it, and its clocks turned up so that a test can wait."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from defib.clock import SystemClock
from defib.hollow.attacher import StorageTimers
from defib.hollow.disk import Disk, Disks
from defib.hollow.machine import Machine
from defib.hollow.nodes import HollowNodes
from defib.hollow.objects import ATTACHMENTS, CLAIMS, PODS, VOLUMES, Attachment, Pod
from defib.hollow.site import Blueprint, Site, in_zones
from defib.hollow.storage import CLASS, HollowStorage
from defib.hollow.timers import Timers
from defib.kube.client import Client, Deletion, Merge, Scope
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import NODES, unstructured
from defib.model.node import Node
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings

DEPLOYMENTS = unstructured("apps", "v1", "deployments", "Deployment", namespaced=True)
STATEFUL_SETS = unstructured("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)

GRACE_SECONDS, TOLERATION_SECONDS = 4, 2
TIMERS = Timers(
    renew_seconds=0.5, boot_seconds=1.0, lease_seconds=4, start_seconds=0.1, stop_seconds=0.2, retry_seconds=0.2
)
STORAGE_TIMERS = StorageTimers(provision_seconds=0.1, attach_seconds=0.2, detach_seconds=0.2)
SETTINGS = Settings(
    controller_manager=(
        f"--node-monitor-grace-period={GRACE_SECONDS}s",
        "--node-monitor-period=500ms",
        "--node-eviction-rate=100",
        "--pvclaimbinder-sync-period=1s",
    ),
    apiserver=(
        f"--default-not-ready-toleration-seconds={TOLERATION_SECONDS}",
        f"--default-unreachable-toleration-seconds={TOLERATION_SECONDS}",
    ),
)
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


class HollowCluster:
    def __init__(self, plane: ControlPlane, client: Client, nodes: HollowNodes, disks: Disks) -> None:
        self.plane = plane
        self.client = client
        self.nodes = nodes
        self.disks = disks

    async def node(self, name: str) -> Node:
        return await self.client.get(NODES.at(name))

    async def can_be_scheduled_on(self) -> bool:
        known = (await self.client.list_all(NODES)).items
        return len(known) == len(self.nodes) and all(node.ready == "True" and not node.spec.taints for node in known)

    async def pods(self, app: str) -> list[Pod]:
        return (await self.client.list_all(PODS, Scope(namespace="default", labels=f"app={app}"))).items

    async def pod(self, name: str) -> Pod | None:
        try:
            return await self.client.get(PODS.at(name, "default"))
        except NotFound:
            return None

    async def running(self, app: str, *, without: str = "") -> list[Pod]:
        """Pods that the API server believes to run, on other nodes than one."""
        return [
            pod
            for pod in await self.pods(app)
            if pod.phase == "Running" and not pod.is_deleted and pod.spec.node_name != without and _is_ready(pod)
        ]

    async def force_delete(self, pod: Pod) -> None:
        await self.client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))

    async def take_out_of_service(self, name: str) -> None:
        """By hand, on nobody's word, as a person in a hurry does. Without it the volume would wait for 6 minutes."""
        taints = [
            {"key": taint.key, "effect": taint.effect, "value": taint.value}
            for taint in (await self.node(name)).spec.taints or ()
        ]
        await self.client.patch(NODES.at(name), Merge({"spec": {"taints": [*taints, OUT_OF_SERVICE]}}))

    async def attachments(self) -> list[Attachment]:
        return (await self.client.list_all(ATTACHMENTS)).items

    async def disk_of(self, claim: str) -> Disk:
        bound = await self.client.get(CLAIMS.at(claim, "default"))
        volume = await self.client.get(VOLUMES.at(bound.spec.volume_name))
        assert volume.spec.csi
        return self.disks.at(volume.spec.csi.volume_handle)

    async def deploy(self, app: str, replicas: int, **pod: Any) -> None:
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": _template(app, **pod)}
        await self.client.create(DEPLOYMENTS, {"metadata": {"name": app}, "spec": spec}, namespace="default")

    async def make_database(self, app: str, *, prefers: str = "") -> None:
        """A StatefulSet of one, with a volume that one node may have; on a certain node, as long as it can be there."""
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        spec = {
            "replicas": 1,
            "serviceName": app,
            "selector": {"matchLabels": {"app": app}},
            "template": _template(app, volumes=["data"], prefers=prefers),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        }
        await self.client.create(STATEFUL_SETS, {"metadata": {"name": app}, "spec": spec}, namespace="default")


def _template(
    app: str, *, volumes: list[str] | None = None, annotations: dict[str, str] | None = None, prefers: str = ""
) -> dict[str, Any]:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in volumes or ()]
    container = {"name": "main", "image": "registry.example.com/app:1", "volumeMounts": mounts}
    metadata = {"labels": {"app": app}, "annotations": annotations or {}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 5, "affinity": _affinity(prefers)}
    return {"metadata": metadata, "spec": spec}


def _affinity(node: str) -> dict[str, Any]:
    if not node:
        return {}
    there = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    wish = {"weight": 100, "preference": there}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.status or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@asynccontextmanager
async def hollow_cluster(
    programs: Programs,
    blueprints: list[Blueprint] | None = None,
    *,
    settings: Settings = SETTINGS,
    timers: Timers = TIMERS,
    machines: Iterable[Machine] = (),
) -> AsyncIterator[HollowCluster]:
    """`machines` are those that nodes share with a BMC."""
    clock = SystemClock()
    async with ControlPlane(programs, settings) as plane:
        await plane.wait_for_namespace("default")
        client = Client(await connect(plane.kubeconfig, None, os.environ, clock), clock)
        try:
            disks = Disks(clock)
            site = Site(client=client, clock=clock, timers=timers, disks=disks)
            nodes = HollowNodes(site, blueprints or in_zones("abc", 2), machines)
            storage = HollowStorage(client, clock, STORAGE_TIMERS)
            await storage.install()
            async with asyncio.TaskGroup() as group:
                living = [group.create_task(nodes.run()), group.create_task(storage.run())]
                cluster = HollowCluster(plane, client, nodes, disks)
                await eventually(cluster.can_be_scheduled_on)
                yield cluster
                for task in living:
                    task.cancel()
        finally:
            await client.close()


async def eventually(holds: Callable[[], Awaitable[bool]], within: float = 30.0) -> None:
    async with asyncio.timeout(within):
        while not await holds():  # noqa: ASYNC110 - the control plane has no event for us
            await asyncio.sleep(0.1)  # its own timers cannot be told to hurry
