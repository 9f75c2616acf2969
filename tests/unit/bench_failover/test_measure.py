"""The failover benchmark on the embedded server, in virtual time: what it measures there is what Kubernetes is known for."""

import pytest

from defib.simulate.virtual_time import VirtualClock, run
from testbed.scenario.embedded import EmbeddedStage
from testbed.scenario.profiles import PROFILES
from testbed.scenario.story import Timers
from tests.bench_failover.measure import LIMITS, Plan, measure
from tests.bench_failover.modes import MODES
from tests.bench_failover.results import Benchmark, Phase, Row, Summary, Workload
from tests.bench_failover.ward import Fault


def measured(timers: Timers, *modes: str, runs: int = 1) -> tuple[Summary, ...]:
    plan = Plan(
        modes=tuple(MODES[name] for name in modes),
        timers=timers,
        profile=PROFILES[timers],
        runs=runs,
        limit_seconds=LIMITS[timers],
    )
    said: list[str] = []

    async def main(clock: VirtualClock) -> tuple[Row, ...]:
        return tuple(await measure(EmbeddedStage(clock), clock, plan, said.append))

    rows = run(main, seed=3)
    assert len(said) == len(modes) * len(Fault) * runs
    return Benchmark(kubernetes="", rows=rows).summaries()


def of(summaries: tuple[Summary, ...], fault: Fault, workload: Workload) -> Summary:
    return next(one for one in summaries if (one.fault, one.workload) == (fault.value, workload))


@pytest.mark.parametrize("fault", Fault)
def test_without_an_operator_a_deployment_comes_back_and_a_database_never_does(fault: Fault) -> None:
    summaries = measured(Timers.DEFAULT, "no operator")
    web, database = (of(summaries, fault, workload) for workload in Workload)
    assert 35 < web.seconds[Phase.UNKNOWN] < 65
    assert 300 < web.seconds[Phase.TERMINATING] - web.seconds[Phase.UNKNOWN] < 310
    assert web.seconds[Phase.RUNNING] - web.seconds[Phase.TERMINATING] < 5
    assert database.text(Phase.RUNNING) == database.text(Phase.DELETED) == database.text(Phase.DETACHED) == "never"
    assert database.disk == "intact"


def test_a_naive_force_delete_waits_for_the_unmount_and_corrupts_what_was_only_cut_off() -> None:
    summaries = measured(Timers.COMPRESSED, "naive force delete", runs=2)
    dead = of(summaries, Fault.POWER_OFF, Workload.STATEFUL_SET)
    cut_off = of(summaries, Fault.PARTITION, Workload.STATEFUL_SET)
    assert (dead.runs, dead.disk, cut_off.disk) == (2, "intact", "CORRUPTED")
    assert dead.seconds[Phase.DETACHED] - dead.seconds[Phase.DELETED] > 12
    assert dead.seconds[Phase.RUNNING] < 30


def test_an_out_of_service_taint_is_only_as_good_as_the_word_of_who_set_it() -> None:
    summaries = measured(Timers.COMPRESSED, "out-of-service by hand")
    assert of(summaries, Fault.POWER_OFF, Workload.STATEFUL_SET).disk == "intact"
    assert of(summaries, Fault.PARTITION, Workload.STATEFUL_SET).disk == "CORRUPTED"


def test_a_node_health_check_with_its_defaults_waits_for_silence_and_for_the_watchdog() -> None:
    summaries = measured(Timers.DEFAULT, "NodeHealthCheck with SNR, as by its defaults")
    database = of(summaries, Fault.POWER_OFF, Workload.STATEFUL_SET)
    took = database.seconds
    assert took[Phase.VERDICT] - took[Phase.UNKNOWN] == pytest.approx(300, abs=1)
    assert took[Phase.FENCED] - took[Phase.VERDICT] == pytest.approx(180, abs=1)
    assert took[Phase.FENCED] < took[Phase.DELETED] <= took[Phase.RUNNING] < took[Phase.FENCED] + 40
    assert database.disk == "intact"


def test_a_safe_time_is_no_proof_for_a_node_without_a_watchdog() -> None:
    summaries = measured(Timers.COMPRESSED, "NodeHealthCheck with SNR, as by its defaults")
    assert of(summaries, Fault.POWER_OFF, Workload.STATEFUL_SET).disk == "intact"
    assert of(summaries, Fault.PARTITION, Workload.STATEFUL_SET).disk == "CORRUPTED"
