"""All that we promise of speed and cost, in one table: what was measured now, and where the rest is measured."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from tests.bench.results import Verdict
from tests.bench.tables import table
from tests.bench_failover.power_results import BOUND_SECONDS, FAST_MEDIAN_SECONDS, FAST_P95_SECONDS

COLUMNS = ("part", "what", "measured", "bound", "kept")
NOT_HERE = "not measured here"
KEPT, BROKEN, NOT_JUDGED = "yes", "NO", "-"


class Judged(Protocol):
    """A part of the bench that was measured. A trial has too few nodes to be held to the bounds."""

    @property
    def judged(self) -> bool: ...
    @property
    def verdicts(self) -> list[Verdict]: ...


class Elsewhere(msgspec.Struct, frozen=True):
    """A bar that another program measures."""

    part: str
    what: str
    bound: str
    command: str


ELSEWHERE = (
    Elsewhere("failover", "from the verdict to a database elsewhere", f"< {BOUND_SECONDS:g} s", "make bench-failover"),
    Elsewhere(
        "failover", "fast path, from the fault to the same, p50", f"< {FAST_MEDIAN_SECONDS:g} s", "make bench-failover"
    ),
    Elsewhere(
        "failover", "fast path, from the fault to the same, p95", f"< {FAST_P95_SECONDS:g} s", "make bench-failover"
    ),
    Elsewhere("failover", "disks corrupted", "0", "make bench-failover"),
    Elsewhere("simulation", "days that break a promise", "0", "make soak"),
    Elsewhere("false alarms", "healthy ones of 1,000 nodes that are fenced within a day", "0", "make soak"),
    Elsewhere("limits", "100 of 1,000 nodes fail: peak memory", "<= 128 MiB", "make test"),
)


def bars(names: Sequence[str], measured: Mapping[str, Judged]) -> str:
    """Of all parts, in this order."""
    rows = [row for name in names for row in _rows(name, measured.get(name))]
    rows += [(one.part, one.what, _run(one.command), one.bound, NOT_JUDGED) for one in ELSEWHERE]
    return table([COLUMNS, *rows], left=2)


def _rows(name: str, part: Judged | None) -> list[tuple[str, ...]]:
    if part is None:
        return [(name, "all of its bars", _run(f"make bench PARTS={name}"), "", NOT_JUDGED)]
    return [(name, one.what, one.measured, one.bound, _kept(one, part.judged)) for one in part.verdicts]


def _run(command: str) -> str:
    return f"{NOT_HERE}: run {command}"


def _kept(verdict: Verdict, judged: bool) -> str:
    return (KEPT if verdict.ok else BROKEN) if judged else NOT_JUDGED
