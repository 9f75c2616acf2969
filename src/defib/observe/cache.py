"""All shelves together: which kinds we follow, and the frozen Cluster they make."""

import asyncio
from datetime import datetime
from typing import Any, NoReturn

import structlog

from defib.clock import Clock
from defib.kube.client import EVERYTHING, Client, Scope
from defib.kube.kinds import NODES, Kind, R
from defib.model.cluster import HEARTBEAT_NAMESPACE, HEARTBEATS, Blindness, Cluster, Unread
from defib.model.node import Node
from defib.observe.pulses import HeartbeatShelf
from defib.observe.shelf import Absence, Shelf
from defib.observe.watch import Patience, Watcher, Witness

log = structlog.get_logger("observe")

LOCKS_NAME = "locks"
NOT_SEEN_AGAIN = "not seen again since we began to lead"
LISTED_PER_SECOND = 500  # what a busy API server is given; one that is at leisure lists many times as many
CATCH_UP_LEAST_SECONDS = 10.0
CATCH_UP_MOST_SECONDS = 60.0  # whoever leads and sees nothing for longer is in the way of those who do
NAMED_MAX = 10  # in one line of the log; each remediation follows the pods of its node


def catch_up_seconds(known: Cluster) -> float:
    """How long whoever begins to lead waits for new lists: by how much there was to list when it last looked."""
    count = sum(map(len, (known.nodes, known.locks, *known.others.values())))
    return min(CATCH_UP_LEAST_SECONDS + count // LISTED_PER_SECOND, CATCH_UP_MOST_SECONDS)


class Cache:
    """Nodes and their heartbeats always; other kinds for as long as somebody needs them."""

    def __init__(self, client: Client, clock: Clock, witness: Witness, patience: Patience) -> None:
        self._client = client
        self._clock = clock
        self._witness = witness
        self._patience = patience
        self._nodes: Shelf[Node] = Shelf(NODES, since=clock.now())
        self._heartbeats = HeartbeatShelf(Scope(namespace=HEARTBEAT_NAMESPACE), clock, HEARTBEATS)
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
                shelf.has_answer.set()

    def follow(self, kind: Kind[R], scope: Scope = EVERYTHING, *, name: str = "", optional: bool = False) -> None:
        """Begin to watch a kind, now or when `run` starts. Asking twice is asking once.

        An optional kind that the server does not have, or does not let us see, is absent; any other is out of sight.
        """
        name = name or str(kind)
        assert name not in (self._nodes.name, self._heartbeats.name), f"{name} are always followed"
        known = self._others.get(name)
        if known is not None:
            same = (known.kind, known.scope, known.optional) == (kind, scope, optional)
            assert same, f"{name} are already followed in another way"
            return
        shelf = self._others[name] = Shelf(kind, scope, since=self._clock.now(), name=name, optional=optional)
        if self._group is not None:
            self._start(shelf)

    def drop(self, kind: Kind[R], name: str = "") -> None:
        """Stop watching a kind and forget its objects."""
        name = name or str(kind)
        if shelf := self._others.pop(name, None):
            shelf.has_answer.set()  # whoever waits for it waits for nothing
            self._stop(name)

    def retry(self, name: str) -> None:
        """Look for a kind now that is absent, and not after the pause."""
        if self._group is not None and name in self._others:
            self._stop(name)
            self._start(self._others[name])

    async def refresh(self, seconds: float) -> None:
        """See what there is now, of all but heartbeats. What cannot be seen in time is out of sight, and known to be.

        Until its list is there, or the time is up, each kind shows what it showed. Heartbeats can stay out: nobody
        writes anything there for a later leader to know, and if what we have of them is old, most are overdue and
        nothing is done. Pods cannot: of those that came to a node since, an old sight knows nothing, and its machine
        would be let go before they are gone.
        """
        if self._group is None:
            return
        asked_at = self._clock.now()
        shelves = [self._nodes, *self._others.values()]
        for shelf in shelves:
            self._stop(shelf.name)
            self._start(shelf).list_first("promotion")
        try:
            async with asyncio.timeout(seconds):
                for shelf in shelves:
                    await shelf.has_answer.wait()
        except TimeoutError:
            self._give_up([shelf for shelf in shelves if not shelf.has_answer.is_set()], asked_at)

    def _give_up(self, shelves: list[Shelf[Any]], asked_at: datetime) -> None:
        """Their watchers go on trying. Whoever waits for them all would be stopped for ever by one that hangs.

        They are blind since we asked again and not since the last event: of a quiet kind that may be long ago, and a
        blindness that is long from its first moment would make us give the lead away again.
        """
        names = [shelf.name for shelf in shelves]
        log.warning(
            NOT_SEEN_AGAIN,
            kinds=names[:NAMED_MAX],
            count=len(names),
            advice="whatever depends on them waits until they are listed; see what keeps the API server from it",
        )
        for shelf in shelves:
            shelf.went_blind(NOT_SEEN_AGAIN, since=asked_at)
            self._witness.sight_changed(shelf.name)

    def note(self, kind: Kind[R], item: R) -> bool:
        """Show what came back from our own write before the watch tells it; whether it was news to anybody."""
        holding = [shelf for shelf in self._shelves() if shelf.kind == kind and shelf.holds(item)]
        return sum(shelf.note(item) for shelf in holding) > 0

    def is_gone(self, name: str) -> bool:
        """Whether the server says that it has no such kind, of one that is followed as optional."""
        shelf = self._others.get(name)
        return shelf is not None and shelf.absence is Absence.GONE

    def is_settled(self, name: str) -> bool:
        """Whether we have seen the objects of a kind, or were told that we cannot."""
        shelf = self._others.get(name)
        return shelf is not None and (shelf.synced or shelf.absence is not None)

    def lost(self) -> tuple[Blindness, ...]:
        """Of what we cannot do without, what is out of sight."""
        always = (self._nodes, self._heartbeats)
        return tuple(
            Blindness(one.name, one.blind_since, one.blind_why) for one in always if one.blind_since is not None
        )

    def glance(self, name: str, now: datetime) -> Cluster:
        """One of the other kinds alone, for whoever asks often and goes by nothing else."""
        shelf = self._others.get(name)
        if shelf is None:
            return Cluster(now=now)
        return Cluster(now=now, others={name: shelf.objects}, unread=_unread([shelf]))

    def snapshot(self, now: datetime) -> Cluster:
        shelves = self._shelves()
        out_of_sight = [shelf for shelf in shelves if shelf.blind_since is not None]
        objects = {name: shelf.objects for name, shelf in self._others.items()}
        return Cluster(
            now=now,
            nodes=self._nodes.objects,
            heartbeats=self._heartbeats.objects,
            pulses=self._heartbeats.pulses,
            locks=objects.pop(LOCKS_NAME, {}),
            others=objects,
            blind=tuple(
                Blindness(shelf.name, shelf.blind_since, shelf.blind_why)
                for shelf in out_of_sight
                if shelf.blind_since is not None and shelf.absence is None
            ),
            absent={shelf.name: shelf.blind_why for shelf in out_of_sight if shelf.absence is not None},
            unread=_unread(shelves),
        )

    def _shelves(self) -> list[Shelf[Any]]:
        return [self._nodes, self._heartbeats, *self._others.values()]

    def _start(self, shelf: Shelf[Any]) -> Watcher[Any]:
        assert self._group is not None
        watcher = Watcher(self._client, shelf, self._clock, self._witness, self._patience)
        self._tasks[shelf.name] = self._group.create_task(watcher.run(), name=f"watch {shelf.name}")
        return watcher

    def _stop(self, name: str) -> None:
        if task := self._tasks.pop(name, None):
            task.cancel()


def _unread(shelves: list[Shelf[Any]]) -> tuple[Unread, ...]:
    return tuple(
        Unread(shelf.name, item.key, item.why)
        for shelf in shelves
        if shelf.has_set_aside
        for item in shelf.set_aside.values()
    )
