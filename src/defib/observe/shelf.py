"""The latest objects of one kind, and how well we see them.

A shelf is filled by one watcher and read by snapshots. It never goes back in time: an object replaces another only
when its version is newer, so events that come twice, or late, change nothing.

What came back from a write of our own is noted at once, ahead of the watch, which will tell it again. Noting never moves
the version to resume from: the watch must still tell everything else that happened before it.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Generic

import msgspec

from defib.kube.client import EVERYTHING, Scope
from defib.kube.decode import Event, SetAside, UnreadableEvent
from defib.kube.kinds import Kind, R
from defib.observe.share import Pool, says_the_same, share_unchanged, share_words

NEVER_LISTED = "not listed yet"
BURIED_MAX = 10_000
_NOTHING: Mapping[str, "SetAside"] = MappingProxyType({})


class Absence(StrEnum):
    """Why a kind that we can do without is not there for us."""

    GONE = "gone"  # the API server does not have it
    FORBIDDEN = "forbidden"  # it does not let us see it


class Contents(msgspec.Struct, Generic[R]):
    """A whole list, while it is being read."""

    objects: dict[str, R] = {}
    set_aside: dict[str, SetAside] = {}
    words: Pool = {}


class Shelf(Generic[R]):
    def __init__(
        self,
        kind: Kind[R],
        scope: Scope = EVERYTHING,
        *,
        since: datetime,
        name: str = "",
        optional: bool = False,
    ) -> None:
        self.name = name or str(kind)
        self.kind = kind
        self.scope = scope
        self.optional = optional  # we can do without it: not having it is no blindness
        self.version = ""  # resume from here; empty means a list is needed
        self.synced = False
        self.streams_lists = True  # until the server says that it cannot
        self.has_answer = asyncio.Event()  # the list that was asked for is there, or it is known that there is none
        self.blind_since: datetime | None = since
        self.blind_why = NEVER_LISTED
        self.absence: Absence | None = None
        self.heard_at = since
        self._contents: Contents[R] = Contents()
        self._buried: dict[str, str] = {}
        self._noted: dict[str, str] = {}  # the versions of our own writes that the watch has not told yet
        self._view: Mapping[str, R] | None = None
        self.repeats = 0  # how many changes said the same again, since the start

    @property
    def objects(self) -> Mapping[str, R]:
        """A frozen picture, shared by all who ask until something changes."""
        if self._view is None:
            self._view = MappingProxyType(self._contents.objects.copy())
        return self._view

    @property
    def has_set_aside(self) -> bool:
        return bool(self._contents.set_aside)

    @property
    def set_aside(self) -> Mapping[str, SetAside]:
        found = self._contents.set_aside
        return MappingProxyType(found.copy()) if found else _NOTHING

    def saw(self, now: datetime) -> bool:
        """The server spoke to us at `now`, so we see; whether that ended a blindness."""
        self.heard_at = now
        if not self.synced or self.blind_since is None:
            return False
        self.blind_since = None
        self.blind_why = ""
        self.absence = None
        return True

    def went_blind(self, why: str, absence: Absence | None = None, since: datetime | None = None) -> bool:
        """We lost sight; what we know was true when we last heard something, or at `since`. Whether that is news."""
        is_news = self.blind_since is None or self.blind_why != why
        self.blind_since = self.blind_since or since or self.heard_at
        self.blind_why = why
        self.absence = absence
        return is_news

    def holds(self, item: R) -> bool:
        """Whether an object of the kind belongs here. What a selector selects, only the server can say."""
        scope = self.scope
        return scope.namespace in ("", item.namespace) and not scope.labels and not scope.fields

    def note(self, item: R) -> bool:
        """Show what came back from our own write, if it is later than what we know; whether it was."""
        key, version = item.key, item.metadata.resource_version
        if not version or not self._is_news(key, version) or self._is_past(key, version):
            return False
        self._contents.set_aside.pop(key, None)
        self._contents.objects[key] = item
        self._noted[key] = version
        self._view = None
        return True

    def list_begins(self) -> None:
        """What we wrote before this moment the list cannot lack, but on a server that was restored from a backup.

        That one has lost it for good: kept, it would be taken for later than all that the server says of the object.
        """
        self._noted.clear()

    def collect(self, fresh: Contents[R], events: Iterable[Event[R] | UnreadableEvent]) -> None:
        """Add the objects of a streamed list, and the changes that happen while it is streamed.

        Those that we have are kept as they come, so that there are never two of each while a list is read again.
        """
        for event in events:
            if isinstance(event, UnreadableEvent):
                set_aside(fresh, event)
            elif event.type == "DELETED":
                fresh.objects.pop(event.object.key, None)
            elif event.type != "BOOKMARK":
                key = event.object.key
                item = fresh.objects[key] = self._known_or(key, event.object)
                if item is event.object:
                    share_words(item, fresh.words)

    def _known_or(self, key: str, item: R) -> R:
        """The one that we have, if it is of the same version: whoever remembers it need not judge it again."""
        known = self._contents.objects.get(key)
        return known if known is not None and _version_of(known) == _version_of(item) else item

    def replace(self, fresh: Contents[R], version: str) -> int:
        """Take over a whole list. What it lacks is gone; what it holds in the same version is not news."""
        known = self._contents
        self._keep_noted(fresh, version)
        news = sum(1 for key, item in fresh.objects.items() if _version_of(known.objects.get(key)) != _version_of(item))
        gone = len(known.objects.keys() - fresh.objects.keys()) + len(known.set_aside.keys() ^ fresh.set_aside.keys())
        for key, item in fresh.objects.items():
            fresh.objects[key] = self._known_or(key, item)
        fresh.words.clear()
        self._buried.clear()
        self._contents = fresh
        self.version = version
        self.synced = True
        if news or gone:
            self._view = None
        return news + gone

    def apply(self, events: Iterable[Event[R] | UnreadableEvent]) -> int:
        """Take in a batch of changes in order; how many of them were news."""
        news = sum(map(self._apply_one, events))
        if news:
            self._view = None
        return news

    def _apply_one(self, event: Event[R] | UnreadableEvent) -> bool:
        if isinstance(event, UnreadableEvent):
            key, version = event.item.key, event.item.version
        else:
            key, version = event.object.key, event.object.metadata.resource_version
        self.version = newest(self.version, version)
        if self._noted:
            self._confirm(key, version)
        if event.type == "BOOKMARK" or not self._is_news(key, version):
            return False
        if event.type == "DELETED":
            self._bury(key, version)
        if isinstance(event, UnreadableEvent):
            return set_aside(self._contents, event)
        return self._put(key, event)

    def _is_news(self, key: str, version: str) -> bool:
        """Whether this is later than what we know of the object, be it there, unreadable or deleted."""
        known = self._contents.objects.get(key)
        if known is not None:
            return is_newer(version, than=known.metadata.resource_version)
        aside = self._contents.set_aside.get(key)
        return is_newer(version, than=aside.version if aside is not None else self._buried.get(key, ""))

    def _is_past(self, key: str, version: str) -> bool:
        """Whether the watch has told all up to this version and we do not know the object: it is deleted since."""
        if key in self._contents.objects or key in self._contents.set_aside or not self.version:
            return False
        return not is_newer(version, than=self.version)

    def _confirm(self, key: str, version: str) -> None:
        """The watch has come to our own write, or past it."""
        noted = self._noted.get(key)
        if noted is not None and not is_newer(noted, than=version):
            del self._noted[key]

    def _keep_noted(self, fresh: Contents[R], version: str) -> None:
        """Save our own writes from a list that was under way when they were made."""
        for key, noted in self._noted.items():
            if is_newer(noted, than=version):
                fresh.set_aside.pop(key, None)
                fresh.objects[key] = self._contents.objects[key]
        self._noted.clear()

    def _bury(self, key: str, version: str) -> None:
        """Remember for a while that it is gone, so that a late word about it does not bring it back."""
        self._buried[key] = version
        if len(self._buried) > BURIED_MAX:
            del self._buried[next(iter(self._buried))]

    def _put(self, key: str, event: Event[R]) -> bool:
        was_aside = self._contents.set_aside.pop(key, None) is not None
        if event.type == "DELETED":
            return self._contents.objects.pop(key, None) is not None or was_aside
        known = self._contents.objects.get(key)
        if known is not None:
            share_unchanged(event.object, known)
            self.repeats += says_the_same(event.object, known)
        self._contents.objects[key] = event.object
        return True


def set_aside(contents: Contents[R], event: UnreadableEvent) -> bool:
    """An object we can no longer read is no longer known: its last readable state must not be acted on."""
    key = event.item.key
    was_known = contents.objects.pop(key, None) is not None
    if event.type == "DELETED":
        return contents.set_aside.pop(key, None) is not None or was_known
    is_news = contents.set_aside.get(key) != event.item
    contents.set_aside[key] = event.item
    return was_known or is_news


def is_newer(version: str, *, than: str) -> bool:
    """Versions are increasing numbers; a server that sends something else is taken at its word."""
    if version.isdecimal() and than.isdecimal():
        return (len(version), version) > (len(than), than)  # as numbers, without making numbers of them
    return version != than


def newest(known: str, heard: str) -> str:
    return heard if heard and (not known or is_newer(heard, than=known)) else known


def _version_of(item: R | None) -> str:
    return item.metadata.resource_version if item is not None else ""
