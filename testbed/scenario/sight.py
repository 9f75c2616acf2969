"""What the API server shows of a story's cluster, followed by watches, and every change of it noted in the log book."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from defib.clock import Clock
from defib.hollow.disk import Disk, Disks
from defib.hollow.follow import Follow
from defib.hollow.objects import ATTACHMENTS, CLAIMS, PODS, VOLUMES, Attachment, Claim, Pod, Volume
from defib.kube.client import Client, Scope
from defib.kube.kinds import NODES, Kind
from defib.model.medik8s import CHECK_KIND
from defib.model.meta import Resource, Wire
from defib.model.node import Node
from testbed.scenario.log_book import LogBook
from testbed.scenario.manifests import APP, claim_of
from testbed.scenario.remediation_sight import RemediationSight

LOOK_SECONDS = 0.25  # disks are no objects of the API server: nobody says when they change


class About(Wire, frozen=True):
    kind: str = ""
    name: str = ""


class Series(Wire, frozen=True):
    count: int = 0


class Event(Resource, frozen=True):
    reason: str = ""
    message: str = ""
    involved_object: About = About()
    count: int = 0
    series: Series | None = None

    @property
    def times(self) -> int:
        return max(1, self.count, self.series.count if self.series else 0)


EVENTS = Kind(version="v1", plural="events", name="Event", namespaced=True, type=Event)


class Sight:
    """`listeners` hear that something changed, as soon as it is known: a benchmark takes its times from there."""

    def __init__(self, client: Client, clock: Clock, disks: Disks, namespace: str, book: LogBook) -> None:
        here = Scope(namespace=namespace)
        self.namespace = namespace
        self.book = book
        self.disks = disks
        self.listeners: list[Callable[[], None]] = []
        self._clock = clock
        self._news = asyncio.Event()
        self._nodes = Follow(client, clock, NODES, self._node_changed)
        self._pods = Follow(client, clock, PODS, self._pod_changed, here)
        self._attachments = Follow(client, clock, ATTACHMENTS, self._attachment_changed)
        self._claims = Follow(client, clock, CLAIMS, self._claim_changed, here)
        self._volumes = Follow(client, clock, VOLUMES, self._claim_changed)
        self._events = Follow(client, clock, EVENTS, self._event_changed)
        self.remediation = RemediationSight(client, clock, namespace, self._note_change)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for follow in (self._nodes, self._pods, self._attachments, self._claims, self._volumes, self._events):
                group.create_task(follow.run(), name="story sight")

    def node(self, name: str) -> Node | None:
        return self._nodes.items.get(name)

    def pods(self, app: str = "") -> list[Pod]:
        """By name; all of them, or those of one workload."""
        known = sorted(self._pods.items.values(), key=lambda pod: pod.name)
        return [pod for pod in known if not app or pod.labels.get(APP) == app]

    def pod(self, name: str) -> Pod | None:
        """By its own name, or the first of a workload."""
        found = self._pods.items.get(f"{self.namespace}/{name}")
        return found or next(iter(self.pods(name)), None)

    def attachments(self, pod: str) -> list[Attachment]:
        """Of the volume that a pod has, or had."""
        volume = self._volume(pod)
        return [one for one in self._attachments.items.values() if volume and one.volume == volume.name]

    def disk(self, pod: str) -> Disk | None:
        volume = self._volume(pod)
        return self.disks.at(volume.spec.csi.volume_handle) if volume and volume.spec.csi else None

    def events(self) -> Iterator[Event]:
        """Of this story: what is in its namespace, and what is about checks, which are in none."""
        return filter(self._is_ours, self._events.items.values())

    def _is_ours(self, event: Event) -> bool:
        return event.namespace == self.namespace or event.involved_object.kind == CHECK_KIND

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Whether it held at some moment within this time."""
        ends = self._clock.monotonic() + seconds
        while not holds():
            left = ends - self._clock.monotonic()
            if left <= 0:
                return False
            await self._wait(min(left, LOOK_SECONDS))
        return True

    async def _wait(self, seconds: float) -> None:
        news = self._news
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            return

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()
        self._news.set()
        self._news = asyncio.Event()

    def _volume(self, pod: str) -> Volume | None:
        claim = self._claims.items.get(f"{self.namespace}/{claim_of(pod)}")
        return self._volumes.items.get(claim.spec.volume_name) if claim else None

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        known = after or before
        assert known
        self._note_change(f"node {known.name}", [node_words(one) for one in (before, after) if one], after is None)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        known = after or before
        assert known
        self._note_change(f"pod {known.name}", [pod_words(one) for one in (before, after) if one], after is None)

    def _attachment_changed(self, before: Attachment | None, after: Attachment | None) -> None:
        known = after or before
        assert known
        words = [attachment_words(one) for one in (before, after) if one]
        self._note_change(f"volume {known.volume[-8:]}", words, after is None)

    def _claim_changed(self, before: Claim | Volume | None, after: Claim | Volume | None) -> None:
        del before, after
        self._tell()

    def _event_changed(self, before: Event | None, after: Event | None) -> None:
        if after and self._is_ours(after) and (not before or before.times != after.times):
            self.book.note(f"event {after.involved_object.name}", f"{after.reason}: {after.message}")
        self._tell()

    def _note_change(self, subject: str, words: list[str], gone: bool) -> None:
        """`words` are those of before and after, as far as there was something."""
        told = [*words, "gone"] if gone else words
        if len(set(told)) == len(told):
            self.book.note(subject, " -> ".join(told))
        self._tell()


def node_words(node: Node) -> str:
    taints = sorted({taint.key.rpartition("/")[2] for taint in node.spec.taints or ()})
    return f"Ready {node.ready}" + (f", tainted {', '.join(taints)}" if taints else "")


def pod_words(pod: Pod) -> str:
    state = "Terminating" if pod.is_deleted else pod.phase or "new"
    ready = ", ready" if is_ready(pod) else ""
    return f"{state}{ready}" + (f" on {pod.spec.node_name}" if pod.spec.node_name else "")


def attachment_words(attachment: Attachment) -> str:
    state = (
        "detaching from" if attachment.is_deleted else "attached to" if attachment.status.attached else "attaching to"
    )
    return f"{state} {attachment.spec.node_name}"


def is_ready(pod: Pod) -> bool:
    conditions: list[dict[str, Any]] = (pod.status or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
