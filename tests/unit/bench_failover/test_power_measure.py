"""The benchmark with Defib on the embedded server, in virtual time: it measures, and it notices what it is there for."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from defib.kube.client import Client
from defib.kube.transport import Transport
from defib.simulate import controllers
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import NodeLifecycle
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from defib.simulate.workloads import Workloads
from testbed.scenario.hollow_cluster import alongside
from tests.bench_failover.power_draws import Draw, Hardware, PowerFault
from tests.bench_failover.power_measure import PowerPlan, go_through, row_of
from tests.bench_failover.power_results import Cycle, Moment, PowerReport, broken_promises
from tests.bench_failover.power_ward import PowerWard, new_machines, power_ward
from tests.bench_failover.power_ways import in_process
from tests.bench_failover.results import Phase, Workload
from tests.bench_failover.services import FAST, FROM_VERDICT, STANDARD, Service


@asynccontextmanager
async def embedded_ward(clock: VirtualClock, service: Service = FROM_VERDICT) -> AsyncIterator[PowerWard]:
    server, machines = ApiServer(clock), new_machines(clock)
    controllers.attach(server)

    def client(name: str) -> Client:
        return Client(InProcess(server, name), clock)

    async def line() -> Transport:
        return InProcess(server, "defib")

    manager = alongside(
        Workloads(server, clock, service.profile.workloads()).run(),
        NodeLifecycle(client("node-lifecycle"), clock, service.profile.nodes).run(),
    )
    async with (
        manager,
        in_process(machines, clock, service) as way,
        power_ward(client("person"), line, clock, machines, way) as ward,
    ):
        yield ward


def test_every_run_is_measured_from_the_verdict_and_leaves_the_cluster_as_it_was() -> None:
    plan = PowerPlan(seed=2, runs=6, hardware=Hardware(answer_seconds=(0.0, 0.5)))
    said: list[str] = []

    async def main(clock: VirtualClock) -> Sequence[Cycle]:
        async with embedded_ward(clock) as ward:
            return await go_through(ward, plan, said.append)

    cycles = run(main)
    report = PowerReport(kubernetes="", setting=plan.setting, seed=plan.seed, cycles=tuple(cycles))
    assert broken_promises(report) == []
    assert len(said) == len(cycles) == 6
    for cycle, draw in zip(cycles, plan.draws, strict=True):
        took = [cycle.seconds[moment] for moment in Moment]
        assert took == sorted(took)
        off = 0.0 if draw.fault is PowerFault.OFF else draw.off_seconds
        assert off <= cycle.seconds[Moment.OFF] < off + 4 * draw.answer_seconds + 1


def test_a_node_that_does_not_come_back_is_the_last_that_is_measured() -> None:
    plan, said = PowerPlan(seed=2, runs=3, hardware=Hardware(answer_seconds=(30.0, 30.0))), list[str]()

    async def main(clock: VirtualClock) -> Sequence[Cycle]:
        async with embedded_ward(clock) as ward:
            return await go_through(ward, plan, said.append)

    (cycle,) = run(main)
    report = PowerReport(kubernetes="", setting="", seed=2, cycles=(cycle,))
    assert broken_promises(report) == [
        f"run 1 ({cycle.fault}): the database never ran elsewhere",
        f"run 1 ({cycle.fault}): {cycle.victim} did not come back",
    ]
    assert "what was seen:" in said[-1]


def test_a_machine_that_is_too_slow_is_noticed() -> None:
    draw = Draw(run=1, fault=PowerFault.HUNG, off_seconds=20.0, answer_seconds=0.0, victim=0.5, after=0.0)

    async def main(clock: VirtualClock) -> Cycle:
        async with embedded_ward(clock) as ward:
            return await ward.go_through(draw)

    cycle = run(main)
    assert cycle.seconds[Moment.OFF] > 20
    report = PowerReport(kubernetes="", setting="", seed=0, cycles=(cycle,))
    assert "which is not under 15 s" in broken_promises(report)[0]


def test_a_standard_check_is_counted_from_the_fault_for_databases_and_for_stateless_pods() -> None:
    plan = PowerPlan(seed=2, runs=2, service=STANDARD, faults=(PowerFault.OFF,))

    async def main(clock: VirtualClock) -> Sequence[Cycle]:
        async with embedded_ward(clock, STANDARD) as ward:
            return await go_through(ward, plan, lambda _: None)

    report = PowerReport(kubernetes="", setting=plan.setting, seed=2, cycles=tuple(run(main)), from_fault=True)
    assert broken_promises(report) == []
    stateless, database = row_of(plan, report).summaries()
    assert (stateless.workload, database.workload) == (Workload.DEPLOYMENT, Workload.STATEFUL_SET)
    for summary in (stateless, database):
        assert 35 < summary.seconds[Phase.UNKNOWN] < 65
        assert 29 < summary.seconds[Phase.VERDICT] - summary.seconds[Phase.UNKNOWN] < 32
        assert summary.seconds[Phase.VERDICT] <= summary.seconds[Phase.FENCED] < summary.seconds[Phase.RUNNING]
        assert summary.disk in ("-", "intact")
    assert stateless.seconds[Phase.RUNNING] < database.seconds[Phase.RUNNING]


def test_with_the_fast_path_all_is_over_before_kubernetes_notices() -> None:
    plan = PowerPlan(seed=2, runs=4, service=FAST, faults=(PowerFault.OFF,))

    async def main(clock: VirtualClock) -> Sequence[Cycle]:
        async with embedded_ward(clock, FAST) as ward:
            return await go_through(ward, plan, lambda _: None)

    report = PowerReport(
        kubernetes="", setting=plan.setting, seed=2, cycles=tuple(run(main)), is_fast=True, from_fault=True
    )
    assert broken_promises(report) == []
    for summary in row_of(plan, report).summaries():
        assert summary.runs == 4
        assert summary.text(Phase.UNKNOWN) == "-"
        assert 12 < summary.seconds[Phase.VERDICT] < summary.seconds[Phase.FENCED] < summary.seconds[Phase.RUNNING]
