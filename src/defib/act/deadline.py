"""How long something that was begun may last: a time of its own, and never longer than the mandate by which it is done."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from defib.clock import Clock
from defib.model.mandate import Mandate

LOOK_SECONDS = 0.5  # a mandate can be moved on, and can be taken back: it is looked at so often


@asynccontextmanager
async def within(seconds: float, mandate: Mandate, clock: Clock) -> AsyncIterator[asyncio.Timeout]:
    """Raises TimeoutError when either is over; whether it was this that ran out, the timeout says."""
    loop = asyncio.get_running_loop()
    ends = clock.monotonic() + seconds
    async with asyncio.timeout(None) as limit:
        waiting: list[asyncio.TimerHandle] = []

        def look() -> None:
            left = min(ends, mandate.ends) - clock.monotonic()
            if left <= 0:
                limit.reschedule(loop.time())
            else:
                waiting[:] = [loop.call_later(min(left, LOOK_SECONDS), look)]

        look()
        try:
            yield limit
        finally:
            for handle in waiting:
                handle.cancel()
