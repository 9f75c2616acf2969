"""The testbed can fail: without care a database never moves, and with a careless move two of them write to one disk.

Everything here is what Kubernetes does by itself; no operator runs. Timers are compressed, their proportions are not.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from defib.hollow.disk import Disk
from defib.hollow.objects import PODS, Pod
from defib.kube.client import Deletion
from testbed.programs import Programs
from tests.e2e.hollow_cluster import (
    GRACE_SECONDS,
    TOLERATION_SECONDS,
    HollowCluster,
    eventually,
    hollow_cluster,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(90), pytest.mark.asyncio(loop_scope="module")]

MANY_TIMES = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[HollowCluster]:
    async with hollow_cluster(programs) as cluster:
        yield cluster


async def a_database(cluster: HollowCluster, app: str) -> tuple[Pod, Disk]:
    """Its pod, and its disk, which it already writes to."""
    await cluster.make_database(app)
    await runs(cluster, app)
    pod = (await cluster.pods(app))[0]
    disk = await cluster.disk_of(f"data-{app}-0")
    assert [writer.uid for writer in disk.writers()] == [pod.uid]
    return pod, disk


async def runs(cluster: HollowCluster, app: str, *, without: str = "") -> None:
    async def holds() -> bool:
        return bool(await cluster.running(app, without=without))

    await eventually(holds)


async def is_given_up(cluster: HollowCluster, node: str) -> None:
    async def holds() -> bool:
        return (await cluster.node(node)).ready == "Unknown"

    await eventually(holds)


async def move_by_force(cluster: HollowCluster, pod: Pod, app: str) -> None:
    """Force delete the pod and free its volume without asking whether the node still lives."""
    await is_given_up(cluster, pod.spec.node_name)
    await cluster.take_out_of_service(pod.spec.node_name)
    await cluster.force_delete(pod)
    await runs(cluster, app, without=pod.spec.node_name)


async def test_a_database_moves_in_good_order_when_its_pod_is_deleted(cluster: HollowCluster) -> None:
    pod, disk = await a_database(cluster, "orderly")
    await cluster.client.delete(PODS.of(pod), Deletion(uid=pod.uid))

    async def moved() -> bool:
        return pod.uid not in {running.uid for running in await cluster.running("orderly")}

    await eventually(moved)
    await runs(cluster, "orderly")
    assert len(disk.holds()) == 2
    verdict = disk.verdict()
    assert not verdict.corrupted, verdict.story


async def test_with_nobody_to_help_a_database_never_leaves_a_node_without_power(cluster: HollowCluster) -> None:
    pod, disk = await a_database(cluster, "stranded")
    node = cluster.nodes[pod.spec.node_name]
    node.machine.set_power(False)
    await is_given_up(cluster, node.name)

    async def is_terminating() -> bool:
        known = await cluster.pod("stranded-0")
        return known is not None and known.is_deleted

    await eventually(is_terminating)
    await asyncio.sleep(MANY_TIMES * TOLERATION_SECONDS + GRACE_SECONDS)  # that nothing happens takes its time
    known = await cluster.pod("stranded-0")
    assert known
    assert (known.uid, known.is_deleted, known.spec.node_name) == (pod.uid, True, node.name)
    assert [one.spec.node_name for one in await cluster.attachments() if one.volume in _volumes(disk)] == [node.name]
    assert disk.writers() == []
    node.machine.set_power(True)
    await runs(cluster, "stranded")
    assert not disk.verdict().corrupted


async def test_a_naive_force_delete_on_a_partitioned_node_corrupts_the_disk(cluster: HollowCluster) -> None:
    pod, disk = await a_database(cluster, "torn")
    node = cluster.nodes[pod.spec.node_name]
    node.partition()
    await move_by_force(cluster, pod, "torn")
    assert len({writer.node for writer in disk.writers()}) == 2
    verdict = disk.verdict()
    assert verdict.corrupted, verdict.story
    assert node.name in verdict.story
    node.heal()


async def test_the_same_force_delete_after_the_power_went_leaves_the_disk_intact(cluster: HollowCluster) -> None:
    pod, disk = await a_database(cluster, "dead")
    node = cluster.nodes[pod.spec.node_name]
    node.machine.set_power(False)
    await move_by_force(cluster, pod, "dead")
    assert [writer.node for writer in disk.writers()] != [node.name]
    verdict = disk.verdict()
    assert not verdict.corrupted, verdict.story
    assert len(disk.holds()) == 2, verdict.story


def _volumes(disk: Disk) -> set[str]:
    return {disk.handle.replace("disk-", "pvc-", 1)}
