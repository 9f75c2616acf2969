"""All shelves together: which kinds we follow, and the frozen Cluster they make."""

import asyncio
from datetime import datetime
from typing import Any, NoReturn

from defib.clock import Clock
from defib.kube.client import EVERYTHING, Client, Scope
from defib.kube.kinds import LEASES, NODES, Kind, R
from defib.model.cluster import HEARTBEAT_NAMESPACE, Blindness, Cluster, Unread
from defib.model.node import Lease, Node
from defib.observe.shelf import Shelf
from defib.observe.watch import Patience, Watcher, Witness

HEARTBEATS_NAME = "heartbeats"
HEARTBEATS = Scope(namespace=HEARTBEAT_NAMESPACE)


class Cache:
    """Nodes and their heartbeats always; other kinds for as long as somebody needs them."""

    def __init__(self, client: Client, clock: Clock, witness: Witness, patience: Patience) -> None:
        self._client = client
        self._clock = clock
        self._witness = witness
        self._patience = patience
        self._nodes: Shelf[Node] = Shelf(NODES, since=clock.now())
        self._heartbeats: Shelf[Lease] = Shelf(LEASES, HEARTBEATS, since=clock.now(), name=HEARTBEATS_NAME)
        self._others: dict[str, Shelf[Any]] = {}
        self._tasks: dict[str, asyncio.Task[NoReturn]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Watch until cancelled. A watcher that breaks by a bug of ours ends everything: the next leader takes over."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for shelf in self._shelves():
                    self._start(shelf)
        finally:
            self._group = None
            self._tasks.clear()
            for shelf in self._shelves():
                shelf.went_blind("no longer watched")

    def follow(self, kind: Kind[R], scope: Scope = EVERYTHING) -> None:
        """Begin to watch a kind, now or when `run` starts. Asking twice is asking once."""
        known = self._others.get(str(kind))
        if known is not None:
            assert (known.kind, known.scope) == (kind, scope), f"{kind} is already followed in another way"
            return
        shelf = self._others[str(kind)] = Shelf(kind, scope, since=self._clock.now())
        if self._group is not None:
            self._start(shelf)

    def drop(self, kind: Kind[R]) -> None:
        """Stop watching a kind and forget its objects."""
        self._others.pop(str(kind), None)
        if task := self._tasks.pop(str(kind), None):
            task.cancel()

    def snapshot(self, now: datetime) -> Cluster:
        shelves = self._shelves()
        return Cluster(
            now=now,
            nodes=self._nodes.objects,
            heartbeats=self._heartbeats.objects,
            others={name: shelf.objects for name, shelf in self._others.items()},
            blind=tuple(_blindness(shelf) for shelf in shelves if shelf.blind_since is not None),
            unread=tuple(
                Unread(shelf.name, item.key, item.why) for shelf in shelves for item in shelf.set_aside.values()
            ),
        )

    def _shelves(self) -> list[Shelf[Any]]:
        return [self._nodes, self._heartbeats, *self._others.values()]

    def _start(self, shelf: Shelf[Any]) -> None:
        assert self._group is not None
        watcher = Watcher(self._client, shelf, self._clock, self._witness, self._patience)
        task = self._group.create_task(watcher.run(), name=f"watch {shelf.name}")
        if shelf.name in self._others:
            self._tasks[shelf.name] = task


def _blindness(shelf: Shelf[Any]) -> Blindness:
    assert shelf.blind_since is not None
    return Blindness(shelf.name, shelf.blind_since, shelf.blind_why)
