"""What an operator used up between two moments, as its kernel and its own metrics tell."""

from collections.abc import Mapping

import msgspec

from defib.clock import SystemClock
from tests.bench.replica import Replica

WATCH = "WATCH"
READING = frozenset({"GET", WATCH})


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator has used up since its start."""

    at: float
    cpu_seconds: float
    requests: Mapping[str, int]
    """That it made, by verb. A watch counts when it ends."""
    heartbeats: int
    passes: int
    asked: int
    """How often it asked for the eviction of a pod."""


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """What it used up between two moments, and its memory at the second."""

    seconds: float
    cpu_seconds: float
    requests: Mapping[str, int]
    heartbeats: int
    passes: int
    asked: int
    resident_mib: float

    @property
    def cpu_share(self) -> float:
        return self.cpu_seconds / self.seconds

    @property
    def made(self) -> int:
        """Requests that are no watches."""
        return sum(count for verb, count in self.requests.items() if verb != WATCH)

    @property
    def writes(self) -> int:
        return sum(count for verb, count in self.requests.items() if verb not in READING)


def between(before: Meter, after: Meter, resident_mib: float) -> Stretch:
    verbs = sorted(before.requests.keys() | after.requests.keys())
    requests = {verb: after.requests.get(verb, 0) - before.requests.get(verb, 0) for verb in verbs}
    return Stretch(
        seconds=after.at - before.at,
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        requests={verb: count for verb, count in requests.items() if count},
        heartbeats=after.heartbeats - before.heartbeats,
        passes=after.passes - before.passes,
        asked=after.asked - before.asked,
        resident_mib=resident_mib,
    )


async def meter_of(replica: Replica) -> Meter:
    counted = await replica.counted()
    steps = await replica.totals("defib_drain_steps_total", "rung")
    return Meter(
        at=SystemClock().monotonic(),
        cpu_seconds=replica.cpu_seconds,
        requests=await replica.totals("defib_api_requests_total", "verb"),
        heartbeats=counted.heartbeats,
        passes=counted.passes,
        asked=steps.get("Evict", 0),
    )
