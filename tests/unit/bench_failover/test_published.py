"""The page of failovers says what was measured, and nothing else."""

from collections.abc import Sequence

import msgspec

from tests.bench_failover.page import filled, with_one_fault
from tests.bench_failover.picture import picture
from tests.bench_failover.publish import PAGE, PICTURE, merged, published
from tests.bench_failover.results import Benchmark, Failover, Phase, Row, Workload
from tests.bench_failover.services import FAST, STANDARD


def a_row(mode: str, took: Sequence[float | None], faults: tuple[str, ...] = ("power off",)) -> Row:
    """Each run has a database and a stateless pod, which is 5 s faster; None: neither ever ran."""
    return Row(
        mode=mode,
        says="somebody",
        setting="heartbeat 10 s",
        limit_seconds=150,
        decides=True,
        faults=faults,
        failovers=tuple(
            Failover(
                fault=faults[run % len(faults)],
                workload=workload,
                run=run,
                seconds={} if seconds is None else {Phase.RUNNING: seconds - less},
                corrupted=False if workload is Workload.STATEFUL_SET else None,
            )
            for run, seconds in enumerate(took)
            for workload, less in ((Workload.DEPLOYMENT, 5), (Workload.STATEFUL_SET, 0))
        ),
    )


def a_page(benchmark: Benchmark, table: str) -> list[str]:
    page = filled(f"before\n<!-- measured: {table} -->\nSTALE\n<!-- end -->\nafter\n", benchmark)
    assert "STALE" not in page
    assert page.startswith(f"before\n<!-- measured: {table} -->\n\n|")
    assert page.endswith("|\n\n<!-- end -->\nafter\n")
    return [line for line in page.splitlines() if line.startswith("|")][2:]


def of(*rows: Row) -> Benchmark:
    return Benchmark(kubernetes="v1.37.1", rows=rows)


def test_the_page_and_its_picture_are_what_the_runs_give() -> None:
    assert filled(PAGE.read_text(), published()) == PAGE.read_text()
    assert picture(with_one_fault(published())) == PICTURE.read_text()


def test_the_page_compares_ways_with_defib_and_without() -> None:
    assert [row.mode for row in with_one_fault(published()).rows] == [
        "no operator",
        "tuned flags",
        "NodeHealthCheck with SNR, as by its defaults",
        STANDARD.title,
        FAST.title,
    ]


def test_every_published_row_has_both_workloads_in_every_run() -> None:
    for row in published().rows:
        runs = {(one.run, one.workload) for one in row.failovers}
        assert runs == {(run, workload) for run, _ in runs for workload in Workload}


def test_a_row_that_is_measured_again_takes_the_place_of_the_old_one() -> None:
    old = of(a_row(STANDARD.title, [80.0]), a_row(FAST.title, [30.0]))
    new = of(a_row(FAST.title, [31.0]), a_row(FAST.title, [32.0], ("power off", "hung")))
    rows = merged([old, new]).rows
    assert [(row.mode, row.faults, row.failovers[1].seconds[Phase.RUNNING]) for row in rows] == [
        (STANDARD.title, ("power off",), 80.0),
        (FAST.title, ("power off",), 31.0),
        (FAST.title, ("power off", "hung"), 32.0),
    ]


def test_the_fast_path_is_held_against_its_bars() -> None:
    assert a_page(of(a_row(FAST.title, [34.9, 34.9, 44.9])), "fast-path") == [
        "| Deployment | 3 | **29.9** | under 35 | **39.9** | under 45 | 39.9 | yes |",
        "| StatefulSet + RWO | 3 | **34.9** | under 35 | **44.9** | under 45 | 44.9 | yes |",
    ]
    assert a_page(of(a_row(FAST.title, [30.0, None])), "fast-path")[1] == (
        "| StatefulSet + RWO | 2 | **30.0** | under 35 | **never** | under 45 | never | NO |"
    )


def test_mixed_faults_are_told_apart_and_counted_together_with_their_corrupted_disks() -> None:
    row = a_row(FAST.title, [30.0, 20.0, 32.0], ("power off", "hung"))
    torn = msgspec.structs.replace(row.failovers[1], corrupted=True)
    row = msgspec.structs.replace(row, failovers=(row.failovers[0], torn, *row.failovers[2:]))
    assert a_page(of(row), "mixed") == [
        "| Defib, fast path | power off | 2 | 31.0 | 32.0 | 26.0 | 27.0 | 1 |",
        "| Defib, fast path | hung | 1 | 20.0 | 20.0 | 15.0 | 15.0 | 0 |",
        "| Defib, fast path | all | 3 | 30.0 | 32.0 | 25.0 | 27.0 | 1 |",
    ]


def test_mixed_faults_are_not_compared_with_rows_that_had_only_one() -> None:
    both = of(a_row(STANDARD.title, [80.0]), a_row(FAST.title, [30.0, 31.0], ("power off", "hung")))
    assert [line.split(" | ")[0] for line in a_page(both, "phases")] == ["| Defib, standard", "| "]
