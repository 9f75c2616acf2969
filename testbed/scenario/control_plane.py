"""The stage on a real control plane, in real time. Many stories may follow each other on one."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from defib.clock import Clock
from defib.hollow.objects import ATTACHMENTS, CLAIMS, PODS
from defib.kube.client import Client, Deletion, Merge, Scope
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import LEASES, NODE_INCIDENTS, NODES, Kind, R
from defib.kube.transport import Transport
from defib.model import medik8s
from testbed.cluster import ControlPlane
from testbed.scenario.hollow_cluster import HollowCluster, hollow_cluster, until
from testbed.scenario.manifests import BUDGETS, DAEMON_SETS, DEPLOYMENTS, NAMESPACES, STATEFUL_SETS, blueprints
from testbed.scenario.perform_remediation import delete_if_there
from testbed.scenario.profiles import PROFILES
from testbed.scenario.remediation_manifests import (
    BRAKE,
    CHECKS,
    CLUSTER_VERSIONS,
    CONFIG_MAPS,
    DEFIB_NAMESPACE,
    MACHINE_HEALTH_CHECKS,
    POLICIES,
    UPGRADE,
    remediations_of,
    templates_of,
)
from testbed.scenario.sight import EVENTS
from testbed.scenario.stage import Scene, scene_of
from testbed.scenario.story import Remediator, Story

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
        client = Client(await self._connect(), clock)
        try:
            await client.create(NAMESPACES, {"metadata": {"name": story.name}})
            await self._cluster.wait_for_namespace(story.name)
            async with hollow_cluster(client, clock, profile, blueprints(story)) as hollow:
                async with scene_of(story, client, hollow, self._connect) as scene:
                    yield scene
                if story.operator:
                    await clear_remediation(client, story.name)
                await clear(hollow, story.name)
        finally:
            await client.close()

    async def _connect(self) -> Transport:
        return await connect(self._cluster.kubeconfig, None, os.environ, self._clock)


async def clear_remediation(client: Client, namespace: str) -> None:
    """Nobody is left who would let a remediation go, or act on a check."""
    here = Scope(namespace=namespace)
    for remediator in Remediator:
        with suppress(NotFound):  # a story may have taken the kind away
            for item in (await client.list_all(remediations_of(remediator), here)).items:
                await client.patch(remediations_of(remediator).of(item), Merge({"metadata": {"finalizers": []}}))
            await _delete_all(client, remediations_of(remediator), here)
            await _delete_all(client, templates_of(remediator), here)
    for kind in (CLUSTER_VERSIONS, MACHINE_HEALTH_CHECKS):
        with suppress(NotFound):  # only where a story was about OpenShift
            await _delete_all(client, kind, Scope())
    await _delete_all(client, CHECKS, Scope())
    await _delete_all(client, POLICIES, here)
    await _delete_all(client, NODE_INCIDENTS, Scope())
    await _delete_all(client, LEASES, Scope(namespace=medik8s.LOCK_NAMESPACE))
    await _delete_all(client, EVENTS, Scope(fields=f"involvedObject.kind={medik8s.CHECK_KIND}"))
    for name in (BRAKE, UPGRADE):
        await delete_if_there(client, CONFIG_MAPS.at(name, DEFIB_NAMESPACE))


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
