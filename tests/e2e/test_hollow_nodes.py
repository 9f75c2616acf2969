"""Hollow nodes under the real controller manager and scheduler: pods come, go, and leave a dead node."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from defib.hollow.objects import PODS
from defib.kube.client import Deletion
from testbed.programs import Programs
from tests.e2e.hollow_cluster import HollowCluster, eventually, hollow_cluster

pytestmark = [pytest.mark.real, pytest.mark.timeout(90), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs) -> AsyncIterator[HollowCluster]:
    async with hollow_cluster(programs) as cluster:
        yield cluster


async def test_a_deployment_s_pods_run_on_hollow_nodes_and_leave_when_they_are_deleted(cluster: HollowCluster) -> None:
    await cluster.deploy("web", 12)

    async def all_run() -> bool:
        return len(await cluster.running("web")) == 12

    await eventually(all_run)
    pods = await cluster.running("web")
    assert len({pod.spec.node_name for pod in pods}) > 1, "the scheduler found the nodes equal"
    first = pods[0]
    await cluster.force_delete(first)
    for pod in pods[1:4]:
        await cluster.client.delete(PODS.of(pod), Deletion(uid=pod.uid))

    async def replaced() -> bool:
        known = {pod.uid for pod in await cluster.running("web")}
        return len(known) == 12 and not known & {pod.uid for pod in pods[:4]}

    await eventually(replaced)
    on_nodes = {uid for node in cluster.nodes.values() for uid in node.containers()}
    assert {pod.uid for pod in await cluster.running("web")} <= on_nodes


async def test_the_pods_of_a_node_that_lost_power_run_elsewhere_and_it_comes_back_empty(cluster: HollowCluster) -> None:
    await cluster.deploy("moving", 12)

    async def all_run() -> bool:
        return len(await cluster.running("moving")) == 12

    await eventually(all_run)
    victim = (await cluster.running("moving"))[0].spec.node_name
    boot = cluster.nodes[victim].boot_id
    cluster.nodes[victim].machine.set_power(False)

    async def given_up() -> bool:
        return (await cluster.node(victim)).ready == "Unknown"

    async def run_elsewhere() -> bool:
        return len(await cluster.running("moving", without=victim)) == 12

    await eventually(given_up)
    await eventually(run_elsewhere)
    stranded = [pod for pod in await cluster.pods("moving") if pod.spec.node_name == victim]
    assert stranded, "nobody was there to confirm their end"
    cluster.nodes[victim].machine.set_power(True)

    async def back() -> bool:
        node = await cluster.node(victim)
        left = {pod.uid for pod in await cluster.pods("moving")} & {pod.uid for pod in stranded}
        return node.ready == "True" and not left and not node.spec.taints

    await eventually(back)
    assert (await cluster.node(victim)).status.node_info.boot_id == cluster.nodes[victim].boot_id != boot


async def test_a_partitioned_node_is_given_up_while_its_containers_run_on(cluster: HollowCluster) -> None:
    await cluster.deploy("torn", 6)

    async def all_run() -> bool:
        return len(await cluster.running("torn")) == 6

    await eventually(all_run)
    pod = (await cluster.running("torn"))[0]
    node = cluster.nodes[pod.spec.node_name]
    node.partition()

    async def replaced() -> bool:
        return len(await cluster.running("torn", without=node.name)) == 6

    await eventually(replaced)
    assert node.containers()[pod.uid] == "running", "there are now seven"
    node.heal()

    async def healed() -> bool:
        return (await cluster.node(node.name)).ready == "True" and pod.uid not in node.containers()

    await eventually(healed)
