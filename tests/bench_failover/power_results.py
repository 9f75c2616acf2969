"""What the runs with Defib took from the verdict on, whether that is good enough, and how it is shown."""

from collections.abc import Iterator, Sequence
from enum import Enum
from math import inf
from statistics import median

import msgspec

from tests.bench_failover.results import Phase, Workload, percentile

BOUND_SECONDS = 15.0
FAST_MEDIAN_SECONDS, FAST_P95_SECONDS = 35.0, 45.0  # from the fault, with the fast path and the times of Kubernetes


class Moment(Enum):
    """In the order in which they come. The verdict is there when the remediation is."""

    VERDICT = "verdict"
    OFF = "power off"
    PROVED = "proved"
    FREED = "freed"
    ATTACHED = "attached"
    RUNNING = "running"
    BACK = "node back"


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """One run. A moment that is not in `seconds` did not come before the limit."""

    run: int
    fault: str
    victim: str
    off_seconds: float
    answer_seconds: float
    seconds: dict[Moment, float]
    phases: dict[Workload, dict[Phase, float]] = {}
    """From the fault on, as with all other modes. The moments are about databases."""
    corrupted: tuple[str, ...] = ()
    """The disks that were whole before this run."""

    def __str__(self) -> str:
        took = ", ".join(f"{moment.value} {self.seconds[moment]:.1f}" for moment in Moment if moment in self.seconds)
        return f"{took or 'no verdict'} s" + (f"; CORRUPTED {', '.join(self.corrupted)}" if self.corrupted else "")


class PowerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of it, as it is written to a file."""

    kubernetes: str
    setting: str
    seed: int
    cycles: tuple[Cycle, ...]
    bound_seconds: float = BOUND_SECONDS
    is_fast: bool = False
    from_fault: bool = False
    """Counted from there, not from the verdict."""


def broken_promises(report: PowerReport) -> list[str]:
    """A sentence for each run that is not good enough, and for none at all; empty when all is well."""
    if not report.cycles:
        return ["nothing was measured"]
    bound = inf if report.from_fault else report.bound_seconds
    broken = [sentence for cycle in report.cycles for sentence in _broken(cycle, bound)]
    return broken + (_too_late(report.cycles) if report.is_fast else [])


def _too_late(cycles: Sequence[Cycle]) -> list[str]:
    databases = [cycle.seconds.get(Moment.RUNNING, inf) for cycle in cycles]
    stateless = [cycle.phases.get(Workload.DEPLOYMENT, {}).get(Phase.RUNNING, inf) for cycle in cycles]
    bars = (("p50", 0.5, FAST_MEDIAN_SECONDS), ("p95", 0.95, FAST_P95_SECONDS))
    return [
        f"{name} of {whose}: {took:.1f} s, which is not under {bound:g} s"
        for whose, ran in (("the database", databases), ("the stateless pod", stateless))
        for name, share, bound in bars
        if (took := percentile(ran, share)) >= bound
    ]


def _broken(cycle: Cycle, bound: float) -> Iterator[str]:
    ran = cycle.seconds.get(Moment.RUNNING)
    if ran is None:
        yield f"run {cycle.run} ({cycle.fault}): the database never ran elsewhere"
    elif ran >= bound:
        yield f"run {cycle.run} ({cycle.fault}): the database ran elsewhere after {ran:.1f} s, which is not under {bound:g} s"
    if Moment.BACK not in cycle.seconds:
        yield f"run {cycle.run} ({cycle.fault}): {cycle.victim} did not come back"
    if cycle.corrupted:
        yield f"run {cycle.run} ({cycle.fault}): corrupted {', '.join(cycle.corrupted)}"


def power_table(report: PowerReport) -> str:
    faults = sorted({cycle.fault for cycle in report.cycles})
    rows = [("fault", "runs", "", *(moment.value for moment in Moment), "corrupted")]
    for fault in (*faults, "all"):
        rows += _rows(fault, [cycle for cycle in report.cycles if fault in (cycle.fault, "all")])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        (
            f"Defib with Redfish on Kubernetes {report.kubernetes}, {len(report.cycles)} runs, seed {report.seed}",
            f"Seconds from the {'fault' if report.from_fault else 'verdict'}; {report.setting}",
            "",
            *(_line(row, widths) for row in rows),
            "",
            *_verdict(report),
        )
    )


def _rows(fault: str, cycles: Sequence[Cycle]) -> list[tuple[str, ...]]:
    corrupted = str(sum(len(cycle.corrupted) for cycle in cycles))
    sums = {
        "median": median,
        "p95": lambda values: percentile(values, 0.95),
        "p99": lambda values: percentile(values, 0.99),
        "max": max,
    }
    rows = [("", "", name, *(_cell(cycles, moment, sum_up) for moment in Moment), "") for name, sum_up in sums.items()]
    return [(fault, str(len(cycles)), *rows[0][2:-1], corrupted), *rows[1:]]


def _cell(cycles: Sequence[Cycle], moment: Moment, sum_up: object) -> str:
    """One run in which it never came makes it never: what may fail, fails."""
    assert callable(sum_up)
    values = [cycle.seconds[moment] for cycle in cycles if moment in cycle.seconds]
    return f"{sum_up(values):.1f}" if values and len(values) == len(cycles) else "never"


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    words = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)]
    numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
    return "  ".join((*words, *numbers)).rstrip()


def _verdict(report: PowerReport) -> Iterator[str]:
    broken = broken_promises(report)
    yield f"{'NOT SO' if broken else 'So it is'}: {_promise(report)}, on a disk that is whole"
    yield from (f"  {sentence}" for sentence in broken)


def _promise(report: PowerReport) -> str:
    if report.is_fast:
        bars = f"{FAST_MEDIAN_SECONDS:g} s (p50) and {FAST_P95_SECONDS:g} s (p95)"
        return f"the database and the stateless pod run elsewhere in under {bars} after the fault"
    when = "" if report.from_fault else f" in under {report.bound_seconds:g} s after the verdict"
    return f"the database runs elsewhere{when}"
