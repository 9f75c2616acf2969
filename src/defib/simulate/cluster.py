"""A whole small cluster in this process: the embedded API server, hollow nodes, and whoever gives silent ones up."""

import asyncio
from collections.abc import Iterable

from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.transport import Transport
from defib.simulate.hollow import HollowNodes, Machine, Timers
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import NodeLifecycle
from defib.simulate.server import ApiServer


class SimulatedCluster:
    def __init__(self, clock: Clock, timers: Timers, machines: Iterable[Machine]) -> None:
        self.server = ApiServer(clock)
        self.nodes = HollowNodes(Client(self.transport("kubelet"), clock), clock, timers, machines)
        self._lifecycle = NodeLifecycle(Client(self.transport("node-lifecycle"), clock), clock, timers)

    def transport(self, client: str) -> Transport:
        """A way in for whoever calls itself so."""
        return InProcess(self.server, client)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run(), name="hollow nodes")
            group.create_task(self._lifecycle.run(), name="node lifecycle")


def machines_in_zones(zones: str, per_zone: int) -> list[Machine]:
    """`zone-a-1`, `zone-a-2`, …: one letter names a zone."""
    return [
        Machine(name=f"zone-{letter}-{number}", zone=f"zone-{letter}", address=f"10.0.{place}.{number}")
        for place, letter in enumerate(zones, 1)
        for number in range(1, per_zone + 1)
    ]
