"""Little stories about workloads, played on the real control plane and on the simulated one: they must end alike.

Kubelets and the storage driver are played by hand on both. Where the two differ, the simulated one is wrong.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.kube.client import Client, Deletion, Merge
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import Kind, unstructured
from defib.model.meta import Unstructured
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.unit.simulate_workloads import stories_of_controllers as controllers
from tests.unit.simulate_workloads import stories_of_places as places
from tests.unit.simulate_workloads.stage import (
    ATTACHMENTS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    STATEFUL_SETS,
    Stage,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

NAMESPACES = unstructured("", "v1", "namespaces", "Namespace", namespaced=False)
# Nobody beats for the nodes here, and none shall be given up for that.
SETTINGS = Settings(controller_manager=("--node-monitor-grace-period=1h", "--node-startup-grace-period=1h"))

Outcome = Any
Story = Callable[[Stage], Awaitable[Outcome]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, SETTINGS) as cluster:
        yield cluster


@asynccontextmanager
async def a_real_stage(cluster: ControlPlane, namespace: str) -> AsyncIterator[Stage]:
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, os.environ, clock), clock)
    try:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        await cluster.wait_for_namespace(namespace)
        yield Stage(client, namespace)
    finally:
        # The next story brings its own nodes, and nothing of this one may be placed there.
        for kind in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, NODES, PODS, ATTACHMENTS):
            await _delete_all(client, kind)
        await client.close()


async def _delete_all(client: Client, kind: Kind[Unstructured]) -> None:
    for item in (await client.list_all(kind)).items:
        how = Deletion(uid=item.uid, propagation="Background", grace_seconds=0)
        with suppress(NotFound):
            await client.delete(kind.of(item), how)
            if item.metadata.finalizers:
                await client.patch(kind.of(item), Merge({"metadata": {"finalizers": None}}))


async def assert_alike(cluster: ControlPlane, story: Story) -> Outcome:
    """Plays a story on both; what came of it."""
    simulated: list[Outcome] = []

    async def note(stage: VirtualStage) -> None:
        simulated.append(await story(stage))

    await asyncio.to_thread(play, note)
    async with a_real_stage(cluster, story.__name__.replace("_", "-")) as stage:
        real = await story(stage)
    assert simulated == [real]
    return real


STORIES = (
    controllers.scaled_deployment,
    controllers.updated_deployment,
    controllers.stateful_order,
    controllers.stateful_parallel,
    controllers.stateful_failed_pod,
    places.taint_with_patience,
    places.moving_disk,
    places.lost_disk,
    places.failed_pod_with_disk,
    places.first_consumer,
    controllers.daemons,
    controllers.job,
    controllers.job_pod_deleted,
    places.unschedulable,
    places.keeping_apart,
    places.out_of_service,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
async def test_a_story_ends_alike_on_both(cluster: ControlPlane, story: Story) -> None:
    assert await assert_alike(cluster, story)
