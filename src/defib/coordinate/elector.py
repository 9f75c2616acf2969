"""Keeps trying to lead, or to go on leading, by one lock; and says until when we may act."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NoReturn

import msgspec
import structlog

from defib.clock import Clock
from defib.coordinate.election import (
    FREE,
    Candidate,
    Look,
    Sight,
    StepDown,
    Take,
    Wait,
    Written,
    failed,
    handed_back,
    lost,
    next_step,
    saw,
    stepped_down,
    trying,
    wrote,
)
from defib.coordinate.lock import Lock
from defib.coordinate.trouble import Trouble
from defib.kube.errors import Conflict, KubeError, NotFound
from defib.model.mandate import Mandate

log = structlog.get_logger("coordinate")

TOLERANCE_SECONDS = 20.0  # beyond the lease
NOT_READ, NOT_WRITTEN = "the lock cannot be read", "the lock cannot be written"
NOT_RELEASED = "the lock could not be released"


class Elector:
    """`changed` is called when we begin or cease to lead, and when another one leads."""

    def __init__(self, lock: Lock, me: Candidate, clock: Clock, changed: Callable[[], None]) -> None:
        self._lock = lock
        self._me = me
        self._clock = clock
        self._changed = changed
        self._sight = Sight()
        self._mandate: Mandate | None = None
        self._seen_at = -math.inf
        self._trouble = Trouble()
        self._rests_until = -math.inf
        self._stirred = asyncio.Event()

    @property
    def mandate(self) -> Mandate | None:
        """While we lead. It ends by itself before anybody else can lead, whatever becomes of us."""
        return self._mandate if self._mandate is not None and self._mandate.holds(self._clock.monotonic()) else None

    @property
    def leader(self) -> str:
        """As it was last seen, if that was not too long ago; else empty."""
        record = self._sight.record or FREE
        return record.holder if self.seen_seconds_ago < record.lease_seconds else ""

    @property
    def seen_seconds_ago(self) -> float:
        """How long ago the lock was last read or written with success."""
        return self._clock.monotonic() - self._seen_at

    def not_alive(self) -> tuple[str, ...]:
        """A leader that has not touched its lock for so long hangs, whatever else it does."""
        limit = self._me.terms.lease_seconds + TOLERANCE_SECONDS
        if self._sight.ours_until is None or self.seen_seconds_ago <= limit:
            return ()
        return (f"we lead, and the lock was last renewed {self.seen_seconds_ago:.0f} s ago, allowed are {limit:.0f} s",)

    def rest(self, seconds: float) -> None:
        """Let another one lead, and do not try to for so long. To be called when nothing of ours is under way."""
        self._rests_until = self._clock.monotonic() + seconds
        self._stirred.set()

    @property
    def _candidate(self) -> Candidate:
        return msgspec.structs.replace(self._me, is_willing=self._clock.monotonic() >= self._rests_until)

    async def run(self) -> NoReturn:
        """Until cancelled. Being cancelled releases nothing: whoever still works would be overtaken."""
        while True:
            if not self._candidate.is_willing:
                await self.release()
            step = next_step(self._candidate, self._sight, self._clock.monotonic(), self._clock.now())
            match step:
                case Wait(until):
                    await self._wait(until)
                case StepDown(why):
                    log.warning("the lock is lost", why=why)
                    self._know(stepped_down(self._sight))
                case Look():
                    await self._look()
                case Take():
                    await self._take(step)

    async def _wait(self, until: float) -> None:
        self._stirred.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(until - self._clock.monotonic(), 0.0)):
                await self._stirred.wait()

    async def release(self) -> None:
        """Let another one lead at once. To be called when nothing that we began is going on any more."""
        if self.mandate is None:
            return
        seconds = self._patience
        self._know(stepped_down(self._sight))
        try:
            async with asyncio.timeout(seconds):
                await let_go(self._lock, self._sight, self._clock.now(), seconds)
        except (KubeError, TimeoutError) as error:
            self._trouble.tell(NOT_RELEASED, error)

    @property
    def _patience(self) -> float:
        """A request that hangs must not cost us the lock, nor let us believe that we have it."""
        usual = self._me.terms.renew_seconds / 2
        until = self._sight.ours_until
        return usual if until is None else max(min(usual, until - self._clock.monotonic()), 0.001)

    async def _look(self) -> None:
        began, patience = self._clock.monotonic(), self._patience
        try:
            async with asyncio.timeout(patience):
                found = await self._lock.read(patience)
        except (KubeError, TimeoutError) as error:
            self._fail(NOT_READ, error, began)
            return
        self._seen_at = self._clock.monotonic()
        self._trouble.over(NOT_READ)
        self._know(saw(self._sight, found.record, found.version, self._seen_at))

    async def _take(self, step: Take) -> None:
        began, patience = self._clock.monotonic(), self._patience
        self._sight = trying(self._sight, step)
        try:
            async with asyncio.timeout(patience):
                version = await self._lock.write(step.record, step.version, patience)
        except (Conflict, NotFound) as error:
            if isinstance(error, NotFound):
                self._trouble.tell(NOT_WRITTEN, error)
            self._know(lost(self._sight, step, self._clock.monotonic()))
            return
        except (KubeError, TimeoutError) as error:
            self._fail(NOT_WRITTEN, error, began)
            return
        self._seen_at = self._clock.monotonic()
        self._trouble.over(NOT_WRITTEN)
        self._know(wrote(self._me, self._sight, Written(step.record, version, began, self._seen_at)))

    def _fail(self, what: str, error: Exception, began: float) -> None:
        self._trouble.tell(what, error)
        self._know(failed(self._sight, began))

    def _know(self, sight: Sight) -> None:
        before, self._sight = self._sight, sight
        led, leads = before.ours_until is not None, sight.ours_until is not None
        self._mandate = renewed(self._mandate, self._me.name, sight)
        if led != leads or (before.record or FREE).holder != (sight.record or FREE).holder:
            self._changed()


async def let_go(lock: Lock, sight: Sight, now: datetime, seconds: float) -> None:
    """Whoever looks may take it at once. A last renewal may have been cut off, and written all the same."""
    take = handed_back(sight, now)
    if take is None:
        return
    try:
        await lock.write(take.record, take.version, seconds)
    except Conflict:
        found = await lock.read(seconds)
        take = handed_back(msgspec.structs.replace(sight, record=found.record, version=found.version), now)
        if take is not None:
            await lock.write(take.record, take.version, seconds)


def renewed(mandate: Mandate | None, name: str, sight: Sight) -> Mandate | None:
    """The mandate for what is known now: the same one, moved on, for as long as it is one term; none when it is over."""
    if sight.ours_until is None or sight.record is None:
        if mandate is not None:
            mandate.take_back()
        return None
    if mandate is None:
        return Mandate(f"{name}/{sight.record.transitions}", sight.ours_until)
    mandate.ends = sight.ours_until
    return mandate
