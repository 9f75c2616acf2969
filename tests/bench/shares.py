"""How evenly several replicas share the work when all of them act, and what we promise of it."""

from collections.abc import Mapping, Sequence

import msgspec

from defib.coordinate.seats import BUCKETS
from defib.coordinate.shards import bucket_of
from tests.bench.moves import Spread
from tests.bench.results import Verdict, at_most
from tests.bench.spent import Spent
from tests.bench.turns import Remediating

REPLICAS = ("replica-1", "replica-2", "replica-3")
NODES = 5_000
FAILURES = 300
PODS_EACH = 10
MOST_OF_MEAN_MAX = 1.5


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """So many of the nodes fail at once, each with the same number of pods."""

    nodes: int = NODES
    failures: int = FAILURES
    pods_each: int = PODS_EACH

    @property
    def is_whole(self) -> bool:
        return self.nodes >= NODES and self.failures >= FAILURES


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica had to do, and what it cost."""

    replica: str
    buckets: int
    nodes: int
    """Of its buckets."""
    failures: int
    """Of those, the ones that failed."""
    moving: Spent
    """From before the failures until all pods of these nodes are gone, and it is at rest."""
    remediating: Spent
    """Over all bars of `remediating`, there and back: others carry out what is only admitted here."""
    watching: Spent
    """While nothing happens but heartbeats."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of all nodes that failed. Seconds are from the deadline until an onlooker saw each go."""

    pods: int
    gone: int
    strays: int
    seconds: Spread


class Sharing(msgspec.Struct, frozen=True, kw_only=True):
    fleet: Fleet
    judged: bool
    load_before: float
    load_after: float
    moved: Moved
    loads: list[Load]
    remediating: Remediating
    verdicts: list[Verdict]


def looked_after(holders: Mapping[int, str], nodes: Sequence[str]) -> dict[str, int]:
    """How many of these nodes are in the buckets of each replica."""
    found = dict.fromkeys(REPLICAS, 0)
    for node in nodes:
        holder = holders[bucket_of(node, BUCKETS)]
        found[holder] += 1
    return found


def most_of_mean(values: Sequence[float]) -> float:
    """How many times the mean the most of them is. Nothing is shared evenly."""
    mean = sum(values) / len(values)
    return max(values) / mean if mean else 1.0


def added_up(spent: Sequence[Spent]) -> Spent:
    """What one replica spent in several measurements."""
    total = spent[0]
    for one in spent[1:]:
        total = Spent(
            replica=total.replica,
            cpu_seconds=total.cpu_seconds + one.cpu_seconds,
            counted=total.counted.plus(one.counted),
        )
    return total


def of_replica(name: str, each: Sequence[Spent]) -> Spent:
    return next(one for one in each if one.replica == name)


def verdicts(loads: Sequence[Load], moved: Moved) -> list[Verdict]:
    measured: dict[str, list[float]] = {
        "nodes looked after": [one.nodes for one in loads],
        "pods moved": [one.moving.counted.pods_moved for one in loads],
        "CPU while others remediate": [one.remediating.cpu_seconds for one in loads],
        "CPU while pods are moved": [one.moving.cpu_seconds for one in loads],
        "CPU while nothing happens": [one.watching.cpu_seconds for one in loads],
    }
    return [
        Verdict(
            what="pods of failed nodes deleted",
            measured=f"{moved.gone} and {moved.strays} others",
            bound=f"{moved.pods} and no others",
            ratio=moved.gone / moved.pods,
            ok=moved.gone == moved.pods and not moved.strays,
        ),
        Verdict(
            what="pods moved, by whoever looks after their node",
            measured=" ".join(str(one.moving.counted.pods_moved) for one in loads),
            bound=" ".join(str(one.failures * moved.pods // _failures(loads)) for one in loads),
            ratio=sum(one.moving.counted.pods_moved for one in loads) / moved.pods,
            ok=all(one.moving.counted.pods_moved * _failures(loads) == one.failures * moved.pods for one in loads),
        ),
        *(
            at_most(f"{what}: most of the mean", most_of_mean(of), MOST_OF_MEAN_MAX, "x")
            for what, of in measured.items()
        ),
    ]


def _failures(loads: Sequence[Load]) -> int:
    return sum(one.failures for one in loads)
