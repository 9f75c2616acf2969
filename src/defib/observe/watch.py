"""Keeps one shelf equal to what the API server has, for ever, whatever the server or the network does.

    list ──▶ watch ──▶ watch again from the last version ──▶ …
     ▲         │ 410, unreadable stream, audit due
     └─────────┘

Every wait is bounded: a stream that is silent longer than bookmarks are apart is taken for dead. Failures are
repeated with growing, jittered pauses and are never silent: the shelf says since when it is blind and why. A kind that
we can do without may be missing or forbidden for good: that is told once, and looked after at an even pace.
"""

import asyncio
from typing import Generic, NoReturn, Protocol

import msgspec
import structlog

from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.decode import Event, UnreadableEvent
from defib.kube.errors import (
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Refused,
    Throttled,
    UnknownKind,
    Unreachable,
    Unreadable,
)
from defib.kube.kinds import R
from defib.kube.limits import backoff
from defib.observe.shelf import Absence, Contents, Shelf

log = structlog.get_logger("observe")

HEALTHY_SECONDS = 10.0  # a stream that lived this long was a good one: the next failure is a first failure
LISTING_SECONDS = 120.0
PAUSE_MAX_SECONDS = 60.0  # whatever a server asks for: longer would be blindness by request
ORDERLY_ATTEMPT_MAX = 3  # streams that end early but in order are opened again within two seconds
REFUSALS_UNTIL_LIST = 3
ROLES_READ_SECONDS = 10.0  # an API server that has just started forbids everything until it has read its roles
ABSENT_SECONDS = 10.0  # a kind that we can do without is looked for again after this to half as long again

Batch = list[Event[R] | UnreadableEvent]


class Silent(Unreachable):
    """The stream is open and says nothing, not even that nothing happened."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long a watcher believes in what it has."""

    stall_seconds: float = 90.0  # the API server sends a bookmark about once a minute
    stream_seconds: int = 300  # the server ends a stream after this to twice this, so that load spreads again
    audit_seconds: float = 1800.0  # list again: heals whatever a broken proxy or server swallowed


class Witness(Protocol):
    """Who is told what a watcher sees; metrics, in the operator."""

    def heard(self, name: str, events: int, news: int) -> None: ...

    def changed(self, name: str) -> None:
        """Some of what was heard says something that we did not know."""
        ...

    def relisted(self, name: str, reason: str) -> None: ...

    def sight_changed(self, name: str) -> None: ...


