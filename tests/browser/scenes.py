"""Clusters to look at: nine nodes, well or in trouble, and five thousand."""

from collections.abc import Callable, Iterator
from datetime import timedelta

from defib.config import Settings
from tests.browser.stage import Put, Stage
from tests.browser.world import (
    a_failover_check,
    a_hanging_drain,
    a_node,
    a_power_cycle,
    nodes,
    past,
)

LOOKING = Settings(watch_only="on", replica_name="defib-0")
ACTING = Settings(watch_only="on", replica_name="defib-0", dashboard="act")

MANY = 5000
LONG, SHORT = timedelta(minutes=9), timedelta(minutes=2)  # more and less than the patience of the check
ILL, SUSPECT, DRAINED = "worker-a-0002", "worker-b-0003", "worker-c-0001"


def calm(stage: Stage) -> Iterator[Put]:
    """Nine nodes in three zones, and nothing the matter."""
    yield from nodes(9, "abc", stage.clock.now())
    yield from a_failover_check()


def trouble(stage: Stage) -> Iterator[Put]:
    """One that waits for a person and whose machine is being power-cycled, one that is suspect, one that is drained."""
    now = stage.clock.now()
    yield from nodes(9, "abc", now)
    yield a_node(ILL, "a", now, silent=LONG)
    yield a_node(SUSPECT, "b", now, silent=SHORT)
    yield a_node(DRAINED, "c", now, drained_for="a new kernel")
    yield from a_failover_check(
        mode="Approve", guards={"maxInFlight": 2, "rateLimit": {"remediations": 5, "per": "1h"}}
    )
    yield a_power_cycle(ILL, now - timedelta(seconds=40), steps=3)
    yield from past([f"worker-{zone}-{number:04}" for number in range(4, 18) for zone in "abc"], now)
    yield from a_hanging_drain(DRAINED, now)


def crowded(count: int) -> Callable[[Stage], Iterator[Put]]:
    return lambda stage: _crowd(stage, count)


def _crowd(stage: Stage, count: int) -> Iterator[Put]:
    """So many nodes, a dozen of them ill, and a long history."""
    now = stage.clock.now()
    yield from nodes(count, "abc", now)
    for number in range(12):
        zone = "abc"[number % 3]
        yield a_node(f"worker-{zone}-{number * 137 % 1600 + 1:04}", zone, now, silent=(LONG, SHORT)[number % 2])
    yield from a_failover_check(guards={"maxInFlight": 4})
    yield from past([f"worker-{'abc'[number % 3]}-{number * 11 + 3:04}" for number in range(150)], now)


thousands = crowded(MANY)
