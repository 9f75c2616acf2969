"""Answers VolumeAttachments as the external attacher of a CSI driver does: with a finalizer, after a while.

Detaching is a matter of books, as with most storage: it takes nothing away from a node that still writes. That a
volume of one node is attached to one node only is kept here, too.
"""

import asyncio

import msgspec
import structlog

from defib.clock import Clock
from defib.hollow.follow import Follow
from defib.hollow.objects import ATTACHMENTS, VOLUMES, Attachment, Volume
from defib.hollow.pod_status import timestamp
from defib.hollow.site import DRIVER
from defib.kube.client import Client, Merge
from defib.kube.errors import KubeError, NotFound
from defib.kube.limits import backoff

log = structlog.get_logger("hollow")

FINALIZER = "external-attacher/hollow-csi-defib-dev"


class StorageTimers(msgspec.Struct, frozen=True, kw_only=True):
    """Each takes between this and twice this."""

    provision_seconds: float = 1.0
    attach_seconds: float = 2.0
    detach_seconds: float = 2.0


class Attacher:
    def __init__(self, client: Client, clock: Clock, timers: StorageTimers) -> None:
        self._client = client
        self._clock = clock
        self._timers = timers
        self._holders: dict[str, dict[str, str]] = {}  # by volume: the attachments that hold it, and their nodes
        self._busy: set[str] = set()
        self._attachments = Follow(client, clock, ATTACHMENTS, self._changed)
        self._volumes = Follow(client, clock, VOLUMES, _ignore)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._volumes.run(), name="attacher: volumes")
            self._group.create_task(self._attachments.run(), name="attacher: attachments")

    def holders(self, volume: str) -> list[str]:
        """The nodes that a volume is attached to, by the storage's own books."""
        return list(self._holders.get(volume, {}).values())

    def _changed(self, before: Attachment | None, after: Attachment | None) -> None:
        if after is None:
            if before:
                self._release(before)
        elif after.spec.attacher == DRIVER:
            if after.status.attached and not after.is_deleted:
                self._hold(after)  # also what was attached before we were started
            if _has_work(after) and after.name not in self._busy:
                self._busy.add(after.name)
                self._group.create_task(self._settle(after.name), name=f"attachment {after.name}")

    def _hold(self, attachment: Attachment) -> None:
        self._holders.setdefault(attachment.volume, {})[attachment.name] = attachment.spec.node_name

    def _release(self, attachment: Attachment) -> None:
        self._holders.get(attachment.volume, {}).pop(attachment.name, None)

    async def _settle(self, name: str) -> None:
        """Until nothing is left to do about it, or it is gone."""
        attempt = 0
        while (attachment := self._attachments.items.get(name)) and _has_work(attachment):
            try:
                if await self._work_on(attachment):
                    break
            except NotFound:
                break
            except KubeError as error:
                log.debug("attachment not settled", attachment=name, why=str(error))
            await asyncio.sleep(backoff(attempt, self._clock))
            attempt += 1
        self._busy.discard(name)
        latest = self._attachments.items.get(name)
        if latest and latest.is_deleted:  # perhaps while we attached it: then that was the last we heard of it
            self._changed(latest, latest)

    async def _work_on(self, attachment: Attachment) -> bool:
        return await (self._detach(attachment) if attachment.is_deleted else self._attach(attachment))

    async def _attach(self, attachment: Attachment) -> bool:
        ref = ATTACHMENTS.of(attachment)
        if FINALIZER not in (attachment.metadata.finalizers or ()):
            patch = _finalizers(attachment, [*(attachment.metadata.finalizers or ()), FINALIZER])
            attachment = await self._client.patch(ref, patch)
        await self._take_time(self._timers.attach_seconds)
        if other := self._holder_in_the_way(attachment):
            message = f"the volume is attached to {other} and can be attached to one node only"
            error = {"message": message, "time": timestamp(self._clock.now())}
            await self._client.patch(
                ref, Merge({"status": {"attached": False, "attachError": error}}), subresource="status"
            )
            return False
        self._hold(attachment)
        await self._client.patch(ref, Merge({"status": {"attached": True, "attachError": None}}), subresource="status")
        return True

    def _holder_in_the_way(self, attachment: Attachment) -> str:
        volume = self._volumes.items.get(attachment.volume)
        if volume and volume.mode == "ReadWriteMany":
            return ""
        return next((node for node in self.holders(attachment.volume) if node != attachment.spec.node_name), "")

    async def _detach(self, attachment: Attachment) -> bool:
        await self._take_time(self._timers.detach_seconds)
        left = [name for name in attachment.metadata.finalizers or () if name != FINALIZER]
        await self._client.patch(ATTACHMENTS.of(attachment), _finalizers(attachment, left))
        self._release(attachment)
        return True

    async def _take_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds + self._clock.jitter(seconds))


def _has_work(attachment: Attachment) -> bool:
    if attachment.is_deleted:
        return FINALIZER in (attachment.metadata.finalizers or ())
    return not attachment.status.attached


def _finalizers(attachment: Attachment, names: list[str]) -> Merge:
    """With the version: a list is replaced as a whole, and others have finalizers, too."""
    version = attachment.metadata.resource_version
    return Merge({"metadata": {"resourceVersion": version, "finalizers": names or None}})


def _ignore(before: Volume | None, after: Volume | None) -> None:
    del before, after
