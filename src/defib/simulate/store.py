"""Where the objects are: every version of every object in order, as far back as history goes.

Objects are plain dicts that nobody may change once they are in here; a write brings a new one. They are kept without
`kind` and `apiVersion`, because those depend on the version that is asked for.
"""

from collections import deque
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Protocol

import msgspec

Object = dict[str, Any]

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

_json = msgspec.json.Encoder()


class Version:
    """One version of one object. Its JSON is made once, however many watchers it goes to."""

    __slots__ = ("_encoded", "object", "revision")

    def __init__(self, stored: Object, revision: int) -> None:
        self.object = stored
        self.revision = revision
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = _json.encode(self.object)
        return self._encoded

    def forget_encoding(self) -> None:
        """An old version is rarely read again; it can be encoded anew."""
        self._encoded = None


class Change:
    """What one write did to one object."""

    __slots__ = ("before", "key", "kind", "now", "resource")

    def __init__(self, resource: str, kind: str, before: Version | None, now: Version) -> None:
        self.resource = resource
        self.key = key_of(now.object)
        self.kind = kind
        self.before = before
        self.now = now  # of a deletion: the last state, at the revision of the deletion


class Listener(Protocol):
    def offer(self, change: Change) -> None: ...

    def end(self) -> None: ...


class Collection:
    """The objects of one resource and what happened to them lately."""

    def __init__(self, floor: int, limit: int) -> None:
        self.objects: dict[str, Version] = {}
        self.history: deque[Change] = deque()
        self.floor = floor  # history holds every change after this revision
        self.listeners: dict[Listener, None] = {}  # a set that keeps its order, for determinism
        self._limit = limit
        self._sorted: list[str] | None = []

    def keys(self) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        return self._sorted

    def record(self, change: Change) -> None:
        key = change.key
        if change.kind == DELETED:
            del self.objects[key]
            self._sorted = None
        else:
            if change.before is None:
                self._sorted = None
            self.objects[key] = change.now
        if change.before:
            change.before.forget_encoding()
        self.history.append(change)
        if len(self.history) > self._limit:
            self.floor = self.history.popleft().now.revision

    def forget(self, revision: int) -> None:
        """Drops what happened up to a revision."""
        while self.history and self.history[0].now.revision <= revision:
            self.history.popleft()
        self.floor = max(self.floor, revision)

    def since(self, revision: int) -> list[Change]:
        """The changes after a revision, oldest first."""
        recent = takewhile(lambda c: c.now.revision > revision, reversed(self.history))
        return list(recent)[::-1]

    def at(self, revision: int) -> dict[str, Version]:
        """The objects as they were at a revision that history still reaches back to, in order of their keys."""
        if not self.history or self.history[-1].now.revision <= revision:
            return {key: self.objects[key] for key in self.keys()}
        then = dict(self.objects)
        for change in reversed(self.history):
            if change.now.revision <= revision:
                break
            if change.before is None:
                then.pop(change.key, None)
            else:
                then[change.key] = change.before
        return {key: then[key] for key in sorted(then)}


class Store:
    def __init__(self, history: int) -> None:
        self.revision = 1
        self.compacted = 0
        self.watched_since = 0  # a watch can go on from here at the earliest, though lists reach further back
        self._history = history
        self._collections: dict[str, Collection] = {}
        self.on_change: Callable[[Change], None] | None = None

    def collection(self, resource: str) -> Collection:
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(self.compacted, self._history)
        return found

    def collections(self) -> dict[str, Collection]:
        return self._collections

    def get(self, resource: str, key: str) -> Version | None:
        return self.collection(resource).objects.get(key)

    def put(self, resource: str, proposed: Object) -> Version:
        collection = self.collection(resource)
        before = collection.objects.get(key_of(proposed))
        now = self._next(proposed)
        self._record(collection, Change(resource, MODIFIED if before else ADDED, before, now))
        return now

    def remove(self, resource: str, last: Object) -> Version:
        """`last` is the state the watchers see go, which may differ from what is stored."""
        collection = self.collection(resource)
        now = self._next(last)
        self._record(collection, Change(resource, DELETED, collection.objects[key_of(last)], now))
        return now

    def compact(self, revision: int | None = None) -> None:
        """Forgets what happened up to a revision; without one, everything that happened so far."""
        self.compacted = self.revision if revision is None else revision
        for collection in self._collections.values():
            collection.forget(self.compacted)

    def _next(self, proposed: Object) -> Version:
        self.revision += 1
        return Version(with_revision(proposed, self.revision), self.revision)

    def _record(self, collection: Collection, change: Change) -> None:
        collection.record(change)
        for listener in tuple(collection.listeners):
            listener.offer(change)
        if self.on_change:
            self.on_change(change)


def with_revision(stored: Object, revision: int) -> Object:
    return {**stored, "metadata": {**stored["metadata"], "resourceVersion": str(revision)}}


def key_of(stored: Object) -> str:
    """Sorts as the real store sorts: by namespace, then by name."""
    meta = stored["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])
