"""How soon the pods of a failed node are deleted, what that costs, and what we promise of both."""

from collections.abc import Sequence
from math import ceil
from statistics import median

import msgspec

from tests.bench.results import Verdict, at_most
from tests.bench.turns import percentile

NODES = 1_000
PODS_EACH = 100
FAILURES = 50
FAILURES_ALONE = 5
BYSTANDERS = 20_000
P99_SECONDS_MAX = 1.0
GROWTH_MIB_MAX = 5.0  # what allocators do from one start to the next; a cache of so many pods would be ten times that


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """`bystanders` are pods of the same policy on nodes that stay well."""

    nodes: int = NODES
    failures: int = FAILURES
    bystanders: int = BYSTANDERS

    @property
    def is_whole(self) -> bool:
        return self.nodes >= NODES and self.failures >= FAILURES and self.bystanders >= BYSTANDERS

    @property
    def others_each(self) -> int:
        """Bystanders on every node that stays well: at least so many that it makes all of them."""
        return ceil(self.bystanders / max(self.nodes - self.failures, 1))

    @property
    def others(self) -> int:
        return self.others_each * (self.nodes - self.failures)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One node, and the operator that was started for it. Seconds are to the moment when an onlooker saw each pod go; the longest wait for one that stayed."""

    node: str
    since_written: list[float]
    """From the API server's answer to whoever wrote that the node is not ready."""
    seen_after_seconds: float
    """From there to the operator's first pass that knew of it."""
    strays: int
    """Pods that came or went and should not have."""
    stayed: int
    cpu_seconds: float
    resident_mib: float
    peak_mib: float


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    p50_seconds: float
    p99_seconds: float
    max_seconds: float


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Of operators that have each handled one failed node, the one in the middle, and the most that any had."""

    pods: int
    """In the cluster, at the first failure."""
    resident_mib: float
    most_mib: float
    peak_mib: float
    """At any time since the start."""


class Moving(msgspec.Struct, frozen=True, kw_only=True):
    scale: Scale
    judged: bool
    load_before: float
    load_after: float
    pods: Spread
    """Over all pods, from the answer to whoever wrote that their node is not ready."""
    pods_since_seen: Spread
    """Over all pods, from the first pass that knew of it."""
    nodes: Spread
    """Over all nodes, to the last pod of each."""
    cpu_seconds_each: float
    """Of the operator for one failed node: to see it, to move its pods, to tell of it."""
    memory_without: Memory
    memory_with: Memory
    verdicts: list[Verdict]


def spread_of(seconds: Sequence[float]) -> Spread:
    return Spread(p50_seconds=percentile(seconds, 0.5), p99_seconds=percentile(seconds, 0.99), max_seconds=max(seconds))


def since_written(failures: Sequence[Failure]) -> Spread:
    return spread_of([seconds for one in failures for seconds in one.since_written])


def since_seen(failures: Sequence[Failure]) -> Spread:
    return spread_of([seconds - one.seen_after_seconds for one in failures for seconds in one.since_written])


def to_the_last(failures: Sequence[Failure]) -> Spread:
    return spread_of([max(one.since_written) for one in failures])


def memory_of(failures: Sequence[Failure], pods: int) -> Memory:
    return Memory(
        pods=pods,
        resident_mib=median(one.resident_mib for one in failures),
        most_mib=max(one.resident_mib for one in failures),
        peak_mib=max(one.peak_mib for one in failures),
    )


def verdicts(failures: Sequence[Failure], without: Memory, beside: Memory) -> list[Verdict]:
    pods = sum(len(one.since_written) for one in failures)
    moved = pods - sum(one.stayed for one in failures)
    strays = sum(one.strays for one in failures)
    return [
        Verdict(
            what="pods of failed nodes deleted",
            measured=f"{moved} and {strays} others",
            bound=f"{pods} and no others",
            ratio=moved / pods,
            ok=moved == pods and not strays,
        ),
        at_most("node not ready to pod deleted: p99", since_written(failures).p99_seconds, P99_SECONDS_MAX, "s"),
        at_most(
            f"memory for {beside.pods - without.pods:,} pods elsewhere",
            beside.resident_mib - without.resident_mib,
            GROWTH_MIB_MAX,
            "MiB",
        ),
    ]
