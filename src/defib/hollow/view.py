"""What the API server says to all hollow kubelets: one watch for each kind, however many nodes there are."""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType

from defib.hollow.follow import Follow
from defib.hollow.objects import (
    ATTACHMENTS,
    CLAIMS,
    KNOWN_NODES,
    PODS,
    VOLUMES,
    Attachment,
    Claim,
    ClaimSource,
    KnownNode,
    Pod,
    Volume,
)
from defib.hollow.pod_work import Mount
from defib.hollow.site import DRIVER, Site
from defib.kube.client import Scope

REPORTS_MAX = 32  # about pods, at once: a thousand nodes that start pods must not hold up each other's heartbeats
NOTHING: Mapping[str, Pod] = MappingProxyType({})


class View:
    """`news` is called with the name of each node for which something changed that its kubelet looks at."""

    def __init__(self, site: Site, news: Callable[[str], None]) -> None:
        client, clock = site.client, site.clock
        self._disks = site.disks
        self._news = news
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._attached: dict[tuple[str, str], Attachment] = {}  # by node and volume
        self.reporting = asyncio.Semaphore(REPORTS_MAX)
        self.waiting: set[str] = set()  # nodes with a pod whose claims were not all bound when last looked at
        self._pods = Follow(client, clock, PODS, self._pod_changed, Scope(fields="spec.nodeName!="))
        self._nodes = Follow(client, clock, KNOWN_NODES, self._node_changed)
        self._claims = Follow(client, clock, CLAIMS, self._claim_changed)
        self._volumes = Follow(client, clock, VOLUMES, self._claim_changed)
        self._attachments = Follow(client, clock, ATTACHMENTS, self._attachment_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for follow in (self._pods, self._nodes, self._claims, self._volumes, self._attachments):
                group.create_task(follow.run(), name="hollow watch")

    async def wait_for_pods(self) -> None:
        """Until the pods are known at all: before that, none and unknown look the same."""
        await self._pods.synced.wait()

    def pods_on(self, node: str) -> Mapping[str, Pod]:
        return self._by_node.get(node, NOTHING)

    def node(self, name: str) -> KnownNode | None:
        return self._nodes.items.get(name)

    @property
    def knows_nodes(self) -> bool:
        return self._nodes.synced.is_set()

    def mounts_of(self, pod: Pod) -> tuple[Mount, ...] | None:
        """The volumes behind a pod's claims; None while one of them has none."""
        mounts = [self._mount(pod.namespace, claim) for claim in pod.claims()]
        return None if None in mounts else tuple(mount for mount in mounts if mount)

    def _mount(self, namespace: str, source: ClaimSource) -> Mount | None:
        claim = self._claims.items.get(f"{namespace}/{source.claim_name}")
        volume = self._volumes.items.get(claim.spec.volume_name) if claim else None
        if volume is None:
            return None
        csi = volume.spec.csi
        if csi is None or csi.driver != DRIVER:
            return Mount(volume.name)  # somebody else's: taken as there
        disk = self._disks.at(csi.volume_handle, volume.mode)
        return Mount(volume.name, f"kubernetes.io/csi/{csi.driver}^{csi.volume_handle}", disk, source.read_only)

    def may_mount(self, mount: Mount, node: str) -> bool:
        """The node's status says that it is in use and that it is attached, and the attacher has attached it."""
        if mount.disk is None:
            return True
        attachment, known = self._attached.get((node, mount.volume)), self.node(node)
        if known is None or attachment is None or attachment.is_deleted or not attachment.status.attached:
            return False
        attached = [volume.name for volume in known.status.volumes_attached or ()]
        return mount.name in attached and mount.name in (known.status.volumes_in_use or ())

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before and (after is None or after.spec.node_name != before.spec.node_name):
            self._by_node[before.spec.node_name].pop(before.uid, None)
            self._news(before.spec.node_name)
        if after:
            self._by_node.setdefault(after.spec.node_name, {})[after.uid] = after
            self._news(after.spec.node_name)

    def _node_changed(self, before: KnownNode | None, after: KnownNode | None) -> None:
        known = after or before
        assert known
        self._news(known.name)

    def _claim_changed(self, before: Claim | Volume | None, after: Claim | Volume | None) -> None:
        del before, after
        for node in sorted(self.waiting):
            self._news(node)

    def _attachment_changed(self, before: Attachment | None, after: Attachment | None) -> None:
        known = after or before
        assert known
        place = known.spec.node_name, known.volume
        if after and after.spec.attacher == DRIVER:
            self._attached[place] = after
        elif after is None:
            self._attached.pop(place, None)
        self._news(known.spec.node_name)
