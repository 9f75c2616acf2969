"""Hollow storage: a CSI driver without code in any kernel. Its disks are in this process and judge who writes to them."""

import asyncio

from defib.clock import Clock
from defib.hollow.attacher import Attacher, StorageTimers
from defib.hollow.objects import CSI_DRIVERS, STORAGE_CLASSES
from defib.hollow.provisioner import Provisioner
from defib.hollow.site import DRIVER
from defib.kube.client import Apply, Client

CLASS = "hollow"
"""The volume is made when the first pod that wants it has a node."""
IMMEDIATE_CLASS = "hollow-immediate"

MANAGER = "hollow-storage"


class HollowStorage:
    def __init__(self, client: Client, clock: Clock, timers: StorageTimers | None = None) -> None:
        self._client = client
        chosen = timers or StorageTimers()
        self._attacher = Attacher(client, clock, chosen)
        self._provisioner = Provisioner(client, clock, chosen)

    async def install(self) -> None:
        """Makes the driver and its classes known; again changes nothing."""
        driver = {"spec": {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "None"}}
        await self._client.patch(CSI_DRIVERS.at(DRIVER), Apply(body=driver, manager=MANAGER, force=True))
        for name, binding in ((CLASS, "WaitForFirstConsumer"), (IMMEDIATE_CLASS, "Immediate")):
            body = {"provisioner": DRIVER, "reclaimPolicy": "Delete", "volumeBindingMode": binding}
            await self._client.patch(STORAGE_CLASSES.at(name), Apply(body=body, manager=MANAGER, force=True))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._attacher.run(), name="attacher")
            group.create_task(self._provisioner.run(), name="provisioner")
