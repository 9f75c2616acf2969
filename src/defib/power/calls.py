"""How drivers carry out their calls: in turn, in time, and ending in a value.

One call at a time goes to one place, because the small computers in BMCs answer a second one badly or not at all; and
not more than so many go out in all. A place that hangs holds up its own next call, and nobody else's.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime
from typing import TypeVar

import msgspec

from defib.clock import Clock
from defib.power.base import (
    Accepted,
    NotReady,
    Outcome,
    PowerState,
    Readiness,
    Reading,
    Ready,
    Refused,
    Target,
    Unknown,
)
from defib.power.event_log import EventLog

AT_ONCE_MAX = 64
WHY_MAX = 300

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Trouble(Exception):
    """Why there is no good answer, in words for a person. Must not hold the other side's words without end."""


class Denied(Trouble):
    """It said no, or nothing was sent to it: the call has changed nothing."""


class Doubtful(Trouble):
    """Something was sent and no clear answer came: it may have been carried out."""


class Seen(msgspec.Struct, frozen=True):
    state: PowerState
    detail: str = ""


Ask = Callable[[Target], Awaitable[T]]
Gate = AbstractAsyncContextManager[None]
EVERYBODY: Gate = nullcontext()


class _Place:
    def __init__(self) -> None:
        self.one_at_a_time = asyncio.Lock()
        self.wanted_by = 0


class Calls:
    """`place` says which calls must not meet: by default those to one address."""

    def __init__(
        self, clock: Clock, *, at_once_max: int = AT_ONCE_MAX, place: Callable[[Target], str] | None = None
    ) -> None:
        self._clock = clock
        self._place = place or by_address
        self._places: dict[str, _Place] = {}
        self._slots = asyncio.Semaphore(at_once_max)
        # Checks are many and can wait; a machine that must go off finds half of the slots free of them.
        self._slots_for_checks = asyncio.Semaphore(max(1, at_once_max // 2))

    async def read(self, target: Target, within_seconds: float, ask: Ask[Seen]) -> Reading:
        try:
            at, seen = await self._in_turn(target, within_seconds, ask)
        except Trouble as trouble:
            return Reading(PowerState.UNKNOWN, self._clock.now(), _sentence(trouble, target))
        return Reading(seen.state, at, one_line(target.credentials.hide(seen.detail)))

    async def command(self, target: Target, within_seconds: float, ask: Ask[None]) -> Outcome:
        try:
            await self._in_turn(target, within_seconds, ask)
        except Denied as trouble:
            return Refused(_sentence(trouble, target))
        except Trouble as trouble:
            return Unknown(_sentence(trouble, target))
        return Accepted()

    async def check(self, target: Target, within_seconds: float, ask: Ask[Seen]) -> Readiness:
        try:
            _, seen = await self._in_turn(target, within_seconds, ask, self._slots_for_checks)
        except Trouble as trouble:
            return NotReady(_sentence(trouble, target))
        return NotReady(one_line(target.credentials.hide(seen.detail))) if seen.state is PowerState.UNKNOWN else Ready()

    async def log(self, target: Target, within_seconds: float, ask: Ask[EventLog]) -> EventLog:
        """It can wait, as checks can."""
        try:
            _, log = await self._in_turn(target, within_seconds, ask, self._slots_for_checks)
        except Trouble as trouble:
            return EventLog(why_not=_sentence(trouble, target))
        hide = target.credentials.hide
        entries = (msgspec.structs.replace(one, text=one_line(hide(one.text))) for one in log.entries)
        return msgspec.structs.replace(log, entries=tuple(entries))

    async def _in_turn(
        self, target: Target, within_seconds: float, ask: Ask[T], first: Gate = EVERYBODY
    ) -> tuple[datetime, T]:
        is_our_turn = False
        try:
            async with asyncio.timeout(within_seconds), first, self._turn(self._place(target)):
                is_our_turn = True
                return self._clock.now(), await ask(target)
        except TimeoutError:
            if is_our_turn:
                raise Doubtful(f"no answer within {within_seconds:g} s") from None
            raise Denied(f"nothing was sent: earlier calls were still under way after {within_seconds:g} s") from None

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        place = self._places.setdefault(name, _Place())
        place.wanted_by += 1
        try:
            # In this order: whoever waits for a place that hangs must not hold a slot meanwhile.
            async with place.one_at_a_time, self._slots:
                yield
        finally:
            place.wanted_by -= 1
            if not place.wanted_by:
                del self._places[name]


def by_address(target: Target) -> str:
    return target.address


def by_node(target: Target) -> str:
    """For services and devices that switch many machines: what one waits for is no reason for the others to wait."""
    return f"{target.address} {target.node}"


def options_of(target: Target, kind: type[S]) -> S:
    """The target's options as this driver knows them. Raises Denied at the first that makes no sense."""
    try:
        return msgspec.convert(dict(target.options), kind, strict=False)
    except msgspec.ValidationError as error:
        raise Denied(f"its options cannot be used: {error}") from None


def _sentence(trouble: Trouble, target: Target) -> str:
    return one_line(target.credentials.hide(str(trouble)))


def one_line(text: str) -> str:
    """Printable, and short enough for a condition of an object."""
    return "".join(each if each.isprintable() else " " for each in text).strip()[:WHY_MAX]
