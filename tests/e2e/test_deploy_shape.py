"""deploy/install.yaml under the real scheduler and the real controllers: where its replicas are, and that one always is."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from defib.hollow.objects import PODS, Pod
from defib.hollow.site import in_zones
from defib.kube.client import Client, Deletion, Evicted, Merge, Scope
from defib.kube.kinds import NODES
from testbed.programs import Programs
from tests.e2e.hollow_cluster import DEPLOYMENTS, HollowCluster, eventually, hollow_cluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

DEPLOY = Path(__file__).parents[2] / "deploy"
HOME = "defib-system"
DEFIB = DEPLOYMENTS.at("defib", HOME)
PATIENCE_SECONDS = 20.0
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[HollowCluster]:
    """Four nodes in two zones. What is not ready for long enough is waited for in a hurry."""
    async with hollow_cluster(programs, in_zones("ab", 2)) as cluster:
        await installed(cluster)
        await cluster.client.patch(DEFIB, Merge({"spec": {"minReadySeconds": 1}}))
        yield cluster


async def installed(cluster: HollowCluster) -> None:
    process = await asyncio.create_subprocess_exec(
        cluster.plane.kubectl,
        f"--kubeconfig={cluster.plane.kubeconfig}",
        "apply",
        f"--filename={DEPLOY / 'install.yaml'}",
        stdout=PIPE,
        stderr=STDOUT,
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert "Warning" not in said.decode()
    await eventually(lambda: has_replicas(cluster, 2))


async def replicas(client: Client) -> list[Pod]:
    """Those that run and are not on their way out."""
    pods = (await client.list_all(PODS, Scope(namespace=HOME, labels="app.kubernetes.io/name=defib"))).items
    return [pod for pod in pods if pod.phase == "Running" and not pod.is_deleted]


async def has_replicas(cluster: HollowCluster, count: int) -> bool:
    return len(await replicas(cluster.client)) == count


async def places(cluster: HollowCluster) -> set[str]:
    return {pod.spec.node_name for pod in await replicas(cluster.client)}


async def set_node(cluster: HollowCluster, name: str, **spec: Any) -> None:
    await cluster.client.patch(NODES.at(name), Merge({"spec": spec}))


async def is_let_go(cluster: HollowCluster, pod: Pod) -> bool:
    """By the disruption budget, when a drain asks for it."""
    return isinstance(await cluster.client.evict(PODS.of(pod), Deletion(uid=pod.uid)), Evicted)


def zone_of(node: str) -> str:
    return node.rpartition("-")[0]


async def test_two_replicas_are_on_two_nodes_in_two_zones(cluster: HollowCluster) -> None:
    assert {zone_of(node) for node in await places(cluster)} == {"zone-a", "zone-b"}


async def test_a_node_is_drained_of_one_replica_at_a_time(cluster: HollowCluster) -> None:
    one, other = await replicas(cluster.client)
    await eventually(lambda: is_let_go(cluster, one))
    assert not await is_let_go(cluster, other)
    await eventually(lambda: has_replicas(cluster, 2))


async def test_a_new_version_replaces_the_old_one_without_a_moment_without_two(cluster: HollowCluster) -> None:
    old = {pod.uid for pod in await replicas(cluster.client)}
    template = {"metadata": {"annotations": {"version": "next"}}}
    await cluster.client.patch(DEFIB, Merge({"spec": {"template": template}}))
    seen = [old]
    async with asyncio.timeout(60):
        while seen[-1] & old or len(seen[-1]) > 2:
            seen.append({pod.uid for pod in await replicas(cluster.client)})
    assert min(len(one) for one in seen) == 2
    assert len(await places(cluster)) == 2, "the new ones were spread around the old ones"


async def test_when_a_node_dies_there_is_a_standby_again_on_another_one(cluster: HollowCluster) -> None:
    victim = min(await places(cluster))
    cluster.nodes[victim].machine.set_power(False)

    async def replaced() -> bool:
        there = await places(cluster)
        return len(there) == 2 and victim not in there

    try:
        await eventually(replaced, within=45)
    finally:
        cluster.nodes[victim].machine.set_power(True)
        await eventually(cluster.can_be_scheduled_on)


async def test_when_only_a_control_plane_node_is_left_both_run_there(cluster: HollowCluster) -> None:
    last, *others = sorted(cluster.nodes)
    await set_node(cluster, last, taints=[CONTROL_PLANE])
    for node in others:
        await set_node(cluster, node, unschedulable=True)
    for pod in await replicas(cluster.client):
        await cluster.client.delete(PODS.of(pod), Deletion(uid=pod.uid))

    async def are_there() -> bool:
        return await has_replicas(cluster, 2) and await places(cluster) == {last}

    try:
        await eventually(are_there)
    finally:
        await set_node(cluster, last, taints=None)
        for node in others:
            await set_node(cluster, node, unschedulable=False)


async def test_a_cluster_of_one_node_has_both_on_it(programs: Programs) -> None:
    async with hollow_cluster(programs, in_zones("a", 1)) as small:
        await installed(small)
        assert await places(small) == set(small.nodes)
