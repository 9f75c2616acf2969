"""How the runs with Defib are drawn, judged and shown."""

import msgspec
import pytest

from tests.bench_failover.power_draws import Hardware, PowerFault, draws
from tests.bench_failover.power_results import Cycle, Moment, PowerReport, broken_promises, power_table
from tests.bench_failover.results import Phase, Workload, percentile


def a_cycle(run: int = 1, fault: str = "hung", corrupted: tuple[str, ...] = (), **seconds: float) -> Cycle:
    """Moments by their names in the enum; without any, a good run."""
    good = {"off": 2.0, "proved": 3.0, "freed": 4.5, "attached": 5.5, "running": 6.5, "back": 12.0}
    took = {"verdict": 0.0} | (seconds or good)
    return Cycle(
        run=run,
        fault=fault,
        victim="n1",
        off_seconds=2.0,
        answer_seconds=0.5,
        seconds={Moment[name.upper()]: value for name, value in took.items()},
        corrupted=corrupted,
    )


def a_report(*cycles: Cycle) -> PowerReport:
    return PowerReport(kubernetes="v1.37.1", setting="fast machines", seed=7, cycles=cycles)


def test_a_seed_gives_the_same_runs_again() -> None:
    assert draws(7, 50, Hardware()) == draws(7, 50, Hardware())
    assert draws(7, 50, Hardware()) != draws(8, 50, Hardware())
    assert draws(7, 50, Hardware())[:5] == draws(7, 5, Hardware())


def test_fifty_runs_have_every_fault_and_keep_within_the_hardware() -> None:
    drawn = draws(1, 50, Hardware(off_seconds=(1.0, 3.0), answer_seconds=(0.0, 0.5)))
    assert {draw.fault for draw in drawn} == set(PowerFault)
    assert all(1 <= draw.off_seconds <= 3 and 0 <= draw.answer_seconds <= 0.5 for draw in drawn)
    assert len({draw.off_seconds for draw in drawn}) > 20
    assert {draw.chosen_from(["n1", "n2", "n3"]) for draw in drawn} == {"n1", "n2", "n3"}


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10), (0.0, 1)],
)
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile([3, 1, 2, 10, 9, 8, 4, 5, 6, 7], share) == value


def test_good_runs_keep_the_promise() -> None:
    assert broken_promises(a_report(a_cycle(1), a_cycle(2, running=14.99, back=20.0))) == []


def test_each_run_that_is_not_good_enough_is_named() -> None:
    late, never, torn = a_cycle(1, running=15.0, back=20.0), a_cycle(2, off=1.0), a_cycle(3, corrupted=("disk-a",))
    assert broken_promises(a_report(late, never, torn)) == [
        "run 1 (hung): the database ran elsewhere after 15.0 s, which is not under 15 s",
        "run 2 (hung): the database never ran elsewhere",
        "run 2 (hung): n1 did not come back",
        "run 3 (hung): corrupted disk-a",
    ]


def test_nothing_measured_is_no_promise_kept() -> None:
    assert broken_promises(a_report()) == ["nothing was measured"]


def test_the_table_sums_up_by_fault_and_says_whether_the_promise_is_kept() -> None:
    slow = a_cycle(3, off=3.0, proved=4.0, freed=5.5, attached=6.5, running=7.5, back=14.0)
    assert power_table(a_report(a_cycle(1, "off"), a_cycle(2), slow)).splitlines() == [
        "Defib with Redfish on Kubernetes v1.37.1, 3 runs, seed 7",
        "Seconds from the verdict; fast machines",
        "",
        "fault  runs          verdict  power off  proved  freed  attached  running  node back  corrupted",
        "hung   2     median      0.0        2.5     3.5    5.0       6.0      7.0       13.0          0",
        "             p95         0.0        3.0     4.0    5.5       6.5      7.5       14.0",
        "             p99         0.0        3.0     4.0    5.5       6.5      7.5       14.0",
        "             max         0.0        3.0     4.0    5.5       6.5      7.5       14.0",
        "off    1     median      0.0        2.0     3.0    4.5       5.5      6.5       12.0          0",
        "             p95         0.0        2.0     3.0    4.5       5.5      6.5       12.0",
        "             p99         0.0        2.0     3.0    4.5       5.5      6.5       12.0",
        "             max         0.0        2.0     3.0    4.5       5.5      6.5       12.0",
        "all    3     median      0.0        2.0     3.0    4.5       5.5      6.5       12.0          0",
        "             p95         0.0        3.0     4.0    5.5       6.5      7.5       14.0",
        "             p99         0.0        3.0     4.0    5.5       6.5      7.5       14.0",
        "             max         0.0        3.0     4.0    5.5       6.5      7.5       14.0",
        "",
        "So it is: the database runs elsewhere in under 15 s after the verdict, on a disk that is whole",
    ]


def test_one_run_in_which_it_never_came_makes_it_never() -> None:
    lines = power_table(a_report(a_cycle(1), a_cycle(2, off=1.0))).splitlines()
    assert lines[4].split()[3:] == ["0.0", "1.5", "never", "never", "never", "never", "never", "0"]
    assert lines[-3].startswith("NOT SO: ")
    assert lines[-2] == "  run 2 (hung): the database never ran elsewhere"


def fast(*seconds: float, stateless: float = 25.0) -> PowerReport:
    cycles = tuple(
        msgspec.structs.replace(
            a_cycle(run, verdict=20.0, running=took, back=60.0),
            phases={Workload.DEPLOYMENT: {Phase.RUNNING: stateless}},
        )
        for run, took in enumerate(seconds, 1)
    )
    return PowerReport(kubernetes="v1.37.1", setting="", seed=7, cycles=cycles, is_fast=True, from_fault=True)


def test_the_fast_path_promises_a_median_and_a_tail_from_the_fault_on() -> None:
    assert broken_promises(fast(*[34.9] * 11, *[44.9] * 9)) == []
    assert broken_promises(fast(*[34.9] * 9, *[44.9] * 11)) == ["p50 of the database: 44.9 s, which is not under 35 s"]
    assert broken_promises(fast(*[30.0] * 18, 45.0, 46.0)) == ["p95 of the database: 45.0 s, which is not under 45 s"]
    assert "Seconds from the fault" in power_table(fast(30.0))


def test_the_fast_path_promises_the_same_for_a_stateless_pod() -> None:
    assert broken_promises(fast(30.0, stateless=36.0)) == ["p50 of the stateless pod: 36.0 s, which is not under 35 s"]


def test_without_the_fast_path_a_failover_that_is_counted_from_the_fault_must_come_and_has_no_bar() -> None:
    cycles = (a_cycle(1, verdict=85.0, running=105.0, back=120.0), a_cycle(2, verdict=85.0))
    report = PowerReport(kubernetes="", setting="", seed=7, cycles=cycles, from_fault=True)
    assert broken_promises(report) == [
        "run 2 (hung): the database never ran elsewhere",
        "run 2 (hung): n1 did not come back",
    ]
    assert "NOT SO: the database runs elsewhere, on a disk that is whole" in power_table(report)


def test_a_single_fault_can_be_drawn_time_and_again() -> None:
    drawn = draws(7, 5, Hardware(), (PowerFault.OFF,))
    assert [draw.fault for draw in drawn] == [PowerFault.OFF] * 5
