"""An election outside Kubernetes: by a lock in ZooKeeper or Redis, through Tooz.

Why two never act at once: a mandate ends a renew deadline after a renewal began in which we first told that we hold the
lock and then found it still ours; so whatever another one believes, it told before we got the lock. Whoever gets the lock
therefore acts only after all others told that they have stopped, or were silent for a whole lease, which is longer than
the renew deadline; and a store that restarts empty has forgotten us too, after which a whole lease is waited. Of the store
this asks that only one has the lock at a time, and that it keeps places longer than the time between two looks.
A Redis with two masters at once does not even do that.
"""

import asyncio
import math
from collections.abc import Callable
from typing import NoReturn

from defib.clock import Clock
from defib.coordinate.election import JITTER, Candidate
from defib.coordinate.rivals import Look, Told, may_act, saw, unknown
from defib.coordinate.store import Store, StoreFailed
from defib.coordinate.trouble import Trouble
from defib.model.mandate import Mandate
from defib.power.calls import Denied
from defib.power.threads import Threads

STORE = "the store of the election"
NOT_RENEWED = "the lock outside Kubernetes cannot be read or renewed"
NOT_RELEASED = "the lock outside Kubernetes cannot be released"
HANGS_MAX_SECONDS = 600.0  # by then a fresh process is worth a try: it may be our own end that hangs
ANOTHER_TRY_SECONDS = 0.05


class Outside:
    """`changed` is called when we begin or cease to lead, and when another one leads."""

    def __init__(self, store: Store, me: Candidate, clock: Clock, changed: Callable[[], None]) -> None:
        self._store = store
        self._me = me
        self._clock = clock
        self._changed = changed
        self._threads = Threads(limit=1)
        self._rivals = unknown(me.terms.lease_seconds, clock.monotonic())
        self._others: tuple[Told, ...] = ()
        self._owns = False
        self._mandate: Mandate | None = None
        self._terms = 0
        self._rests_until = -math.inf
        self._seen_at = -math.inf
        self._returned = clock.monotonic()  # when a call last did
        self._known: tuple[str, Mandate | None] = ("", None)  # as it was last told
        self._trouble = Trouble()

    @property
    def mandate(self) -> Mandate | None:
        """While we lead. It ends by itself before anybody else can lead, whatever becomes of us and of the store."""
        return self._mandate if self._mandate is not None and self._mandate.holds(self._clock.monotonic()) else None

    @property
    def leader(self) -> str:
        """As it was last seen, if that was not too long ago; else empty."""
        if self.mandate is not None:
            return self._me.name
        if self._owns:
            return ""  # soon we; until then somebody may still act whom nobody sees
        newest = max(self._rivals.holding.values(), key=lambda rival: rival.since, default=None)
        return newest.name if newest is not None and self._is_recent(newest.since) else ""

    @property
    def members(self) -> tuple[str, ...]:
        """The names of all replicas in the group, as they were last seen; none when that was too long ago."""
        if not self._is_recent(self._seen_at):
            return ()
        return tuple(sorted([self._me.name, *(one.name for one in self._others if not one.is_leaving)]))

    def not_alive(self) -> tuple[str, ...]:
        """Nobody can lead without the store, and a restart brings none back; but a call that never returns is a reason."""
        silent = self._clock.monotonic() - self._returned
        if silent <= HANGS_MAX_SECONDS:
            return ()
        return (f"a call to the store of the election has not returned for {silent:.0f} s",)

    async def run(self) -> NoReturn:
        """Until cancelled. Being cancelled releases nothing: whoever still works would be overtaken."""
        while True:
            began = self._clock.monotonic()
            await self._renew(began)
            due = began + self._me.terms.retry_seconds * (1.0 if self._mandate is not None else self._spread())
            await self._wait(due)
            self._end_what_ran_out()
            self._notice()

    async def release(self) -> None:
        """Let another one lead at once. To be called when nothing that we began is going on any more."""
        self._end_term()
        self._notice()
        try:
            async with asyncio.timeout(self._me.terms.renew_seconds / 2):
                await self._leave()
        except StoreFailed as error:
            self._trouble.tell(NOT_RELEASED, error)
        except TimeoutError:
            self._trouble.tell(NOT_RELEASED, StoreFailed("it does not answer"))

    def rest(self, seconds: float) -> None:
        """Let another one lead, and do not try to for so long. To be called when nothing of ours is under way."""
        self._rests_until = self._clock.monotonic() + seconds
        self._end_term()
        self._notice()

    def _is_recent(self, seen_at: float) -> bool:
        return self._clock.monotonic() < seen_at + self._me.terms.lease_seconds

    def _spread(self) -> float:
        """Not all at once."""
        return 1.0 + self._clock.jitter(JITTER - 1.0)

    async def _wait(self, until: float) -> None:
        """Not beyond the end of our mandate, so that it is heard of at once."""
        if self._mandate is not None:
            until = min(until, self._mandate.ends)
        await asyncio.sleep(max(until - self._clock.monotonic(), 0.0))

    async def _renew(self, began: float) -> None:
        acts, wants = self.mandate is not None, began >= self._rests_until
        try:
            async with asyncio.timeout(self._patience):
                look = await self._threads.run(STORE, lambda: self._store.renew(acts=acts, wants=wants))
        except StoreFailed as error:
            self._returned = self._clock.monotonic()
            self._trouble.tell(NOT_RENEWED, error)
        except TimeoutError:
            self._trouble.tell(NOT_RENEWED, StoreFailed("it does not answer"))
        except Denied:  # the call before it has not come back yet; that was told
            return
        else:
            self._returned = self._clock.monotonic()
            self._trouble.over(NOT_RENEWED)
            self._saw(look, began)

    @property
    def _patience(self) -> float:
        """What hangs is waited for no longer than it could be of use."""
        usual = self._me.terms.renew_seconds
        return usual if self._mandate is None else max(self._mandate.ends - self._clock.monotonic(), 0.001)

    def _saw(self, look: Look, began: float) -> None:
        self._seen_at = now = self._clock.monotonic()
        self._rivals = saw(self._rivals, look, now)
        self._others, self._owns = tuple(look.others.values()), look.owns
        self._end_what_ran_out()
        if not may_act(self._rivals, look) or began < self._rests_until:
            self._end_term()
        elif self._mandate is not None:
            self._mandate.ends = began + self._me.terms.renew_seconds
        else:
            self._terms += 1
            token = f"{self._me.name}/{self._store.id[:8]}.{self._terms}"
            self._mandate = Mandate(token, began + self._me.terms.renew_seconds)
        self._notice()

    def _end_what_ran_out(self) -> None:
        if self.mandate is None:
            self._end_term()

    def _end_term(self) -> None:
        if self._mandate is not None:
            self._mandate.take_back()
        self._mandate = None

    def _notice(self) -> None:
        known, self._known = self._known, (self.leader, self._mandate)
        if known != self._known:
            self._changed()

    async def _leave(self) -> None:
        """A renewal may still be under way; it is ended first."""
        while True:
            try:
                await self._threads.run(STORE, self._store.leave)
            except Denied:
                await asyncio.sleep(ANOTHER_TRY_SECONDS)
            else:
                return
