"""Measures: every mode, every fault, as many times as asked, one after the other on one control plane."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from defib.clock import Clock
from testbed.scenario.hollow_cluster import alongside
from testbed.scenario.profiles import PROFILES, Profile
from testbed.scenario.stage import Stage
from testbed.scenario.story import Timers
from tests.bench_failover.modes import Mode
from tests.bench_failover.results import Failover, Row, Workload
from tests.bench_failover.ward import Fault, Ward, bare_cluster

LIMITS = {Timers.COMPRESSED: 45.0, Timers.DEFAULT: 900.0}
AFTER_SECONDS = 1.0  # two writers need a moment to get in each other's way


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    modes: tuple[Mode, ...]
    timers: Timers
    profile: Profile
    """With which the control plane was started."""
    runs: int
    limit_seconds: float
    faults: tuple[Fault, ...] = tuple(Fault)

    def rounds(self) -> Iterator[tuple[int, Mode, Fault]]:
        runs = range(1, self.runs + 1)
        return ((run, mode, fault) for run in runs for mode in self.modes for fault in self.faults)

    def row(self, mode: Mode, failovers: Sequence[Failover]) -> Row:
        return Row(
            mode=mode.name,
            says=mode.says,
            setting=str(self.profile),
            limit_seconds=self.limit_seconds,
            decides=mode.decides,
            faults=tuple(fault.value for fault in self.faults),
            failovers=tuple(failovers),
        )


async def measure(stage: Stage, clock: Clock, plan: Plan, say: Callable[[str], None]) -> Sequence[Row]:
    failovers: dict[Mode, list[Failover]] = {mode: [] for mode in plan.modes}
    for number, (run, mode, fault) in enumerate(plan.rounds(), 1):
        say(f"{number}/{len(list(plan.rounds()))}  {mode.name}, {fault.value}: {mode.says}")
        async with stage.open(bare_cluster(f"run-{number}", plan.timers)) as scene:
            ward = Ward(scene)
            await ward.arrange()
            async with alongside(_keep(mode, ward)):
                # A heartbeat may just have been sent, or be just about due: both are as likely as in life.
                await asyncio.sleep(clock.jitter(PROFILES[plan.timers].nodes.renew_seconds))
                ward.strike(fault)
                await scene.sight.until(ward.is_over, plan.limit_seconds)
                await asyncio.sleep(AFTER_SECONDS)  # for the disk's verdict
            failovers[mode] += _failovers(ward, fault, run)
    return [plan.row(mode, measured) for mode, measured in failovers.items()]


async def _keep(mode: Mode, ward: Ward) -> None:
    await mode.act(ward)


def _failovers(ward: Ward, fault: Fault, run: int) -> Iterator[Failover]:
    for workload in Workload:
        yield Failover(
            fault=fault.value,
            workload=workload,
            run=run,
            seconds={phase: round(seconds, 2) for phase, seconds in ward.marks[workload].items()},
            corrupted=ward.corrupted() if workload is Workload.STATEFUL_SET else None,
        )
