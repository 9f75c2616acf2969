"""When the next pass runs: because something changed, because a moment has come, or because it has been long."""

import asyncio
from enum import StrEnum

from defib.clock import Clock


class Cause(StrEnum):
    CHANGE = "change"
    TIMER = "timer"
    RESYNC = "resync"


class Trigger:
    """Many changes make one pass: after the first, `settle_seconds` are given to the others."""

    def __init__(self, clock: Clock, *, resync_seconds: float, settle_seconds: float = 0.02) -> None:
        self._clock = clock
        self._resync_seconds = resync_seconds
        self._settle_seconds = settle_seconds
        self._changed = asyncio.Event()
        self._due: float | None = None

    def changed(self) -> None:
        self._changed.set()

    def wake_at(self, moment: float | None) -> None:
        """Ask for a pass at a moment of the monotonic clock; None when nothing is due."""
        self._due = moment

    async def wait(self) -> Cause:
        now = self._clock.monotonic()
        resync = now + self._resync_seconds
        due = resync if self._due is None else min(self._due, resync)
        try:
            async with asyncio.timeout(max(due - now, 0.0)):
                await self._changed.wait()
        except TimeoutError:
            return Cause.TIMER if due < resync else Cause.RESYNC
        await asyncio.sleep(self._settle_seconds)
        self._changed.clear()
        return Cause.CHANGE
