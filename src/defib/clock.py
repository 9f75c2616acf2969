"""The only reader of time and randomness. Everything else is handed a Clock, so a seed replays a run."""

import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Two times and one source of chance.

    `now` is for people and records and may jump; `monotonic` is for waiting and never goes back.
    """

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def jitter(self, span: float) -> float:
        """A number in [0, span), so that many replicas do not knock at once."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """It goes on while the machine is suspended: whoever sleeps through a lease must know when it wakes up."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def jitter(self, span: float) -> float:
        return random.random() * span
