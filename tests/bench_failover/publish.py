"""`python -m tests.bench_failover.publish build/bench-failover.json`: what was measured goes onto the page of failovers.

A row takes the place of the one that has the same mode and the same faults; others stay. Then the picture and the tables are
written anew. Without a file, only that.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.bench_failover.modes import MODES
from tests.bench_failover.page import filled, with_one_fault
from tests.bench_failover.picture import picture
from tests.bench_failover.results import Benchmark, Row
from tests.bench_failover.services import SERVICES

DOCS = Path(__file__).parents[2] / "docs"
RUNS, PAGE, PICTURE = DOCS / "data/failover.json", DOCS / "failover.md", DOCS / "pictures/failover.svg"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench_failover.publish", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="as the benchmark writes them")
    measured = [_read(file) for file in parser.parse_args().files]
    known = [_read(RUNS)] if RUNS.exists() else []
    if len(versions := {one.kubernetes for one in (*known, *measured)}) != 1:
        print(  # noqa: T201 - for who publishes
            f"One page is about one Kubernetes, these are about {', '.join(sorted(versions)) or 'none'}: "
            f"measure every row again, and remove {RUNS.name} first."
        )
        return 1
    benchmark = merged([*known, *measured])
    RUNS.parent.mkdir(exist_ok=True)
    RUNS.write_bytes(_a_run_in_each_line(benchmark))
    PICTURE.write_text(picture(with_one_fault(benchmark)))
    PAGE.write_text(filled(PAGE.read_text(), benchmark))
    return 0


def published() -> Benchmark:
    return _read(RUNS)


def merged(benchmarks: Sequence[Benchmark]) -> Benchmark:
    """The latest of each row, in the order in which the benchmark knows them."""
    rows = {(row.mode, row.faults): row for benchmark in benchmarks for row in benchmark.rows}
    order = [*MODES, *(service.title for service in SERVICES.values())]

    def place(row: Row) -> tuple[int, int]:
        return order.index(row.mode), len(row.faults)

    return Benchmark(kubernetes=benchmarks[0].kubernetes, rows=tuple(sorted(rows.values(), key=place)))


def _read(file: Path) -> Benchmark:
    return msgspec.json.decode(file.read_bytes(), type=Benchmark)


def _a_run_in_each_line(benchmark: Benchmark) -> bytes:
    return msgspec.json.encode(benchmark).replace(b'{"fault"', b'\n{"fault"') + b"\n"


if __name__ == "__main__":
    sys.exit(main())
