"""The tables of docs/failover.md. Everything between two marks there comes from the measured runs, and from nothing else."""

import re
from collections.abc import Iterator, Sequence
from math import inf
from statistics import median

from tests.bench_failover.power_results import FAST_MEDIAN_SECONDS, FAST_P95_SECONDS
from tests.bench_failover.results import Benchmark, Failover, Phase, Row, Summary, Workload, percentile
from tests.bench_failover.services import FAST

_MARKED = re.compile(r"(?<=<!-- measured: )([a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
_PHASES = {
    Phase.UNKNOWN: "Kubernetes says Unknown",
    Phase.VERDICT: "verdict",
    Phase.FENCED: "proved or assumed off",
    Phase.TERMINATING: "old pod told to go",
    Phase.DELETED: "old pod gone",
    Phase.DETACHED: "volume free",
    Phase.RUNNING: "**runs elsewhere**",
}


def filled(page: str, benchmark: Benchmark) -> str:
    """The page with its tables as they follow from the runs."""
    tables = {"phases": _phases, "fast-path": _fast_path, "mixed": _mixed, "settings": _settings}
    return _MARKED.sub(lambda found: f"{found[1]}{found[2]}\n{_markdown(tables[found[1]](benchmark))}\n\n", page)


def with_one_fault(benchmark: Benchmark) -> Benchmark:
    """The rows that can be compared with each other: each was tried with the loss of power and nothing else."""
    return Benchmark(kubernetes=benchmark.kubernetes, rows=tuple(row for row in benchmark.rows if len(row.faults) == 1))


def _phases(benchmark: Benchmark) -> Iterator[Sequence[str]]:
    yield ("who looks after the node", "workload", "runs", *_PHASES.values(), "disk")
    before = ""
    for summary in with_one_fault(benchmark).summaries():
        yield ("" if summary.mode == before else summary.mode, *_cells(summary))
        before = summary.mode


def _cells(summary: Summary) -> Iterator[str]:
    yield from (summary.workload.value, str(summary.runs))
    yield from (summary.text(phase) for phase in _PHASES if phase is not Phase.RUNNING)
    yield from (f"**{summary.text(Phase.RUNNING)}**", summary.disk)


def _fast_path(benchmark: Benchmark) -> Iterator[Sequence[str]]:
    yield ("workload", "runs", "p50", "bar", "p95", "bar", "longest", "kept")
    for row in with_one_fault(benchmark).rows:
        if row.mode == FAST.title:
            yield from (_against_bars(row, workload) for workload in Workload)


def _against_bars(row: Row, workload: Workload) -> Sequence[str]:
    took = _running(row.of(row.faults[0], workload))
    p50, p95 = percentile(took, 0.5), percentile(took, 0.95)
    kept = p50 < FAST_MEDIAN_SECONDS and p95 < FAST_P95_SECONDS
    bars = f"under {FAST_MEDIAN_SECONDS:g}", f"under {FAST_P95_SECONDS:g}"
    numbers = (f"**{_seconds(p50)}**", bars[0], f"**{_seconds(p95)}**", bars[1], _seconds(max(took)))
    return (workload.value, str(len(took)), *numbers, "yes" if kept else "NO")


def _mixed(benchmark: Benchmark) -> Iterator[Sequence[str]]:
    places = [f"{workload.value}, {what}" for workload in reversed(Workload) for what in ("median", "longest")]
    yield ("who looks after the node", "fault", "runs", *places, "corrupted disks")
    for row in benchmark.rows:
        if len(row.faults) > 1:
            yield from (_of_fault(row, (fault,)) for fault in row.faults)
            yield _of_fault(row, row.faults)


def _of_fault(row: Row, faults: Sequence[str]) -> Sequence[str]:
    by_workload = {one: [failover for fault in faults for failover in row.of(fault, one)] for one in Workload}
    databases = by_workload[Workload.STATEFUL_SET]
    took = [_running(by_workload[workload]) for workload in reversed(Workload)]
    numbers = [_seconds(sum_up(values)) for values in took for sum_up in (median, max)]
    corrupted = sum(one.corrupted is True for one in databases)
    name = "all" if len(faults) > 1 else faults[0]
    return (row.mode, name, str(len(databases)), *numbers, str(corrupted))


def _settings(benchmark: Benchmark) -> Iterator[Sequence[str]]:
    yield ("who looks after the node", "what that is", "how the cluster is set")
    yield from ((row.mode, row.says, row.setting) for row in with_one_fault(benchmark).rows)


def _running(failovers: Sequence[Failover]) -> list[float]:
    return [one.seconds.get(Phase.RUNNING, inf) for one in failovers]


def _seconds(value: float) -> str:
    return "never" if value == inf else f"{value:.1f}"


def _markdown(rows: Iterator[Sequence[str]]) -> str:
    head, *body = rows
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body))
