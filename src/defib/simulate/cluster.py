"""A whole small cluster in this process: the embedded API server, hollow nodes, and the controllers of Kubernetes."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from defib.clock import Clock
from defib.hollow.attacher import StorageTimers
from defib.hollow.disk import Disks
from defib.hollow.nodes import HollowNodes
from defib.hollow.site import Blueprint, Site
from defib.hollow.storage import HollowStorage
from defib.hollow.timers import Timers
from defib.kube.client import Client
from defib.kube.transport import Transport
from defib.simulate import controllers
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import NodeLifecycle
from defib.simulate.server import ApiServer
from defib.simulate.workloads import Workloads, WorkloadTimers, pods


class SimulatedCluster:
    """With `storage` timers there is a driver for volumes, too."""

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        blueprints: Iterable[Blueprint],
        workloads: WorkloadTimers | None = None,
        storage: StorageTimers | None = None,
    ) -> None:
        self.server = ApiServer(clock)
        controllers.attach(self.server)
        self.disks = Disks(clock)
        kubelets = Client(self.transport("kubelet"), clock)
        self.nodes = HollowNodes(Site(client=kubelets, clock=clock, timers=timers, disks=self.disks), blueprints)
        self._lifecycle = NodeLifecycle(Client(self.transport("node-lifecycle"), clock), clock, timers)
        self._workloads = Workloads(self.server, clock, workloads)
        volumes = Client(self.transport("storage"), clock)
        self._storage = HollowStorage(volumes, clock, storage) if storage is not None else None

    def transport(self, client: str) -> Transport:
        """A way in for whoever calls itself so."""
        return InProcess(self.server, client)

    def ready_pods(self) -> Counter[str]:
        """How many pods of each node are ready to serve and stay, as the API server has it."""
        stored = (version.object for version in self.server.store.collection("pods").objects.values())
        return Counter(pod["spec"].get("nodeName", "") for pod in stored if pods.active(pod) and pods.ready(pod))

    async def run(self) -> None:
        if self._storage is not None:
            await self._storage.install()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run(), name="hollow nodes")
            group.create_task(self._lifecycle.run(), name="node lifecycle")
            group.create_task(self._workloads.run(), name="workloads")
            if self._storage is not None:
                group.create_task(self._storage.run(), name="storage")
