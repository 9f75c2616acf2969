"""The part of a kubelet that minds its pods: sees what it should run, brings each a step further, reports what it did.

Level-triggered: every turn compares what the API server wants with what runs here. Without a line to the API server it
goes on with what it knew last. Reports go out one after the other, as a kubelet's do.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NoReturn

import structlog

from defib.hollow.disk import Writer
from defib.hollow.node_state import NodeState
from defib.hollow.node_status import owner
from defib.hollow.objects import MIRROR_ANNOTATION, PODS, Pod
from defib.hollow.pod_status import differ, status_of, timestamp
from defib.hollow.pod_work import PodWork, Stage
from defib.hollow.site import Site
from defib.hollow.view import View
from defib.kube.client import Deletion, Merge
from defib.kube.errors import AlreadyExists, KubeError, NotFound

log = structlog.get_logger("hollow")

NEVER = float("inf")
IDLE_SECONDS = 60.0
STATIC_NAMESPACE = "kube-system"


class PodLoop:
    def __init__(self, site: Site, view: View, state: NodeState, number: int) -> None:
        self._site = site
        self._clock = site.clock
        self._view = view
        self._state = state
        self._number = number  # which part of the pods' addresses is this node's
        self._addresses = 0
        self._retry_at = NEVER
        self._woken = asyncio.Event()
        self._checked: dict[str, tuple[Stage, int, str]] = {}  # what of a pod was last compared with its status

    def wake(self) -> None:
        self._woken.set()

    async def run(self, *, online: bool) -> NoReturn:
        if online:
            await self._view.wait_for_pods()
        while True:
            self._woken.clear()
            if online:
                self._look()
            self._step()
            self._retry_at = NEVER
            if online:
                await self._report()
            await self._wait()

    async def _wait(self) -> None:
        due = min((work.due for work in self._state.works.values()), default=NEVER)
        seconds = min(due, self._retry_at, self._clock.monotonic() + IDLE_SECONDS) - self._clock.monotonic()
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._woken.wait()
        except TimeoutError:
            return

    def _look(self) -> None:
        """What should run here, and what of it has what it needs."""
        works = self._state.works
        wanted = {_identity(pod): pod for pod in self._view.pods_on(self._state.name).values()}
        for identity, pod in wanted.items():
            if identity in works:
                works[identity].see(pod)
            else:
                works[identity] = self._take_on(pod)
        for identity, work in works.items():
            work.is_gone = identity not in wanted and not work.is_static
        self._admit()

    def _take_on(self, pod: Pod) -> PodWork:
        self._addresses += 1
        address = f"10.{128 + (self._number >> 8)}.{self._number & 255}.{1 + self._addresses % 254}"
        writer = Writer(node=self._state.name, boot=self._state.boot_id, pod=pod.key, uid=pod.uid)
        return PodWork(pod, self._site, writer, address)

    def _admit(self) -> None:
        now, name = self._clock.monotonic(), self._state.name
        self._view.waiting.discard(name)
        for work in self._state.works.values():
            if work.stage is not Stage.WAITING:
                continue
            mounts = self._view.mounts_of(work.pod)
            if mounts is None:
                self._view.waiting.add(name)
                continue
            work.mounts = mounts
            if all(self._view.may_mount(mount, name) for mount in mounts):
                work.admit(now)

    def _step(self) -> None:
        now = self._clock.monotonic()
        for work in self._state.works.values():
            work.step(now)

    async def _report(self) -> None:
        for name in self._state.blueprint.static_pods:
            await self._try(partial(self._mirror, name))
        for identity, work in list(self._state.works.items()):
            if work.is_gone:
                self._forget(identity, work)
                continue
            mark = work.stage, work.restarts, work.pod.metadata.resource_version
            if self._checked.get(identity) != mark and await self._try(partial(self._tell, work)):
                self._checked[identity] = work.stage, work.restarts, work.pod.metadata.resource_version

    def _forget(self, identity: str, work: PodWork) -> None:
        if work.stage is Stage.STOPPED:
            del self._state.works[identity]
            self._checked.pop(identity, None)

    async def _try(self, report: Callable[[], Awaitable[None]]) -> bool:
        """What is not taken now is said again: soon, or when the pod changes."""
        try:
            async with self._view.reporting:
                await report()
        except NotFound:
            return True  # it is gone, and the watch is about to say so
        except KubeError as error:
            log.debug("report failed", node=self._state.name, why=str(error))
            self._retry_at = self._clock.monotonic() + self._site.timers.retry_seconds
            return False
        return True

    async def _tell(self, work: PodWork) -> None:
        pod, client = work.pod, self._site.client
        wanted = status_of(work, self._state.blueprint.address, self._clock.now())
        was_over_before = pod.is_finished and work.started_at is None
        if differ(pod.status or {}, wanted) and not was_over_before:
            # With its version: a condition that somebody else adds in this moment must not be lost.
            patch = Merge({"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": wanted})
            await self._state.line()
            work.see(await client.patch(PODS.of(pod), patch, subresource="status"))
        has_ended = work.stage is Stage.STOPPED or work.is_static
        if pod.is_deleted and has_ended and pod.metadata.deletion_grace_period_seconds != 0:
            await self._state.line()
            await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))

    async def _mirror(self, static: str) -> None:
        state = self._state
        name = f"{static}-{state.name}"
        if any(pod.name == name and pod.is_mirror for pod in self._view.pods_on(state.name).values()):
            return
        known = self._view.node(state.name)
        try:
            body = _mirror_pod(static, state.name, known.uid if known else "")
            body["metadata"]["annotations"]["kubernetes.io/config.seen"] = timestamp(self._clock.now())
            await state.line()
            await self._site.client.create(PODS, body, namespace=STATIC_NAMESPACE)
        except AlreadyExists:
            return


def _identity(pod: Pod) -> str:
    """A static pod is the same one under every mirror that it is given."""
    return pod.annotations.get(MIRROR_ANNOTATION) or pod.uid


def _mirror_pod(static: str, node: str, node_uid: str) -> dict[str, Any]:
    digest = uuid.uuid5(uuid.NAMESPACE_OID, f"{static}/{node}").hex
    metadata: dict[str, Any] = {
        "name": f"{static}-{node}",
        "namespace": STATIC_NAMESPACE,
        "labels": {"component": static, "tier": "control-plane"},
        "annotations": {
            "kubernetes.io/config.hash": digest,
            MIRROR_ANNOTATION: digest,
            "kubernetes.io/config.source": "file",
        },
    }
    if node_uid:
        metadata["ownerReferences"] = [one | {"controller": True} for one in owner(node, node_uid)]
    spec = {
        "nodeName": node,
        "hostNetwork": True,
        "containers": [{"name": static, "image": f"registry.example.com/{static}:1"}],
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
    }
    return {"metadata": metadata, "spec": spec}
