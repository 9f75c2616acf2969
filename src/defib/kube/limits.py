"""How hard we may knock at the API server, and when to knock again."""

import asyncio
import math

import msgspec

from defib.clock import Clock
from defib.kube.errors import KubeError, ServerFailed, Throttled, Unreachable

ATTEMPTS_MAX = 5
PAUSE_FIRST_SECONDS = 0.1
PAUSE_MAX_SECONDS = 30.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one client. They protect the API server from us on our worst day, and are far above a normal one."""

    in_flight: int = 64
    per_second: float = 500.0
    burst: int = 1000


class Limiter:
    """Lets at most `in_flight` requests run at once and, over time, `per_second` start."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._interval = 1.0 / limits.per_second
        self._slack = limits.burst * self._interval
        self._clock = clock
        self._due = clock.monotonic() - self._slack  # when the next request would start if all were evenly spaced

    async def pace(self, within: float = math.inf) -> None:
        """Wait for this request's turn in the rate alone: a watch holds no slot, it lasts for minutes.

        Raises TimeoutError at once when the turn would come too late, and leaves it to others: if those that are given
        up took theirs along, whoever asks again and again would push everybody ever further away.
        """
        now = self._clock.monotonic()
        due = max(self._due, now - self._slack) + self._interval
        if due - now > within:
            raise TimeoutError
        self._due = due
        if due > now:
            await asyncio.sleep(due - now)

    async def begin(self, within: float) -> None:
        """Raises TimeoutError when there is no turn so soon. Whoever has begun must end."""
        ends = self._clock.monotonic() + within
        if self._slots.locked():
            async with asyncio.timeout(within):
                await self._slots.acquire()
        else:
            await self._slots.acquire()  # at once: no timer is needed
        try:
            await self.pace(ends - self._clock.monotonic())
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        self._slots.release()


def backoff(attempt: int, clock: Clock) -> float:
    """Doubles with each attempt up to a bound; the upper half is chance, so that replicas spread out."""
    pause = min(PAUSE_FIRST_SECONDS * 2.0 ** min(attempt, 20), PAUSE_MAX_SECONDS)
    return pause / 2 + clock.jitter(pause / 2)


def pause_before_retry(error: KubeError, attempt: int, clock: Clock) -> float | None:
    """How long to wait before the same request may be sent again; None means that it would not help."""
    if attempt + 1 >= ATTEMPTS_MAX:
        return None
    match error:
        case Throttled(retry_after=asked) | ServerFailed(retry_after=asked):
            return max(asked or 0.0, backoff(attempt, clock))
        case Unreachable():
            return backoff(attempt, clock)
        case _:
            return None
