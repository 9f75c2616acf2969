"""A database that a policy wants to be moved waits on a real control plane until its machine is proved to be down.

The node is only cut off: its database writes on, and every moment in which two of them did would be recorded.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from defib.hollow.machine import Hangs
from defib.model.failover_policy import read_policy_status
from defib.model.node import OUT_OF_SERVICE
from testbed.programs import Programs
from tests.e2e.failover_cluster import POLICIES
from tests.e2e.power_cluster import PowerCluster, Ward, power_cluster
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(120, func_only=True), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PowerCluster]:
    async with power_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml") as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: PowerCluster) -> AsyncIterator[RunningOperator]:
    async with defib_run(cluster) as operator:
        yield operator


async def settled(ward: Ward) -> tuple[str, str]:
    """The reason and the message of its policy."""
    status = read_policy_status(await ward.client.get(POLICIES.at(ward.app, "default")))
    condition = status.condition("Settled")
    return (condition.reason, condition.message) if condition is not None else ("", "")


async def taints(ward: Ward) -> list[str]:
    return [taint.key for taint in (await ward.cluster.hollow.node(ward.name)).spec.taints or ()]


async def attached(ward: Ward) -> list[str]:
    return [one.name for one in await ward.cluster.hollow.attachments() if one.spec.node_name == ward.name]


async def a_cut_off_database(cluster: PowerCluster, node: str) -> Ward:
    """With a policy for it, and a BMC that does not answer for now."""
    ward = await cluster.ward(node)
    await ward.eventually("it could be fenced", ward.is_fenceable)
    body = {"metadata": {"name": ward.app}, "spec": {"selector": {"matchLabels": {"app": ward.app}}}}
    await cluster.client.create(POLICIES, body, namespace="default")
    ward.machine.bmc.suffer(Hangs())
    ward.node.partition()
    return ward


async def test_ev_13_ev_18_a_database_follows_a_proof_and_its_volume_follows_the_taint(
    cluster: PowerCluster, operator: RunningOperator
) -> None:
    ward = await a_cut_off_database(cluster, "zone-a-1")
    before = await cluster.hollow.node(ward.name)

    async def waits_for_proof() -> bool:
        return (await settled(ward))[0] == "WaitingForProof"

    async def nobody_answers() -> bool:
        return "no answer within" in (await cluster.shown()).get(ward.name, "")

    await ward.eventually("its policy waits for a proof", waits_for_proof)
    said = (await settled(ward))[1]
    assert f"waits for a proof of grade A or B that the node is down: default/{ward.app}-0" in said
    await ward.eventually("its machine could not be switched off", nobody_answers)
    assert [writer.node for writer in (await ward.disk()).writers()] == [ward.name]
    assert OUT_OF_SERVICE not in await taints(ward), "never without a proof"
    assert len(await attached(ward)) == 1
    assert await waits_for_proof()

    async def is_out_of_service() -> bool:
        return OUT_OF_SERVICE in await taints(ward)

    async def is_moved() -> bool:
        return (await settled(ward))[0] == "Moved"

    ward.machine.bmc.suffer()
    await ward.eventually("it is out of service", is_out_of_service)
    assert not ward.machine.is_on
    await ward.eventually("its database runs elsewhere", ward.runs_elsewhere)
    assert await attached(ward) == []
    assert [pod for pod in await ward.pods() if pod.labels.get("app") == ward.app] == []
    await ward.eventually("its policy says so", is_moved)
    ward.node.heal()
    await ward.expect_recovered()
    assert OUT_OF_SERVICE not in await taints(ward)
    after = await cluster.hollow.node(ward.name)
    assert after.status.node_info.boot_id != before.status.node_info.boot_id
    await operator.expect_nothing_refused(cluster)


async def test_a_database_stays_where_its_node_comes_back_before_anything_was_proved(
    cluster: PowerCluster, operator: RunningOperator
) -> None:
    ward = await a_cut_off_database(cluster, "zone-a-2")
    (pod,) = await cluster.hollow.pods(ward.app)

    async def waits_for_proof() -> bool:
        return (await settled(ward))[0] == "WaitingForProof"

    async def is_quiet() -> bool:
        return (await settled(ward))[0] == "Quiet"

    await ward.eventually("its policy waits for a proof", waits_for_proof)
    ward.node.heal()
    await ward.eventually("its policy has nothing to do", is_quiet)
    await ward.eventually("its database runs there", ward.runs_here)
    assert [one.uid for one in await cluster.hollow.pods(ward.app)] == [pod.uid]
    assert not (await ward.disk()).verdict().corrupted
    await operator.expect_nothing_refused(cluster)
