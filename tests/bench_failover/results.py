"""What a failover took, phase by phase, and how several runs of the same are summed up."""

from collections.abc import Iterator, Sequence
from enum import Enum
from math import ceil
from statistics import median

import msgspec


class Phase(Enum):
    """In the order in which they usually come. Each is a moment; the value is its name in tables and files."""

    UNKNOWN = "Unknown"
    VERDICT = "verdict"
    FENCED = "fenced"
    TERMINATING = "terminating"
    DELETED = "deleted"
    DETACHED = "detached"
    RUNNING = "running"


class Workload(Enum):
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet + RWO"


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """One workload in one run. A phase that is not in `seconds` did not come before the limit, or never comes."""

    fault: str
    workload: Workload
    run: int
    seconds: dict[Phase, float]
    corrupted: bool | None
    """None where there is no disk."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Who looked after the cluster, how it was set, and every run of it."""

    mode: str
    says: str
    setting: str
    limit_seconds: float
    decides: bool
    """It reaches a verdict and fences, rather than just acts or does nothing."""
    faults: tuple[str, ...]
    """Those that it was tried with."""
    failovers: tuple[Failover, ...]

    def of(self, fault: str, workload: Workload) -> list[Failover]:
        return [one for one in self.failovers if (one.fault, one.workload) == (fault, workload)]

    def summaries(self) -> Iterator["Summary"]:
        for fault in self.faults:
            for workload in Workload:
                if group := self.of(fault, workload):
                    yield _summary(self, group)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over all runs. One run in which something never came makes it never: what may fail, fails."""

    mode: str
    fault: str
    workload: Workload
    runs: int
    limit_seconds: float
    expects: tuple[Phase, ...]
    """The phases that this mode has for this workload at all."""
    seconds: dict[Phase, float]
    corrupted: bool | None

    def text(self, phase: Phase) -> str:
        if phase in self.seconds:
            return f"{self.seconds[phase]:.1f}"
        return "-" if self._skips(phase) or phase not in self.expects else "never"

    def _skips(self, phase: Phase) -> bool:
        if phase is Phase.TERMINATING:
            return Phase.DELETED in self.seconds  # deleted by force: gone at once
        return phase is Phase.UNKNOWN and Phase.RUNNING in self.seconds  # all was over before Kubernetes noticed

    @property
    def disk(self) -> str:
        return "-" if self.corrupted is None else "CORRUPTED" if self.corrupted else "intact"


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of it, as it is written to a file."""

    kubernetes: str
    rows: tuple[Row, ...]

    def summaries(self) -> tuple[Summary, ...]:
        return tuple(summary for row in self.rows for summary in row.summaries())


def expected_phases(workload: Workload, *, decides: bool) -> tuple[Phase, ...]:
    without = set() if decides else {Phase.VERDICT, Phase.FENCED}
    if workload is Workload.DEPLOYMENT:
        without.add(Phase.DETACHED)
    return tuple(phase for phase in Phase if phase not in without)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def _summary(row: Row, group: list[Failover]) -> Summary:
    first = group[0]
    verdicts = [one.corrupted for one in group if one.corrupted is not None]
    return Summary(
        mode=row.mode,
        fault=first.fault,
        workload=first.workload,
        runs=len(group),
        limit_seconds=row.limit_seconds,
        expects=expected_phases(first.workload, decides=row.decides),
        seconds={
            phase: median(one.seconds[phase] for one in group)
            for phase in Phase
            if all(phase in one.seconds for one in group)
        },
        corrupted=any(verdicts) if verdicts else None,
    )
