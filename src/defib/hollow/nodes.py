"""Hollow nodes: what the API server sees of kubelets, without the machines below them. Any number in one process.

    nodes = HollowNodes(Site(client=…, clock=…, timers=Timers(), disks=Disks(clock)), numbered(1000))
    async with asyncio.TaskGroup() as group:
        group.create_task(nodes.run())
        nodes["node-0001"].machine.set_power(False)
        nodes["node-0002"].partition()

They speak to the API server only through the client they are given, so the same nodes live on the embedded server in
virtual time and on a real control plane.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from defib.hollow.machine import Machine
from defib.hollow.node import HollowNode
from defib.hollow.site import Blueprint, Site
from defib.hollow.view import View


class HollowNodes(Mapping[str, HollowNode]):
    """`machines` are those that nodes share with somebody, a BMC for example; a node without one gets its own."""

    def __init__(self, site: Site, blueprints: Iterable[Blueprint], machines: Iterable[Machine] = ()) -> None:
        self._view = View(site, self._wake)
        known = {machine.name: machine for machine in machines}
        self._nodes = {
            blueprint.name: HollowNode(
                site, self._view, blueprint, known.get(blueprint.name) or Machine(blueprint.name, site.clock), number
            )
            for number, blueprint in enumerate(blueprints)
        }

    def __getitem__(self, name: str) -> HollowNode:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._view.run(), name="hollow view")
            for node in self._nodes.values():
                node.live_in(group)

    def _wake(self, name: str) -> None:
        if name in self._nodes:
            self._nodes[name].wake()
