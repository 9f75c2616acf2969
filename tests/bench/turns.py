"""How late the operator follows when many nodes fail or recover at once, what it costs, and what we promise of both."""

from collections.abc import Sequence
from math import ceil
from typing import Literal

import msgspec

from tests.bench.results import PACE_KEPT_MIN, Verdict, at_most
from tests.bench.spent import Spent

PEAK_MIB_MAX = 120.0
WATCHED_SHARE_MAX = 0.03

Way = Literal["fail", "recover"]
SAYING: dict[Way, str] = {"fail": "remediations created", "recover": "remediations deleted"}


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Of so many nodes so many turn at once: what we promise then."""

    nodes: int
    turning: int
    p99_seconds: float
    cpu_seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.turning} of {self.nodes:,}"


BARS = (
    Bar(nodes=1_000, turning=100, p99_seconds=0.5),
    Bar(nodes=5_000, turning=100, p99_seconds=1.0, cpu_seconds=1.0),
    Bar(nodes=5_000, turning=500, p99_seconds=3.0),
)


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What the Go operator needed in the same place. Measured before, on a machine like this; it is not run again."""

    nodes: int
    turning: int
    way: Way
    max_seconds: float
    cpu_seconds: float | None = None
    peak_mib: float | None = None


REFERENCE_NAME = "Go operator 0.12 (reference)"
REFERENCES = (
    Reference(nodes=1_000, turning=100, way="fail", max_seconds=20.5),
    Reference(nodes=1_000, turning=100, way="recover", max_seconds=56.0),
    Reference(nodes=5_000, turning=100, way="fail", max_seconds=62.8, cpu_seconds=18.8, peak_mib=306.0),
    Reference(nodes=5_000, turning=100, way="recover", max_seconds=353.0, cpu_seconds=111.0),
)


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds are from the moment when each was due to the moment when an onlooker saw it.

    Of several replicas, CPU and memory are those of the one that needed most.
    """

    bar: Bar
    way: Way
    followed: int
    strays: int
    """Remediations that came or went and should not have."""
    min_seconds: float
    p50_seconds: float
    p99_seconds: float
    max_seconds: float
    cpu_seconds: float
    peak_mib: float
    each: list[Spent]


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The operator with a check over a fleet that is well: what it reads, and what it makes of it.

    Of several replicas, the one that needed most or saw least; the writes are those of all, without their locks.
    """

    nodes: int
    seconds: float
    cpu_share: float
    heartbeats_per_second: float
    heartbeats_per_second_wanted: float
    node_events_per_second: float
    passes_per_second: float
    writes: int
    resident_mib: float
    each: list[Spent]


class Remediating(msgspec.Struct, frozen=True, kw_only=True):
    judged: bool
    turns: list[Turn]
    watched: Watched
    verdicts: list[Verdict]


def percentile(seconds: Sequence[float], share: float) -> float:
    """The least of them that so large a share does not exceed."""
    return sorted(seconds)[max(ceil(share * len(seconds)), 1) - 1]


def verdicts(turns: Sequence[Turn], watched: Watched) -> list[Verdict]:
    return [verdict for turn in turns for verdict in _of_turn(turn)] + _of_watched(watched)


def _of_turn(turn: Turn) -> list[Verdict]:
    bar = turn.bar
    what = f"{bar} nodes {turn.way}"
    found = [
        Verdict(
            what=f"{what}: {SAYING[turn.way]}",
            measured=f"{turn.followed} and {turn.strays} others",
            bound=f"{bar.turning} and no others",
            ratio=turn.followed / bar.turning,
            ok=turn.followed == bar.turning and not turn.strays,
        ),
        at_most(f"{what}: p99", turn.p99_seconds, bar.p99_seconds, "s"),
        at_most(f"{what}: peak memory", turn.peak_mib, PEAK_MIB_MAX, "MiB"),
    ]
    if turn.way == "fail":  # a recovery has no moment before which it must be left alone
        first = turn.min_seconds
        early = f"{first:.2f} s after the deadline"
        found.append(Verdict(what=f"{what}: the first", measured=early, bound="not before", ratio=first, ok=first >= 0))
    if bar.cpu_seconds is not None:
        found.append(at_most(f"{what}: CPU", turn.cpu_seconds, bar.cpu_seconds, "s"))
    return found


def _of_watched(watched: Watched) -> list[Verdict]:
    pace = watched.heartbeats_per_second / watched.heartbeats_per_second_wanted
    return [
        at_most("a check, nothing happens: CPU, of one core", 100 * watched.cpu_share, 100 * WATCHED_SHARE_MAX, "%"),
        Verdict(
            what="a check, nothing happens: writes",
            measured=str(watched.writes),
            bound="0",
            ratio=float(watched.writes),
            ok=not watched.writes,
        ),
        Verdict(
            what="a check, nothing happens: heartbeats seen",
            measured=f"{watched.heartbeats_per_second:.0f}/s",
            bound=f"{watched.heartbeats_per_second_wanted:.0f}/s written",
            ratio=pace,
            ok=pace >= PACE_KEPT_MIN,
        ),
    ]
