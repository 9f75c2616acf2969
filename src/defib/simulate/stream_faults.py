"""What faults do to an open watch: each takes batches of lines and gives other batches."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

import msgspec

from defib.clock import Clock
from defib.simulate.faults import (
    CutWatch,
    DropEvents,
    DuplicateEvents,
    EndWatch,
    FailWatch,
    Garbage,
    LateEvents,
    NoBookmarks,
    ReorderEvents,
    SilenceWatch,
    WatchEffect,
    reason_of,
)
from defib.simulate.refusals import Refusal
from defib.simulate.watching import error_event

Batches = AsyncGenerator[list[bytes], None]

_BOOKMARK, _ERROR = b'{"type":"BOOKMARK"', b'{"type":"ERROR"'


class _Named(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


class _Line(msgspec.Struct, frozen=True):
    object: _Object


_read_line = msgspec.json.Decoder(_Line).decode


def broken(batches: Batches, effect: WatchEffect, clock: Clock) -> Batches:
    """The same stream with one more thing wrong with it."""
    return _BREAK[type(effect)](batches, effect, clock)


async def for_ever() -> None:
    """Waits for what never comes: only cancellation ends it."""
    await asyncio.get_running_loop().create_future()


class _Lines:
    """A stream line by line, and whether it ended by itself: then nothing is left that could go wrong."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._waiting: deque[bytes] = deque()
        self.ended = False

    async def first(self, count: int) -> Batches:
        """The first lines, without waiting for the one after them."""
        for _ in range(count):
            if not self._waiting:
                batch = await anext(self._batches, None)
                if batch is None:
                    self.ended = True
                    return
                self._waiting.extend(batch)
            yield [self._waiting.popleft()]

    async def rest(self) -> Batches:
        if self._waiting:
            yield list(self._waiting)
        async for batch in self._batches:
            yield batch


async def _cut(batches: Batches, effect: CutWatch, _clock: Clock) -> Batches:
    lines = _Lines(batches)
    async for batch in lines.first(effect.after):
        yield batch
    if effect.mid_event:
        async for [line] in lines.first(1):
            yield [line[: len(line) // 2]]
    if not lines.ended:
        raise ConnectionError("the watch was cut by a fault")


async def _ended(batches: Batches, effect: EndWatch, _clock: Clock) -> Batches:
    async for batch in _Lines(batches).first(effect.after):
        yield batch


async def _silenced(batches: Batches, effect: SilenceWatch, _clock: Clock) -> Batches:
    lines = _Lines(batches)
    async for batch in lines.first(effect.after):
        yield batch
    if not lines.ended:
        await for_ever()


async def _failed(batches: Batches, effect: FailWatch, _clock: Clock) -> Batches:
    lines = _Lines(batches)
    async for batch in lines.first(effect.after):
        yield batch
    if not lines.ended:
        yield [error_event(Refusal(effect.code, effect.reason or reason_of(effect.code), effect.message))]


async def _dropped(batches: Batches, effect: DropEvents, clock: Clock) -> Batches:
    async for batch in batches:
        kept = [line for line in batch if clock.jitter(1.0) >= effect.chance]
        if kept:
            yield kept


async def _duplicated(batches: Batches, _effect: DuplicateEvents, _clock: Clock) -> Batches:
    async for batch in batches:
        yield batch
        yield batch


async def _late(batches: Batches, effect: LateEvents, _clock: Clock) -> Batches:
    async for batch in batches:
        await asyncio.sleep(effect.seconds)
        yield batch


async def _reordered(batches: Batches, effect: ReorderEvents, clock: Clock) -> Batches:
    async for batch in batches:
        await asyncio.sleep(effect.window_seconds)
        yield _shuffled(batch, clock)


def _shuffled(batch: list[bytes], clock: Clock) -> list[bytes]:
    """Another order in which each object's own events keep theirs. What speaks for all before it stays in its place."""
    order: list[bytes] = []
    mixed: dict[str, deque[bytes]] = {}
    for line in batch:
        name = _name_in(line)
        if name is None:
            order += _drawn(mixed, clock)
            order.append(line)
        else:
            mixed.setdefault(name, deque()).append(line)
    return order + _drawn(mixed, clock)


def _name_in(line: bytes) -> str | None:
    """Whose event it is; None for bookmarks, errors and what another fault made unreadable."""
    if line.startswith((_BOOKMARK, _ERROR)):
        return None
    try:
        meta = _read_line(line).object.metadata
    except msgspec.DecodeError:
        return None
    return f"{meta.namespace}/{meta.name}"


def _drawn(mixed: dict[str, deque[bytes]], clock: Clock) -> list[bytes]:
    """Empties the lot."""
    drawn = []
    while mixed:
        names = list(mixed)
        name = names[int(clock.jitter(len(names)))]
        drawn.append(mixed[name].popleft())
        if not mixed[name]:
            del mixed[name]
    return drawn


async def _without_bookmarks(batches: Batches, _effect: NoBookmarks, _clock: Clock) -> Batches:
    async for batch in batches:
        kept = [line for line in batch if not line.startswith(_BOOKMARK)]
        if kept:
            yield kept


async def _with_garbage(batches: Batches, effect: Garbage, _clock: Clock) -> Batches:
    lines = _Lines(batches)
    async for batch in lines.first(effect.after):
        yield batch
    if not lines.ended:
        yield [effect.line]
        async for batch in lines.rest():
            yield batch


# Each function takes the effect it is listed under, which a dict cannot say.
_BREAK: dict[type, Callable[..., Batches]] = {
    CutWatch: _cut,
    EndWatch: _ended,
    SilenceWatch: _silenced,
    FailWatch: _failed,
    DropEvents: _dropped,
    DuplicateEvents: _duplicated,
    LateEvents: _late,
    ReorderEvents: _reordered,
    NoBookmarks: _without_bookmarks,
    Garbage: _with_garbage,
}
