"""The operator dies around its power commands, with real protocols and programs between it and the machine.

The cluster is on the embedded server, in real time; many of them live side by side. What the operator had sent when it
died is on its way or has arrived, as it would be with a real BMC.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from defib.clock import SystemClock
from defib.hollow.attacher import StorageTimers
from defib.hollow.machine import Delays, Machine
from defib.hollow.timers import Timers
from defib.power.fence_agent import FenceAgent
from defib.power.ipmi import Ipmi
from defib.power.redfish import Redfish
from defib.power.webhook import Webhook
from testbed.scenario.profiles import Profile
from tests.contract.power.subjects import (
    Stage as Subjects,
)
from tests.contract.power.subjects import (
    by_fence_ipmilan,
    by_fence_redfish,
    by_ipmi,
    by_redfish,
    by_webhook,
)
from tests.mortal_operator import Doom
from tests.power_cycle_crash import WORKLOADS, Plot, begin, live_through
from tests.power_cycle_stage import NODE_NAMES, VICTIM, Make, Pace, Way, a_stage, secret

pytestmark = pytest.mark.timeout(120, func_only=True)

REAL_TIME = Pace(
    profile=Profile(
        name="hasty",
        nodes=Timers(
            renew_seconds=0.4,
            status_seconds=10.0,
            boot_seconds=0.5,
            lease_seconds=2,
            start_seconds=0.1,
            stop_seconds=0.1,
            retry_seconds=0.2,
            crash_seconds=0.5,
            monitor_seconds=0.3,
            grace_seconds=2.5,
        ),
        storage=StorageTimers(provision_seconds=0.05, attach_seconds=0.1, detach_seconds=0.1),
        toleration_seconds=30,
        unmount_seconds=1.0,
        evictions_per_second=100.0,
    ),
    down_seconds=3.5,
    look_seconds=0.1,
    patience_seconds=60.0,
    calm_seconds=1.0,
    attach_poll_seconds=1e-6,  # the simulated controller keeps its rhythm to the microsecond, which only virtual time does
)
QUICK = Delays(on_seconds=0.2, off_seconds=0.2, soft_off_seconds=0.5)
OFF, ON = f"power off {VICTIM}", f"power on {VICTIM}"
AROUND_POWER = tuple(Doom(words=words, after=after) for words in (OFF, ON) for after in (False, True))
AMONG_WRITES = tuple(Doom(at=at, after=at % 2 == 0) for at in (3, 7, 11, 15, 18, 22, 26, 30))
CLUSTERS_AT_ONCE = 24


class Kind(msgspec.Struct, frozen=True):
    """A driver as each operator makes it, and the machines behind it."""

    name: str
    make: Make
    subjects: Subjects


async def crash(kind: Kind, plot: Plot, doom: Doom) -> list[str]:
    """What is left after it, each with the story in which it is."""
    clock = SystemClock()
    machines = [Machine(name, clock, delays=QUICK) for name in NODE_NAMES]
    async with (
        kind.subjects(machines[:1]) as subject,
        a_stage(clock, machines=machines, drivers={kind.name: kind.make}, pace=REAL_TIME) as stage,
    ):
        target = subject.targets[VICTIM]
        texts = {"username": target.credentials.username.reveal(), "password": target.credentials.password.reveal()}
        stage.server.put("secrets", secret("the-way", texts))
        power = {
            "driver": kind.name,
            "address": target.address,
            "credentials": {"name": "the-way"},
            "options": dict(target.options),
        }
        await begin(stage, plot, Way(name=kind.name, power=power))
        told = await live_through(stage, doom)
        left = told.left if told.was_struck else ["it never came to that", *told.left]
        return [f"{plot}; {doom}: {one}" for one in left]


async def crashes(kind: Kind, dooms: Iterable[Doom]) -> list[str]:
    """Of as many clusters at once as this computer can keep up with."""
    places = asyncio.Semaphore(CLUSTERS_AT_ONCE)

    async def one(plot: Plot, doom: Doom) -> list[str]:
        async with places:
            return await crash(kind, plot, doom)

    cases = [(workloads, doom) for doom in dooms for workloads in WORKLOADS]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                one(Plot(way=kind.name, workloads=workloads, fault=("hangs", "is cut off")[number // 2 % 2]), doom)
            )
            for number, (workloads, doom) in enumerate(cases)
        ]
    return [left for task in tasks for left in task.result()]


NATIVE = {
    "redfish": Kind("redfish", lambda: Redfish(SystemClock()), by_redfish),
    "ipmi": Kind("ipmi", lambda: Ipmi(SystemClock()), by_ipmi),
    "webhook": Kind("webhook", lambda: Webhook(SystemClock()), by_webhook),
}
AGENTS = {"fence_ipmilan": by_fence_ipmilan, "fence_redfish": by_fence_redfish}


@pytest.mark.parametrize("name", NATIVE)
async def test_a_crash_changes_nothing_in_the_end(name: str) -> None:
    assert await crashes(NATIVE[name], (*AROUND_POWER, *AMONG_WRITES)) == []


@pytest.mark.parametrize("name", AGENTS)
async def test_a_crash_around_a_fence_agent_changes_nothing_in_the_end(name: str, fence_agents: Path) -> None:
    def make() -> FenceAgent:
        return FenceAgent(SystemClock(), directory=fence_agents)

    assert await crashes(Kind("fence-agent", make, AGENTS[name](fence_agents)), AROUND_POWER) == []
