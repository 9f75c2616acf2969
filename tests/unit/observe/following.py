"""A watcher on an embedded API server in virtual time, and what became of it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec

from defib.kube.client import Client
from defib.kube.decode import SetAside, decode_object
from defib.kube.kinds import NODES
from defib.kube.transport import Transport
from defib.model.node import Node
from defib.observe.shelf import Shelf
from defib.observe.watch import Patience, Watcher
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run

UNREADABLE_LABELS = 5
NO_STREAMED_LISTS = Fault(effect=Refuse(code=422, reason="Invalid"), verbs=("watch",), times=1)


class Witness:
    """Notes what the watcher says, and checks at every word that no node ever went back to an older version."""

    def __init__(self, shelf: Shelf[Node]) -> None:
        self._shelf = shelf
        self._versions: dict[str, int] = {}
        self.relists: list[str] = []
        self.news = 0
        self.sights = 0

    def changed(self, name: str) -> None: ...

    def heard(self, name: str, events: int, news: int) -> None:
        assert name == "nodes"
        assert news <= events
        self.news += news
        self._never_back()

    def relisted(self, name: str, reason: str) -> None:
        assert name == "nodes"
        self.relists.append(reason)
        self._never_back()

    def sight_changed(self, name: str) -> None:
        assert name == "nodes"
        self.sights += 1

    def _never_back(self) -> None:
        for node in self._shelf.objects.values():
            version = int(node.metadata.resource_version)
            assert version >= self._versions.get(node.uid, 0), f"{node.name} went back in time"
            self._versions[node.uid] = version


class Following(msgspec.Struct):
    """Everything a scenario needs to make trouble, and the test to judge it."""

    server: ApiServer
    shelf: Shelf[Node]
    witness: Witness
    clock: VirtualClock

    def add(self, *names: str) -> None:
        for name in names:
            self.server.put("nodes", {"metadata": {"name": name}})

    def change(self, name: str, value: str) -> None:
        stored = self.server.store.get("nodes", name)
        assert stored is not None
        changed = {**stored.object["metadata"], "annotations": {"value": value}}
        self.server.store.put("nodes", {**stored.object, "metadata": changed})

    def remove(self, name: str) -> None:
        stored = self.server.store.get("nodes", name)
        assert stored is not None
        self.server.store.remove("nodes", stored.object)

    def put_unreadable(self, name: str) -> None:
        """A node that no client of ours can read: its labels are a number."""
        self.server.store.put("nodes", {"metadata": {"name": name, "uid": f"uid-{name}", "labels": UNREADABLE_LABELS}})

    def cut_watches(self) -> None:
        for watch in self.server.watches.of():
            watch.cut()

    def requests(self, verb: str = "") -> int:
        return sum(1 for asked in self.server.audit if asked.client == "operator" and verb in ("", asked.verb))

    @property
    def truth(self) -> dict[str, Node]:
        stored = self.server.store.collection("nodes").objects.values()
        readable = [version for version in stored if version.object["metadata"].get("labels") != UNREADABLE_LABELS]
        nodes = [decode_object(version.encoded, Node) for version in readable]
        return {node.name: node for node in nodes}

    @property
    def shown(self) -> dict[str, Node]:
        return dict(self.shelf.objects)

    @property
    def set_aside(self) -> dict[str, SetAside]:
        return dict(self.shelf.set_aside)


Scenario = Callable[[Following], Awaitable[None]]


def same(transport: Transport) -> Transport:
    return transport


def follow(
    scenario: Scenario,
    *,
    faults: tuple[Fault, ...] = (),
    patience: Patience | None = None,
    seed: int = 0,
    through: Callable[[Transport], Transport] = same,
) -> Following:
    """Start with three nodes, set the faults, watch, let the scenario happen; the state right after it."""

    async def main(clock: VirtualClock) -> Following:
        server = ApiServer(clock)
        shelf = Shelf(NODES, since=clock.now())
        following = Following(server, shelf, Witness(shelf), clock)
        following.add("n1", "n2", "n3")
        server.faults.inject(*faults)
        client = Client(through(InProcess(server, client="operator")), clock)
        watcher: Watcher[Node] = Watcher(client, shelf, clock, following.witness, patience or Patience())
        async with asyncio.TaskGroup() as group:
            watching: asyncio.Task[Any] = group.create_task(watcher.run())
            await scenario(following)
            watching.cancel()
        return following

    return run(main, seed=seed, limit=timedelta(days=2))


async def seconds(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)
