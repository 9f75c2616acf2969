"""The one table at the end of the bench: every bar of the project has a row, and says whether it is kept."""

import msgspec

from tests.bench.bars import BROKEN, KEPT, NOT_HERE, NOT_JUDGED
from tests.bench.report import PARTS, Results, text
from tests.limits.test_a_large_cluster import FAILING, LIMIT_MIB, NODES
from tests.tidy.repository import make_targets
from tests.unit.bench.measured import MACHINE, a_growth, a_hearing


def rows(results: Results) -> list[list[str]]:
    """Of the last table, cell by cell."""
    last = text(results).rpartition("\n\n")[2].splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in last[2:]]


def test_a_bar_that_was_measured_is_kept_or_it_is_not() -> None:
    hearing = a_hearing()
    first, *others = hearing.verdicts
    worse = msgspec.structs.replace(hearing, verdicts=[msgspec.structs.replace(first, ok=False), *others])
    results = Results(machine=MACHINE, leases=worse)
    assert [row[-1] for row in rows(results) if row[0] == "leases"] == [BROKEN, *(KEPT for _ in others)]
    assert results.is_broken


def test_a_trial_is_not_judged() -> None:
    results = Results(machine=MACHINE, growth=a_growth(judged=False))
    assert {row[-1] for row in rows(results)} == {NOT_JUDGED}


def test_a_part_that_was_left_out_says_how_to_measure_it() -> None:
    left_out = {row[0]: row[2] for row in rows(Results(machine=MACHINE, leases=a_hearing())) if NOT_HERE in row[2]}
    assert {*PARTS} - {"leases"} <= left_out.keys()
    assert left_out["growth"].endswith("run make bench PARTS=growth")


def test_bars_that_others_measure_are_in_it_with_a_command_that_exists() -> None:
    told = {row[2].partition("run ")[2].removeprefix("make ").split()[0] for row in rows(Results(machine=MACHINE))}
    assert {"bench", "bench-failover", "soak", "test"} == told
    assert told <= make_targets().keys()


def test_the_limit_of_memory_is_the_one_that_is_tested() -> None:
    what, _, bound, _ = next(row[1:] for row in rows(Results(machine=MACHINE)) if row[0] == "limits")
    assert (what, bound) == (f"{FAILING} of {NODES:,} nodes fail: peak memory", f"<= {LIMIT_MIB} MiB")
