"""When the next pass runs: because something changed, because a moment has come, or because it has been long."""

import asyncio
import math
from enum import StrEnum

from defib.clock import Clock

SETTLE_MIN_SECONDS = 0.02
SETTLE_MAX_SECONDS = 0.25


class Cause(StrEnum):
    CHANGE = "change"
    TIMER = "timer"
    RESYNC = "resync"


class Trigger:
    """Many changes make one pass: after the first, some time is given to the others, more when passes are long.

    Resyncs that are infinitely far apart are never: then only changes and moments start a pass.
    """

    def __init__(self, clock: Clock, *, resync_seconds: float) -> None:
        self._clock = clock
        self._resync_seconds = resync_seconds
        self._settle_seconds = SETTLE_MIN_SECONDS
        self._changed = asyncio.Event()
        self._due: float | None = None
        self._waiting: asyncio.Timeout | None = None

    def changed(self) -> None:
        self._changed.set()

    def settle(self, seconds: float) -> None:
        """Give other changes so long from now on, within reason."""
        self._settle_seconds = min(max(seconds, SETTLE_MIN_SECONDS), SETTLE_MAX_SECONDS)

    def wake_at(self, moment: float | None) -> None:
        """Ask for a pass at a moment of the monotonic clock, at the latest; None when nothing is due.

        Of all who ask, the earliest counts. Each pass settles what was asked before it: it looks at everything anew
        and asks again for what is then still to come.
        """
        if moment is None:
            return
        # Not at once even if it is long past: whoever asks for the past again and again must not stop everything else.
        moment = max(moment, self._clock.monotonic() + SETTLE_MIN_SECONDS)
        if self._due is not None and self._due <= moment:
            return
        self._due = moment
        if self._waiting is not None and not self._waiting.expired():
            self._alarm(self._waiting, moment)

    async def wait(self) -> Cause:
        resync = self._clock.monotonic() + self._resync_seconds
        try:
            await self._change_until(resync)
            await asyncio.sleep(self._settle_seconds)
            self._changed.clear()
            return Cause.CHANGE
        except TimeoutError:
            return Cause.TIMER if self._due is not None and self._due < resync else Cause.RESYNC
        finally:
            self._due = None

    async def _change_until(self, resync: float) -> None:
        async with asyncio.timeout(None) as waiting:
            self._waiting = waiting
            try:
                self._alarm(waiting, resync if self._due is None else min(self._due, resync))
                await self._changed.wait()
            finally:
                self._waiting = None

    def _alarm(self, waiting: asyncio.Timeout, moment: float) -> None:
        """Set it for a moment of our clock, unless it is set for an earlier one, or the moment never comes."""
        if math.isinf(moment):
            return
        at = asyncio.get_running_loop().time() + max(moment - self._clock.monotonic(), 0.0)
        earlier = waiting.when()
        waiting.reschedule(at if earlier is None else min(at, earlier))
