"""The stage on a real control plane, in real time. Many stories may follow each other on one."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from defib.clock import Clock
from defib.hollow.objects import ATTACHMENTS, CLAIMS, PODS
from defib.kube.client import Client, Deletion, Scope
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import NODES, Kind, R
from testbed.cluster import ControlPlane
from testbed.scenario.hollow_cluster import HollowCluster, alongside, hollow_cluster, until
from testbed.scenario.log_book import LogBook
from testbed.scenario.manifests import BUDGETS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, STATEFUL_SETS, blueprints
from testbed.scenario.profiles import PROFILES
from testbed.scenario.sight import Sight
from testbed.scenario.stage import Scene
from testbed.scenario.story import Story

CLEAR_SECONDS = 20.0
WORKLOADS = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, BUDGETS)


class ControlPlaneStage:
    """The control plane must have been started with the settings of the story's profile."""

    def __init__(self, cluster: ControlPlane, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    @property
    def name(self) -> str:
        return "a real control plane"

    @asynccontextmanager
    async def open(self, story: Story) -> AsyncIterator[Scene]:
        clock, profile = self._clock, PROFILES[story.timers]
        client = Client(await connect(self._cluster.kubeconfig, None, os.environ, clock), clock)
        try:
            await client.create(NAMESPACES, {"metadata": {"name": story.name}})
            await self._cluster.wait_for_namespace(story.name)
            async with hollow_cluster(client, clock, profile, blueprints(story)) as hollow:
                sight = Sight(client, clock, hollow.disks, story.name, LogBook(clock))
                async with alongside(sight.run()):
                    yield Scene(client=client, clock=clock, nodes=hollow.nodes, sight=sight, profile=profile)
                await clear(hollow, story.name)
        finally:
            await client.close()


async def clear(cluster: HollowCluster, namespace: str) -> None:
    """Removes what the controllers of the next story would otherwise have to deal with. The storage helps, so it still runs."""
    client, here = cluster.client, Scope(namespace=namespace)
    for kind in WORKLOADS:
        await _delete_all(client, kind, here, propagation="Background")

    async def is_clear() -> bool:
        pods = await _delete_all(client, PODS, here, grace_seconds=0)
        attachments = await _delete_all(client, ATTACHMENTS, Scope())
        return pods + attachments == 0

    assert await until(is_clear, CLEAR_SECONDS), f"the pods and attachments of {namespace} did not go away"
    await _delete_all(client, CLAIMS, here)
    await _delete_all(client, NODES, Scope())


async def _delete_all(
    client: Client, kind: Kind[R], scope: Scope, *, grace_seconds: int | None = None, propagation: str = ""
) -> int:
    """How many there were."""
    found = (await client.list_all(kind, scope)).items
    for item in found:
        with suppress(NotFound):
            how = Deletion(uid=item.uid, grace_seconds=grace_seconds, propagation=propagation)
            await client.delete(kind.of(item), how)
    return len(found)
