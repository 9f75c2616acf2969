"""The benchmark as text for a terminal."""

from collections.abc import Iterator
from itertools import pairwise

from tests.bench_failover.results import Benchmark, Phase, Row, Summary

_HEAD = ("mode", "fault", "workload", "runs", *(phase.value for phase in Phase), "disk")
_NAMES = 3  # columns of words; the rest are numbers


def table(benchmark: Benchmark) -> str:
    rows = [_HEAD, *_without_repetition([_cells(summary) for summary in benchmark.summaries()])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return "\n".join(
        (
            f"Failover on Kubernetes {benchmark.kubernetes}, seconds from the fault, medians where there are several runs",
            "",
            *(_line(row, widths) for row in rows),
            "",
            *_settings(benchmark.rows),
        )
    )


def _cells(summary: Summary) -> tuple[str, ...]:
    phases = (summary.text(phase) for phase in Phase)
    return (summary.mode, summary.fault, summary.workload.value, str(summary.runs), *phases, summary.disk)


def _without_repetition(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The same mode and fault are named once."""
    kept = rows[:1]
    for before, row in pairwise(rows):
        kept.append(("", "", *row[2:]) if row[:2] == before[:2] else row)
    return kept


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    words = [cell.ljust(width) for cell, width in zip(row[:_NAMES], widths, strict=False)]
    numbers = [cell.rjust(width) for cell, width in zip(row[_NAMES:], widths[_NAMES:], strict=True)]
    return "  ".join((*words, *numbers)).rstrip()


def _settings(rows: tuple[Row, ...]) -> Iterator[str]:
    for row in rows:
        yield f"{row.mode}: {row.says}; {row.setting}; never: not within {row.limit_seconds:g} s"
