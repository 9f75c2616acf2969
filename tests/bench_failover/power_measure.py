"""Measures what Defib adds: from its verdict to databases that run elsewhere, on one control plane, run after run."""

import os
from collections.abc import Callable, Sequence

import msgspec

from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.http import connect
from defib.kube.transport import Transport
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.scenario.hollow_cluster import alone
from tests.bench_failover.power_draws import Draw, Hardware, PowerFault, draws
from tests.bench_failover.power_results import Cycle, Moment, PowerReport
from tests.bench_failover.power_ward import PowerWard, new_machines, power_ward
from tests.bench_failover.power_ways import over_redfish
from tests.bench_failover.results import Failover, Row, Workload
from tests.bench_failover.services import FROM_VERDICT, Service


class PowerPlan(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    runs: int
    hardware: Hardware = Hardware()
    service: Service = FROM_VERDICT
    faults: tuple[PowerFault, ...] = tuple(PowerFault)

    @property
    def draws(self) -> tuple[Draw, ...]:
        return draws(self.seed, self.runs, self.hardware, self.faults)

    @property
    def setting(self) -> str:
        storage = self.service.profile.storage
        return (
            f"{self.hardware}; attaching and detaching take {storage.attach_seconds:g} to "
            f"{2 * storage.attach_seconds:g} s; everything else as Kubernetes has it by default"
        )


async def measure_with_defib(
    programs: Programs, clock: Clock, plan: PowerPlan, say: Callable[[str], None]
) -> PowerReport:
    """On the control plane as it comes: the wait for an unmount is the one that is compiled in."""
    async with ControlPlane(programs, plan.service.profile.settings(unmount_flag=False)) as cluster:
        await cluster.wait_for_namespace("default")

        async def line() -> Transport:
            return await connect(cluster.kubeconfig, None, os.environ, clock)

        client, machines = Client(await line(), clock), new_machines(clock)
        try:
            async with (
                over_redfish(machines, clock, plan.service) as way,
                power_ward(client, line, clock, machines, way) as ward,
            ):
                cycles = await go_through(ward, plan, say)
        except BaseExceptionGroup as errors:
            raise alone(errors) from None
        finally:
            await client.close()
        return PowerReport(
            kubernetes=await cluster.version(),
            setting=plan.setting,
            seed=plan.seed,
            cycles=tuple(cycles),
            is_fast=plan.service.has_fast_path,
            from_fault=plan.service.from_fault,
        )


async def go_through(ward: PowerWard, plan: PowerPlan, say: Callable[[str], None]) -> Sequence[Cycle]:
    cycles: list[Cycle] = []
    for draw in plan.draws:
        cycle = await ward.go_through(draw)
        say(f"{draw.run}/{plan.runs}  {plan.service.name}, {cycle.fault} {cycle.victim}: {cycle}")
        cycles.append(cycle)
        if Moment.BACK not in cycle.seconds:
            say(f"{cycle.victim} did not come back, so this was the last run; what was seen:\n{ward.book}")
            break
    return cycles


def row_of(plan: PowerPlan, report: PowerReport) -> Row:
    """The same as a row of the table that has all modes: only what was counted from the fault has one."""
    return Row(
        mode=plan.service.title,
        says=plan.service.says,
        setting=report.setting,
        limit_seconds=plan.service.limit_seconds,
        decides=True,
        faults=tuple(fault.value for fault in plan.faults),
        failovers=tuple(
            Failover(
                fault=cycle.fault,
                workload=workload,
                run=cycle.run,
                seconds=seconds,
                corrupted=bool(cycle.corrupted) if workload is Workload.STATEFUL_SET else None,
            )
            for cycle in report.cycles
            for workload, seconds in cycle.phases.items()
        ),
    )
