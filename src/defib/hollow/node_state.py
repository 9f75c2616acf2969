"""What a hollow node is at this moment. Its kubelet's loops read and change it; a test sets its faults."""

import asyncio

from defib.hollow.node_status import HEALTHY, Says
from defib.hollow.pod_work import PodWork, Stage
from defib.hollow.site import Blueprint

KUBELET_PORT = 10250


class NodeState:
    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.name = blueprint.name
        self.boot_id = ""
        self.conditions: dict[str, Says] = dict(HEALTHY)
        self.slow_seconds = 0.0
        self.kubelet_port = KUBELET_PORT
        self.works: dict[str, PodWork] = {}

    async def line(self) -> None:
        """How long a request takes to leave this node; nothing, on a good day."""
        if self.slow_seconds:
            await asyncio.sleep(self.slow_seconds)

    def volumes_in_use(self) -> list[str]:
        """From the moment a pod wants them until it has stopped; while one is named here nobody should take it away."""
        return sorted(
            {
                mount.name
                for work in self.works.values()
                if work.stage is not Stage.STOPPED
                for mount in work.mounts
                if mount.disk
            }
        )
