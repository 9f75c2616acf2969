"""The API server is killed and comes back, again and again, while we watch it and others write."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from defib.clock import SystemClock
from defib.kube.client import Client, Deletion, Merge
from defib.kube.errors import KubeError, NotFound, Unreachable
from defib.kube.http import connect
from defib.kube.kinds import NODES
from defib.model.cluster import Cluster
from defib.observe.cache import Cache
from defib.observe.watch import Patience
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

NAMES = [f"n{number}" for number in range(20)]
CRASHES = 3


class Diary:
    """Hears what the cache hears and notes every state it showed, per node."""

    def __init__(self) -> None:
        self.cache: Cache | None = None
        self.versions: dict[str, list[int]] = {}
        self.relists: list[str] = []
        self.news = asyncio.Event()

    def changed(self, name: str) -> None: ...

    def heard(self, name: str, events: int, news: int) -> None:
        del name, events
        if news:
            self._note()

    def relisted(self, name: str, reason: str) -> None:
        self.relists.append(f"{name}: {reason}")
        self._note()

    def sight_changed(self, name: str) -> None:
        del name
        self._note()

    def _note(self) -> None:
        assert self.cache is not None
        for name, node in self.cache.snapshot(SystemClock().now()).nodes.items():
            seen = self.versions.setdefault(f"{name} {node.uid}", [])
            version = int(node.metadata.resource_version)
            if not seen or seen[-1] != version:
                seen.append(version)
        self.news.set()

    async def wait_for_node(self, name: str) -> None:
        await self._wait_until(lambda cluster: name in cluster.nodes)

    async def wait_for_sight(self) -> Cluster:
        """Of every kind: each comes back in its own time, and a server that just came back may send it away again."""
        return await self._wait_until(lambda cluster: cluster.complete)

    async def _wait_until(self, question: Callable[[Cluster], bool]) -> Cluster:
        assert self.cache is not None
        async with asyncio.timeout(30):
            while not question(shown := self.cache.snapshot(SystemClock().now())):
                self.news.clear()
                await self.news.wait()
        return shown


@pytest.fixture
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        yield cluster


async def a_client(kubeconfig: Path) -> Client:
    clock = SystemClock()
    return Client(await connect(kubeconfig, None, os.environ, clock), clock)


async def write(client: Client, number: int) -> None:
    """Change a node, or now and then delete and remake one. What a dying server did with it is left open."""
    ref = NODES.at(NAMES[number % len(NAMES)])
    try:
        if number % 7 == 0:
            await client.delete(ref, Deletion(uid=(await client.get(ref)).uid))
            await client.create(NODES, {"metadata": {"name": ref.name}})
        else:
            await client.patch(ref, Merge({"metadata": {"annotations": {"number": str(number)}}}), deadline=2)
    except NotFound:
        await client.create(NODES, {"metadata": {"name": ref.name}})


async def write_until(client: Client, enough: asyncio.Event) -> int:
    number = failures = 0
    while not enough.is_set():
        number += 1
        try:
            await write(client, number)
        except Unreachable:
            failures += 1
            await asyncio.sleep(0.02)  # the server is down: do not spin
        except KubeError:
            failures += 1
    return failures


async def test_no_change_is_lost_and_none_is_news_twice(cluster: ControlPlane) -> None:
    client, ours = await a_client(cluster.kubeconfig), await a_client(cluster.kubeconfig)
    diary = Diary()
    diary.cache = Cache(ours, SystemClock(), diary, Patience())
    for name in NAMES:
        await client.create(NODES, {"metadata": {"name": name}})
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(diary.cache.run())
        enough = asyncio.Event()
        writing = group.create_task(write_until(client, enough))
        for crash in range(CRASHES):
            await diary.wait_for_node(NAMES[crash])
            await cluster.kill_apiserver()
            await cluster.start_apiserver()
        enough.set()
        failures = await writing
        await client.create(NODES, {"metadata": {"name": "the-last-one"}})
        await diary.wait_for_node("the-last-one")
        truth = await client.list_all(NODES)
        shown = await diary.wait_for_sight()
        watching.cancel()
    await client.close()
    await ours.close()
    assert failures, "the crashes were never felt, so this run proved nothing"
    assert dict(shown.nodes) == {node.name: node for node in truth.items}
    assert all(versions == sorted(set(versions)) for versions in diary.versions.values())
