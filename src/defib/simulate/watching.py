"""Open watches: what of each change a watcher sees, in which words, and when it hears that nothing happened."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

import msgspec

from defib.clock import Clock
from defib.simulate.refusals import Refusal
from defib.simulate.selectors import Test
from defib.simulate.store import ADDED, DELETED, MODIFIED, Change, Collection, Store, Version, with_revision

BOOKMARK_INTERVAL_SECONDS = 60.0
_FAREWELL_SECONDS = 2.0
QUEUE_MAX = 100_000
_ROUNDING = 1e-6  # a timer may come a rounding error early

_json = msgspec.json.Encoder()


class Form(msgspec.Struct, frozen=True):
    """How objects are put into bytes for one request."""

    show: Callable[[Version], bytes]
    bookmark: Callable[[int, bool], bytes]


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    timeout_seconds: float
    bookmarks: bool


def event(kind: str, shown: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), shown)


def error_event(refusal: Refusal) -> bytes:
    return event("ERROR", _json.encode(refusal.status()))


def seen(change: Change, selected: Test | None) -> tuple[str, Version] | None:
    """What a watcher with this selection sees of a change: an object that leaves the selection is gone for it."""
    if selected is None:
        return change.kind, change.now
    before = change.before is not None and selected(change.before.object)
    if change.kind == DELETED:
        return (DELETED, change.now) if before else None
    now = selected(change.now.object)
    if now:
        return (MODIFIED if before else ADDED), change.now
    if before and change.before:
        revision = change.now.revision
        return DELETED, Version(with_revision(change.before.object, revision), revision)
    return None


class Watch:
    """One open watch. The server offers it changes; whoever asked for it reads batches of lines."""

    def __init__(self, store: Store, collection: Collection, form: Form, selected: Test | None) -> None:
        self._store = store
        self._collection = collection
        self._form = form
        self._selected = selected
        self._lines: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._broken = False
        self._silent = False
        self._after = 0
        self._bookmark_due = float("inf")
        self._deadline = float("inf")

    def open(self, clock: Clock, options: WatchOptions) -> None:
        self._clock = clock
        self._deadline = clock.monotonic() + options.timeout_seconds
        if options.bookmarks:
            self._bookmark_due = self._next_bookmark()
        self._collection.listeners[self] = None

    def begin_after(self, revision: int) -> None:
        """Nothing up to there is shown, not even when it is still to come: a version may be from a lost future."""
        self._after = revision

    def show(self, kind: str, version: Version) -> None:
        self._lines.append(event(kind, self._form.show(version)))

    def bookmark(self, *, initial_events_end: bool = False) -> None:
        if self._store.revision < self._after:
            return
        self._lines.append(event("BOOKMARK", self._form.bookmark(self._store.revision, initial_events_end)))

    def refuse(self, refusal: Refusal) -> None:
        """The server's no comes as an event, and is the last one."""
        self._lines.append(error_event(refusal))
        self.end()

    def offer(self, change: Change) -> None:
        sight = seen(change, self._selected) if change.now.revision > self._after else None
        if sight is None:
            return
        self.show(*sight)
        if len(self._lines) > QUEUE_MAX:
            self.end()  # as the real server does with a watcher that does not keep up
        self._wake()

    def end(self) -> None:
        """Closes the stream in the orderly way, after what is still to be read."""
        self._ended = True
        self._collection.listeners.pop(self, None)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._wake()

    def cut(self) -> None:
        """Breaks the connection: what was not read yet is lost."""
        self._lines.clear()
        self._broken = True
        self.end()

    def silence(self) -> None:
        """Leaves the reader waiting: no events, no bookmarks, no end, until somebody cuts the connection."""
        self._lines.clear()
        self._collection.listeners.pop(self, None)
        if self._timer:
            self._timer.cancel()
        self._silent = True

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Lines as they come. Raises ConnectionError when the connection was cut."""
        try:
            while True:
                if self._lines:
                    batch = list(self._lines)
                    self._lines.clear()
                    yield batch
                elif self._broken:
                    raise ConnectionError("the connection was cut")
                elif self._ended:
                    return
                else:
                    await self._wait()
        finally:
            self.end()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None and not self._silent:
            due = min(self._bookmark_due, self._deadline) - self._clock.monotonic()
            self._timer = loop.call_later(due, self._time_is_up)
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _time_is_up(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        if now >= self._deadline - _ROUNDING:
            self.end()
            return
        if now >= self._bookmark_due - _ROUNDING:
            self._bookmark_due = self._next_bookmark()
            self.bookmark()
        self._wake()

    def _next_bookmark(self) -> float:
        """Every minute, and shortly before the end, so that the next watch can go on from there."""
        now = self._clock.monotonic()
        due, farewell = now + BOOKMARK_INTERVAL_SECONDS, self._deadline - _FAREWELL_SECONDS
        return farewell if now + _ROUNDING < farewell < due else due

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)