class Watcher(Generic[R]):
    def __init__(self, client: Client, shelf: Shelf[R], clock: Clock, witness: Witness, patience: Patience) -> None:
        self._client = client
        self._shelf = shelf
        self._clock = clock
        self._witness = witness
        self._patience = patience
        self._name = shelf.name
        self._reason = "start"  # why the next list is needed
        self._audit_due = 0.0
        self._refusals = 0  # in a row
        self._forbidden_at: float | None = None  # since when, of what we have seen

    def list_first(self, reason: str) -> None:
        """Begin with a list, also where a watch could go on: what is known may be older than it looks."""
        self._list_again(reason)
        self._shelf.has_answer.clear()

    async def run(self) -> NoReturn:
        attempt = 0
        while True:
            started = self._clock.monotonic()
            pause = 0.0
            try:
                await self._follow()
                attempt = min(attempt, ORDERLY_ATTEMPT_MAX)
            except KubeError as error:
                pause = min(self._failed(error), PAUSE_MAX_SECONDS)
            lived = self._clock.monotonic() - started
            attempt = 0 if lived >= HEALTHY_SECONDS or self._shelf.absence else attempt + 1
            await asyncio.sleep(max(pause, backoff(attempt, self._clock)))

    async def _follow(self) -> None:
        """One stream, from its beginning to its end, after a list where one is needed."""
        if self._shelf.synced and self._clock.monotonic() >= self._audit_due:
            self._list_again("audit")
        if not self._shelf.version:
            self._shelf.list_begins()
        if not self._shelf.version and not self._shelf.streams_lists:
            await self._list()
        since = self._shelf.version
        try:
            await self._stream(since)
        except (Invalid, Forbidden) as error:
            if since or not self._shelf.streams_lists:
                raise
            log.info("server does not stream lists", kind=self._name, why=str(error))
            self._shelf.streams_lists = False

    async def _stream(self, since: str) -> None:
        """Take in a watch; one that starts from nothing begins with the whole list."""
        fresh: Contents[R] | None = None if since else Contents()
        seconds = self._patience.stream_seconds + int(self._clock.jitter(self._patience.stream_seconds))
        loop = asyncio.get_running_loop()
        limit = self._patience.stall_seconds
        async with self._client.watch(self._shelf.kind, self._shelf.scope, since=since, seconds=seconds) as batches:
            if since:
                self._saw()
            try:
                async with asyncio.timeout(limit) as silence:
                    async for batch in batches:
                        silence.reschedule(loop.time() + limit)
                        if fresh is None:
                            self._take_changes(batch)
                        else:
                            fresh = self._take_initial(fresh, batch)
            except TimeoutError as error:  # a silent watch is not a healthy watch
                raise Silent(f"the watch was silent for {limit:g} s") from error
        if fresh is not None:
            raise Unreachable("the stream ended before the list was complete")

    def _take_initial(self, fresh: Contents[R], batch: Batch[R]) -> Contents[R] | None:
        """Add to the list that a stream begins with, up to its marked bookmark; None when it is complete."""
        for place, event in enumerate(batch):
            if isinstance(event, UnreadableEvent) or event.type != "BOOKMARK":
                continue
            if not event.ends_initial_list:
                self._shelf.streams_lists = False  # it does not know the request: this is an ordinary watch
                raise Unreadable("the server answered a streaming list with an ordinary watch")
            self._shelf.collect(fresh, batch[:place])
            self._take_over(fresh, event.object.metadata.resource_version)
            self._take_changes(batch[place + 1 :])
            return None
        self._shelf.collect(fresh, batch)
        return fresh

    async def _list(self) -> None:
        page = await self._client.list_all(self._shelf.kind, self._shelf.scope, deadline=LISTING_SECONDS)
        fresh: Contents[R] = Contents(
            {item.key: item for item in page.items}, {item.key: item for item in page.set_aside}
        )
        self._take_over(fresh, page.version)

    def _take_over(self, fresh: Contents[R], version: str) -> None:
        self._audit_due = self._clock.monotonic() + self._patience.audit_seconds
        changes = self._shelf.replace(fresh, version)
        self._witness.relisted(self._name, self._reason)
        self._saw()
        self._shelf.has_answer.set()
        if self._reason == "audit" and changes:
            log.info("a list found what the watch had not told yet", kind=self._name, changes=changes)
        for item in self._shelf.set_aside.values():
            log.warning("object set aside", kind=self._name, key=item.key, why=item.why)

    def _take_changes(self, batch: Batch[R]) -> None:
        repeats = self._shelf.repeats
        news = self._shelf.apply(batch)
        self._refusals = 0
        self._saw()
        self._witness.heard(self._name, len(batch), news)
        if news > self._shelf.repeats - repeats:
            self._witness.changed(self._name)
        for event in batch:
            if isinstance(event, UnreadableEvent):
                log.warning("object set aside", kind=self._name, key=event.item.key, why=event.item.why)

    def _failed(self, error: KubeError) -> float:
        """Note that we lost sight and what the next try needs; the least pause before it."""
        if isinstance(error, Silent) and self._shelf.version:
            # Not blind yet: on servers without bookmarks every quiet kind looks like this. The list will tell; also
            # a server restored from a backup needs one, since it says nothing until it is past our version.
            self._list_again("silent")
            return 0.0
        self._shelf.has_answer.set()
        self._ask_otherwise(error)
        absence = self._absence(error)
        kind = self._shelf.kind
        why = UnknownKind(kind.name, kind.group, kind.version) if absence is Absence.GONE else error
        if self._shelf.went_blind(str(why), absence):
            tell = log.info if absence else log.warning
            tell("watch interrupted", kind=self._name, why=str(why))
            self._witness.sight_changed(self._name)
        if absence:
            return ABSENT_SECONDS + self._clock.jitter(ABSENT_SECONDS / 2)
        return (error.retry_after or 0.0) if isinstance(error, Refused) else 0.0

    def _ask_otherwise(self, error: KubeError) -> None:
        """Change what the next try asks for, where this error says that the same would fail again."""
        if isinstance(error, Silent):
            self._shelf.streams_lists = False  # it opened the stream and then did not even list: ask in the old way
        elif isinstance(error, Gone | NotFound):  # a kind that has gone has taken its objects and versions along
            self._list_again("expired")
        elif isinstance(error, Unreadable):
            self._list_again("unreadable")
        elif isinstance(error, Refused) and not isinstance(error, Throttled):
            self._refusals += 1
            if self._refusals % REFUSALS_UNTIL_LIST == 0:
                self._list_again("refused")  # whatever it has against our version, it may have less against none

    def _absence(self, error: KubeError) -> Absence | None:
        """What we could see until now may be forbidden for a moment only, and then it is out of sight like anything."""
        absence = _absence(error) if self._shelf.optional else None
        if absence is not Absence.FORBIDDEN or not self._shelf.synced or self._shelf.absence is not None:
            return absence
        now = self._clock.monotonic()
        self._forbidden_at = now if self._forbidden_at is None else self._forbidden_at
        return absence if now - self._forbidden_at >= ROLES_READ_SECONDS else None

    def _saw(self) -> None:
        self._forbidden_at = None
        if self._shelf.saw(self._clock.now()):
            log.info("watch sees", kind=self._name)
            self._witness.sight_changed(self._name)

    def _list_again(self, reason: str) -> None:
        self._shelf.version = ""
        self._reason = reason


def _absence(error: KubeError) -> Absence | None:
    if isinstance(error, NotFound):
        return Absence.GONE
    return Absence.FORBIDDEN if isinstance(error, Forbidden) else None
