"""Keeps trying to lead, or to go on leading, by one lock; and says until when we may act."""

import asyncio
import math
from collections.abc import Callable
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
    lost,
    next_step,
    released,
    saw,
    stepped_down,
    trying,
    wrote,
)
from defib.coordinate.lock import Lock
from defib.kube.errors import Conflict, Forbidden, KubeError, NotFound
from defib.model.mandate import Mandate

log = structlog.get_logger("coordinate")

TOLERANCE_SECONDS = 20.0  # beyond the lease
SPREAD = 0.2  # of a retry period: by so much candidates look later, so that they do not all knock at once


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
        self._stirred = asyncio.Event()
        self._trouble = ""  # as it was last told

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

    def want(self, *, is_willing: bool) -> None:
        """Whether to try at all. Who leads already goes on until it is released."""
        if is_willing != self._me.is_willing:
            self._me = msgspec.structs.replace(self._me, is_willing=is_willing)
            self._stirred.set()

    async def run(self) -> NoReturn:
        """Until cancelled. Being cancelled releases nothing: whoever still works would be overtaken."""
        while True:
            step = next_step(self._me, self._sight, self._clock.monotonic(), self._clock.now())
            match step:
                case Wait(until):
                    await self._wait(until)
                case StepDown(why):
                    log.warning("no longer leading", why=why)
                    self._know(stepped_down(self._sight))
                case Look():
                    await self._look()
                case Take():
                    await self._take(step)

    async def release(self) -> None:
        """Let another one lead at once. To be called when nothing that we began is going on any more."""
        sight = self._sight
        if self.mandate is None or sight.record is None:
            return
        self._know(stepped_down(sight))
        try:
            await self._lock.write(released(sight.record, self._clock.now()), sight.version, self._patience)
        except (KubeError, TimeoutError) as error:
            log.warning("the lock could not be released", why=str(error), advice="it ends by itself")
            return
        log.info("the lock is released")

    @property
    def _patience(self) -> float:
        """A request that hangs must not cost us the lock, nor let us believe that we have it."""
        usual = self._me.terms.renew_seconds / 2
        until = self._sight.ours_until
        return usual if until is None else max(min(usual, until - self._clock.monotonic()), 0.001)

    async def _wait(self, until: float) -> None:
        spread = self._clock.jitter(SPREAD * self._me.terms.retry_seconds) if self._sight.ours_until is None else 0.0
        self._stirred.clear()
        try:
            async with asyncio.timeout(max(until - self._clock.monotonic(), 0.0) + spread):
                await self._stirred.wait()
        except TimeoutError:
            return

    async def _look(self) -> None:
        patience = self._patience
        try:
            async with asyncio.timeout(patience):
                found = await self._lock.read(patience)
        except (KubeError, TimeoutError) as error:
            self._fail("the lock cannot be read", error)
            return
        self._seen_at, self._trouble = self._clock.monotonic(), ""
        self._know(saw(self._sight, found.record, found.version, self._seen_at))

    async def _take(self, step: Take) -> None:
        began, patience = self._clock.monotonic(), self._patience
        self._sight = trying(self._sight, step)
        try:
            async with asyncio.timeout(patience):
                version = await self._lock.write(step.record, step.version, patience)
        except Conflict:
            self._know(lost(self._sight, step, self._clock.monotonic()))
            return
        except (KubeError, TimeoutError) as error:
            self._fail("the lock cannot be written", error)
            return
        self._seen_at, self._trouble = self._clock.monotonic(), ""
        self._know(wrote(self._me, self._sight, Written(step.record, version, began, self._seen_at)))

    def _fail(self, what: str, error: Exception) -> None:
        why = str(error) or type(error).__name__
        if why != self._trouble:  # the same every two seconds would hide everything else
            log.warning(what, why=why, advice=_advice(error))
        self._trouble = why
        self._know(failed(self._sight, self._clock.monotonic()))

    def _know(self, sight: Sight) -> None:
        before, self._sight = self._sight, sight
        led, leads = before.ours_until is not None, sight.ours_until is not None
        self._mandate = renewed(self._mandate, self._me, sight)
        if leads and not led:
            log.info("leading", name=self._me.name)
        if led != leads or (before.record or FREE).holder != (sight.record or FREE).holder:
            self._changed()


def _advice(error: Exception) -> str:
    if isinstance(error, NotFound):
        return "the namespace must be there: kubectl create namespace, or another one by --namespace"
    if isinstance(error, Forbidden):
        return "grant get, list, create and patch on it to our account, as deploy/operator.yaml does; until then nothing is done"
    return "nothing is done without the lock; it is tried again"


def renewed(mandate: Mandate | None, me: Candidate, sight: Sight) -> Mandate | None:
    """The mandate for what is known now: the same one, moved on, for as long as it is one term; none when it is over."""
    if sight.ours_until is None or sight.record is None:
        if mandate is not None:
            mandate.take_back()
        return None
    if mandate is None:
        return Mandate(f"{me.name}/{sight.record.transitions}", sight.ours_until)
    mandate.ends = sight.ours_until
    return mandate
