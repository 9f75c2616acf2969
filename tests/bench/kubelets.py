"""Kubelets as far as pods must end: whatever is terminating is gone at once, as if it had ended."""

import asyncio

from defib.kube.client import Client, Deletion, Scope
from defib.kube.decode import UnreadableEvent
from defib.kube.errors import Conflict, KubeError, NotFound
from defib.kube.kinds import PODS
from defib.model.pod import Pod
from tests.bench.fleet import POD_NAMESPACE

ENDERS = 16
WATCH_SECONDS = 600
PAUSE_SECONDS = 1.0


async def end_pods(client: Client) -> None:
    """Until cancelled."""
    leaving: asyncio.Queue[Pod] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(_see(client, leaving))
        for _ in range(ENDERS):
            group.create_task(_end(client, leaving))


async def _see(client: Client, leaving: asyncio.Queue[Pod]) -> None:
    """A busy API server drops watchers that it holds to be slow, so it is asked again for all."""
    while True:
        try:
            await _see_once(client, leaving)
        except KubeError:
            await asyncio.sleep(PAUSE_SECONDS)  # a real server, which needs a moment


async def _see_once(client: Client, leaving: asyncio.Queue[Pod]) -> None:
    scope = Scope(namespace=POD_NAMESPACE)
    async with client.watch(PODS, scope, since="", seconds=WATCH_SECONDS) as batches:
        async for batch in batches:
            for event in batch:
                if not isinstance(event, UnreadableEvent) and event.type != "DELETED" and event.object.is_leaving:
                    leaving.put_nowait(event.object)


async def _end(client: Client, leaving: asyncio.Queue[Pod]) -> None:
    while True:
        pod = await leaving.get()
        try:
            await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
        except (NotFound, Conflict):
            continue  # it is gone, or another one has its name
