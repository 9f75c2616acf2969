"""What the runs with Defib took from the verdict on, whether that is good enough, and how it is shown."""

from collections.abc import Iterator, Sequence
from enum import Enum
from math import ceil
from statistics import median

import msgspec

BOUND_SECONDS = 15.0


class Moment(Enum):
    """In the order in which they come, counted from the verdict: the moment at which the remediation is there."""

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


def broken_promises(report: PowerReport) -> list[str]:
    """A sentence for each run that is not good enough, and for none at all; empty when all is well."""
    if not report.cycles:
        return ["nothing was measured"]
    return [sentence for cycle in report.cycles for sentence in _broken(cycle, report.bound_seconds)]


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


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def power_table(report: PowerReport) -> str:
    faults = sorted({cycle.fault for cycle in report.cycles})
    rows = [("fault", "runs", "", *(moment.value for moment in Moment), "corrupted")]
    for fault in (*faults, "all"):
        rows += _rows(fault, [cycle for cycle in report.cycles if fault in (cycle.fault, "all")])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        (
            f"Defib with Redfish on Kubernetes {report.kubernetes}, {len(report.cycles)} runs, seed {report.seed}",
            f"Seconds from the verdict; {report.setting}",
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
    promise = (
        f"the database runs elsewhere in under {report.bound_seconds:g} s after the verdict, on a disk that is whole"
    )
    yield f"{'NOT SO' if broken else 'So it is'}: {promise}"
    yield from (f"  {sentence}" for sentence in broken)
