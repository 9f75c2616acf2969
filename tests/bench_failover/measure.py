"""Measures: every mode, every fault, as many times as asked, one after the other on one control plane."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import msgspec

from defib.clock import Clock
from testbed.scenario.hollow_cluster import alongside
from testbed.scenario.profiles import PROFILES
from testbed.scenario.stage import Stage
from testbed.scenario.story import Timers
from tests.bench_failover.modes import Mode
from tests.bench_failover.results import Failover, Workload
from tests.bench_failover.ward import Fault, Ward, bare_cluster

LIMITS = {Timers.COMPRESSED: 45.0, Timers.DEFAULT: 900.0}
AFTER_SECONDS = 1.0  # two writers need a moment to get in each other's way


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    modes: tuple[Mode, ...]
    timers: Timers
    runs: int
    limit_seconds: float

    def rounds(self) -> Iterator[tuple[int, Mode, Fault]]:
        return ((run, mode, fault) for run in range(1, self.runs + 1) for mode in self.modes for fault in Fault)


async def measure(stage: Stage, clock: Clock, plan: Plan, say: Callable[[str], None]) -> Sequence[Failover]:
    failovers: list[Failover] = []
    for number, (run, mode, fault) in enumerate(plan.rounds(), 1):
        say(f"{number}/{len(list(plan.rounds()))}  {mode.name}, {fault.value}: {mode.says}")
        name = f"run-{number}-{fault.value}-{mode.name}".replace(" ", "-")
        async with stage.open(bare_cluster(name, plan.timers)) as scene:
            ward = Ward(scene)
            await ward.arrange()
            async with alongside(_keep(mode, ward)):
                # A heartbeat may just have been sent, or be just about due: both are as likely as in life.
                await asyncio.sleep(clock.jitter(PROFILES[plan.timers].nodes.renew_seconds))
                ward.strike(fault)
                await scene.sight.until(ward.is_over, plan.limit_seconds)
                await asyncio.sleep(AFTER_SECONDS)  # for the disk's verdict
            failovers += _failovers(ward, mode, fault, run)
    return failovers


async def _keep(mode: Mode, ward: Ward) -> None:
    await mode.act(ward)


def _failovers(ward: Ward, mode: Mode, fault: Fault, run: int) -> Iterator[Failover]:
    for workload in Workload:
        yield Failover(
            mode=mode.name,
            fault=fault.value,
            workload=workload,
            run=run,
            seconds={phase: round(seconds, 2) for phase, seconds in ward.marks[workload].items()},
            corrupted=ward.corrupted() if workload is Workload.STATEFUL_SET else None,
        )
