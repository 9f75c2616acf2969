"""The stories that carry the claims of this project, told on a real control plane with compressed timers.

The same files run in virtual time in tests/unit/testbed_scenario; here the real controllers and scheduler must agree.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.scenario.control_plane import ControlPlaneStage
from testbed.scenario.parse import parse
from testbed.scenario.profiles import PROFILES, has_unmount_flag
from testbed.scenario.runner import expect_story
from testbed.scenario.story import Timers

pytestmark = [pytest.mark.real, pytest.mark.timeout(90), pytest.mark.asyncio(loop_scope="module")]

SCENARIOS = Path(__file__).parents[1] / "scenarios"
STORIES = (
    "deployment-survives-power-off",
    "statefulset-does-not-move",
    "out-of-service-after-power-off-is-clean",
    "out-of-service-under-partition-corrupts",
    "drained-node",
)
WITH_DEFIB = (
    "nhc-one-node-dies",
    "nhc-a-finalizer-keeps-its-node-unhealthy",
    "nhc-a-template-comes-and-goes",
    "nhc-a-kind-comes-and-goes",
    "nhc-08-8-never-two-for-one",
)
WITH_POWER = (
    "power-a-hung-node",
    "power-a-partitioned-node",
    "power-a-person-confirms",
    "power-a-restart-in-every-phase",
)
WITH_FAILOVER = (
    "failover-labelled-pods-leave-at-once",
    "failover-a-partition-waits-for-a-proof",
    "failover-a-proof-by-power-off",
    "failover-goes-on-to-power-at-once",
    "failover-a-person-confirms",
    "failover-a-taint-drives-pods-out",
    "failover-half-of-all-nodes-is-nobodys-failure",
)
WAITS_FOR_UNMOUNT = ("force-delete-under-partition-corrupts", "failover-without-a-proof-corrupts")


@pytest.fixture(scope="module")
def unmount_flag(programs: Programs) -> bool:
    return has_unmount_flag(programs)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(
    programs: Programs, unmount_flag: bool, request: pytest.FixtureRequest
) -> AsyncIterator[ControlPlaneStage]:
    failed_before = request.session.testsfailed
    settings = PROFILES[Timers.COMPRESSED].settings(unmount_flag=unmount_flag)
    async with ControlPlane(programs, settings) as cluster:
        await cluster.wait_for_namespace("default")
        yield ControlPlaneStage(cluster, SystemClock())
        if request.session.testsfailed > failed_before:
            cluster.keep()


@pytest.mark.parametrize("name", STORIES)
async def test_a_story_ends_as_it_says_on_a_real_control_plane(stage: ControlPlaneStage, name: str) -> None:
    await tell_and_expect(stage, name)


@pytest.mark.parametrize("name", WITH_DEFIB)
async def test_a_story_with_defib_ends_as_it_says_on_a_real_control_plane(stage: ControlPlaneStage, name: str) -> None:
    await tell_and_expect(stage, name)


@pytest.mark.parametrize("name", WITH_POWER)
async def test_a_story_with_machines_ends_as_it_says_on_a_real_control_plane(
    stage: ControlPlaneStage, name: str
) -> None:
    await tell_and_expect(stage, name)


@pytest.mark.parametrize("name", WITH_FAILOVER)
async def test_a_story_of_pods_that_leave_ends_as_it_says_on_a_real_control_plane(
    stage: ControlPlaneStage, name: str
) -> None:
    await tell_and_expect(stage, name)


@pytest.mark.parametrize("name", WAITS_FOR_UNMOUNT)
async def test_a_story_that_waits_for_an_unmount_ends_as_it_says(
    stage: ControlPlaneStage, unmount_flag: bool, name: str
) -> None:
    if not unmount_flag:
        why = "this controller manager waits 360 s for an unmount, whatever the story's timers say"
        pytest.fail(why) if os.environ.get("CI") == "true" else pytest.skip(why)
    await tell_and_expect(stage, name)


async def tell_and_expect(stage: ControlPlaneStage, name: str) -> None:
    path = SCENARIOS / f"{name}.story"
    told = await expect_story(parse(path.read_text(), f"tests/scenarios/{path.name}"), stage)
    assert told.entries[-1].text == "ends as it says"
