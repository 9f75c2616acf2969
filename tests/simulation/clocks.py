"""Clocks of replicas that do not agree: each runs at its own rate, and shows a time of its own.

Who leads may depend on neither, as long as none runs one and a half times as fast as another (lease : renew deadline).
"""

from datetime import datetime, timedelta
from random import Random

import msgspec

from defib.clock import Clock

SLOWEST, FASTEST = 0.9, 1.25
MOST_AHEAD_SECONDS = 240.0  # locks on nodes are honoured up to five minutes
UPTIME_SECONDS = 1e6  # since its machine was started: nobody can compare it with another's


class Gait(msgspec.Struct, frozen=True):
    """How a clock goes: its rate, and by how much the time that it shows is ahead."""

    rate: float = 1.0
    ahead_seconds: float = 0.0

    @property
    def is_true(self) -> bool:
        return self == Gait()


def draw_gaits(chance: Random, count: int) -> tuple[Gait, ...]:
    return tuple(_draw_gait(chance) for _ in range(count))


def _draw_gait(chance: Random) -> Gait:
    """Mostly by seconds, as it is where nobody looks after it; by minutes, as it is after a restore."""
    most = chance.choice((2.0, 20.0, MOST_AHEAD_SECONDS))
    return Gait(round(chance.uniform(SLOWEST, FASTEST), 3), round(chance.uniform(-most, most), 1))


class OwnClock:
    """What waits by such a clock waits in the loop at the same rate: see FreezingLoop.rates."""

    def __init__(self, true: Clock, gait: Gait) -> None:
        self._true = true
        self._gait = gait
        self._ahead = timedelta(seconds=gait.ahead_seconds)

    def now(self) -> datetime:
        return self._true.now() + self._ahead

    def monotonic(self) -> float:
        return UPTIME_SECONDS + self._true.monotonic() * self._gait.rate

    def jitter(self, span: float) -> float:
        return self._true.jitter(span)
