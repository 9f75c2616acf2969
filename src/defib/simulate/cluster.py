"""A whole small cluster in this process: the embedded API server, hollow nodes, and whoever gives silent ones up."""

import asyncio
from collections.abc import Iterable

from defib.clock import Clock
from defib.hollow.disk import Disks
from defib.hollow.nodes import HollowNodes
from defib.hollow.site import Blueprint, Site
from defib.hollow.timers import Timers
from defib.kube.client import Client
from defib.kube.transport import Transport
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import NodeLifecycle
from defib.simulate.server import ApiServer


class SimulatedCluster:
    def __init__(self, clock: Clock, timers: Timers, blueprints: Iterable[Blueprint]) -> None:
        self.server = ApiServer(clock)
        self.disks = Disks(clock)
        kubelets = Client(self.transport("kubelet"), clock)
        self.nodes = HollowNodes(Site(client=kubelets, clock=clock, timers=timers, disks=self.disks), blueprints)
        self._lifecycle = NodeLifecycle(Client(self.transport("node-lifecycle"), clock), clock, timers)

    def transport(self, client: str) -> Transport:
        """A way in for whoever calls itself so."""
        return InProcess(self.server, client)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run(), name="hollow nodes")
            group.create_task(self._lifecycle.run(), name="node lifecycle")
