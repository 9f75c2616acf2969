"""What a failover took, phase by phase, and how several runs of the same are summed up."""

from collections.abc import Iterable, Sequence
from enum import Enum
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

    mode: str
    fault: str
    workload: Workload
    run: int
    seconds: dict[Phase, float]
    corrupted: bool | None
    """None where there is no disk."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over all runs. One run in which something never came makes it never: what may fail, fails."""

    mode: str
    fault: str
    workload: Workload
    runs: int
    expects: tuple[Phase, ...]
    """The phases that this mode has for this workload at all."""
    seconds: dict[Phase, float]
    corrupted: bool | None

    def text(self, phase: Phase) -> str:
        if phase in self.seconds:
            return f"{self.seconds[phase]:.1f}"
        skipped = phase is Phase.TERMINATING and Phase.DELETED in self.seconds  # deleted by force: gone at once
        return "-" if skipped or phase not in self.expects else "never"

    @property
    def disk(self) -> str:
        return "-" if self.corrupted is None else "CORRUPTED" if self.corrupted else "intact"


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of it, as it is written to a file."""

    kubernetes: str
    profile: str
    timers: str
    limit_seconds: float
    failovers: tuple[Failover, ...]
    summaries: tuple[Summary, ...]

    @property
    def counted(self) -> str:
        runs = max((summary.runs for summary in self.summaries), default=0)
        return "one run" if runs == 1 else f"medians of {runs} runs"


def expected_phases(workload: Workload, *, decides: bool) -> tuple[Phase, ...]:
    without = set() if decides else {Phase.VERDICT, Phase.FENCED}
    if workload is Workload.DEPLOYMENT:
        without.add(Phase.DETACHED)
    return tuple(phase for phase in Phase if phase not in without)


def summarise(failovers: Sequence[Failover], deciding: Iterable[str]) -> tuple[Summary, ...]:
    """`deciding` are the modes that reach a verdict and fence, rather than just act or do nothing."""
    groups: dict[tuple[str, str, Workload], list[Failover]] = {}
    for one in failovers:
        groups.setdefault((one.mode, one.fault, one.workload), []).append(one)
    decides = set(deciding)
    return tuple(_summary(group, decides=mode in decides) for (mode, _, _), group in groups.items())


def _summary(group: list[Failover], *, decides: bool) -> Summary:
    first = group[0]
    verdicts = [one.corrupted for one in group if one.corrupted is not None]
    return Summary(
        mode=first.mode,
        fault=first.fault,
        workload=first.workload,
        runs=len(group),
        expects=expected_phases(first.workload, decides=decides),
        seconds={
            phase: median(one.seconds[phase] for one in group)
            for phase in Phase
            if all(phase in one.seconds for one in group)
        },
        corrupted=any(verdicts) if verdicts else None,
    )
