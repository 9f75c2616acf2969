"""Makes a volume for every claim that waits for our driver, and removes it when its claim is gone."""

import asyncio

import structlog

from defib.clock import Clock
from defib.hollow.attacher import StorageTimers
from defib.hollow.follow import Follow
from defib.hollow.objects import ATTACHMENTS, CLAIMS, VOLUMES, Attachment, Claim, Volume
from defib.hollow.site import DRIVER
from defib.kube.client import Client, Deletion
from defib.kube.errors import AlreadyExists, KubeError, NotFound
from defib.kube.limits import backoff

log = structlog.get_logger("hollow")

ASKED_ANNOTATION = "volume.kubernetes.io/storage-provisioner"
MADE_ANNOTATION = "pv.kubernetes.io/provisioned-by"


class Provisioner:
    """The controller manager asks by an annotation on the claim, and binds the claim to what we make."""

    def __init__(self, client: Client, clock: Clock, timers: StorageTimers) -> None:
        self._client = client
        self._clock = clock
        self._timers = timers
        self._busy: set[str] = set()
        self._claims = Follow(client, clock, CLAIMS, self._claim_changed)
        self._volumes = Follow(client, clock, VOLUMES, self._volume_changed)
        self._attachments = Follow(client, clock, ATTACHMENTS, self._attachment_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._group:
            for follow in (self._attachments, self._volumes, self._claims):
                self._group.create_task(follow.run(), name="provisioner watch")

    def _claim_changed(self, before: Claim | None, after: Claim | None) -> None:
        del before
        if after and self._is_wanted(after.key) and after.uid not in self._busy:
            self._busy.add(after.uid)
            self._group.create_task(self._provision(after), name=f"claim {after.key}")

    def _volume_changed(self, before: Volume | None, after: Volume | None) -> None:
        del before
        if after and self._is_over(after.name) and after.uid not in self._busy:
            self._busy.add(after.uid)
            self._group.create_task(self._remove(after), name=f"volume {after.name}")

    def _attachment_changed(self, before: Attachment | None, after: Attachment | None) -> None:
        if before and after is None and (volume := self._volumes.items.get(before.volume)):
            self._volume_changed(volume, volume)

    def _is_wanted(self, key: str) -> bool:
        claim = self._claims.items.get(key)
        if claim is None:
            return False
        return claim.annotations.get(ASKED_ANNOTATION) == DRIVER and not claim.spec.volume_name

    def _is_over(self, name: str) -> bool:
        """Released by its claim, ours to remove, and no longer attached anywhere."""
        volume = self._volumes.items.get(name)
        return (
            volume is not None
            and volume.status.phase == "Released"
            and volume.spec.persistent_volume_reclaim_policy == "Delete"
            and volume.annotations.get(MADE_ANNOTATION) == DRIVER
            and volume.metadata.deletion_timestamp is None
            and all(one.volume != name for one in self._attachments.items.values())
        )

    async def _provision(self, claim: Claim) -> None:
        seconds = self._timers.provision_seconds
        await asyncio.sleep(seconds + self._clock.jitter(seconds))
        attempt = 0
        while self._is_wanted(claim.key):
            try:
                await self._client.create(VOLUMES, _volume_for(claim))
                break
            except AlreadyExists:
                break
            except KubeError as error:
                log.debug("volume not made", claim=claim.key, why=str(error))
            await asyncio.sleep(backoff(attempt, self._clock))
            attempt += 1
        self._busy.discard(claim.uid)

    async def _remove(self, volume: Volume) -> None:
        attempt = 0
        while self._is_over(volume.name):
            try:
                await self._client.delete(VOLUMES.of(volume), Deletion(uid=volume.uid))
                break
            except NotFound:
                break
            except KubeError as error:
                log.debug("volume not removed", volume=volume.name, why=str(error))
            await asyncio.sleep(backoff(attempt, self._clock))
            attempt += 1
        self._busy.discard(volume.uid)


def _volume_for(claim: Claim) -> dict[str, object]:
    requests = (claim.spec.resources or {}).get("requests") or {}
    return {
        "metadata": {"name": f"pvc-{claim.uid}", "annotations": {MADE_ANNOTATION: DRIVER}},
        "spec": {
            "capacity": {"storage": requests.get("storage", "1Gi")},
            "accessModes": claim.spec.access_modes or ["ReadWriteOnce"],
            "volumeMode": claim.spec.volume_mode or "Filesystem",
            "storageClassName": claim.spec.storage_class_name or "",
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": DRIVER, "volumeHandle": f"disk-{claim.uid}"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            },
        },
    }
