"""What the bench makes of hearing thousands of heartbeats, and when our promise counts as broken."""

from typing import Any

import pytest

from tests.bench.heard import HEARD, cpu_share, mib, verdicts
from tests.bench.report import Results, text
from tests.unit.bench.measured import MACHINE, a_hearing, a_stretch, the_stretches


def broken(**hasty: Any) -> list[str]:
    return [one.what for one in verdicts(the_stretches(**hasty), pace=500.0) if not one.ok]


def test_what_hearing_costs_is_what_an_operator_without_heartbeats_does_not_need() -> None:
    found = the_stretches(cpu_seconds=2.5, resident_mib=85.0)
    assert cpu_share(found) == pytest.approx(0.04)
    assert mib(found) == pytest.approx(15.0)


def test_little_cpu_and_little_memory_keep_the_promise() -> None:
    assert broken() == []


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"cpu_seconds": 5.0}, "hearing all nodes: CPU, of one core"),
        ({"resident_mib": 91.0}, "hearing all nodes: memory"),
        ({"heartbeats": 20_000}, "heartbeats and a fast path: renewals seen"),
    ],
)
def test_too_much_of_either_breaks_it_and_so_do_heartbeats_that_were_never_written(
    fields: dict[str, Any], what: str
) -> None:
    assert broken(**fields) == [what]


def test_renewals_that_were_not_seen_without_a_fast_path_count_too() -> None:
    found = the_stretches() | {HEARD: a_stretch(heartbeats=0)}
    assert [one.what for one in verdicts(found, 500.0) if not one.ok] == ["heartbeats: renewals seen"]


def test_the_report_shows_each_operator_and_the_difference() -> None:
    hearing = a_hearing()
    told = text(Results(machine=MACHINE, leases=hearing))
    assert all(what in told for what in hearing.stretches)
    assert "0.8 % of a core and 10.0 MiB" in told
