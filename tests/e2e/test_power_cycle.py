"""Machines are power-cycled on a real control plane: by real Redfish, IPMI and a fence agent, under Defib's own account.

Whatever the operator asks for and its role does not allow fails the test that provoked it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.hollow.machine import Claims, Hangs
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODE_INCIDENTS, NODES
from defib.model.meta import Unstructured
from defib.model.node import OUT_OF_SERVICE
from defib.model.power_cycle import FINALIZER, LOCK_HOLDER
from testbed.programs import Programs
from tests.e2e.power_cluster import PLACE, POWER_CYCLES, PowerCluster, Ward, power_cluster
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


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _all_is_well_afterwards(cluster: PowerCluster, operator: RunningOperator) -> AsyncIterator[None]:
    yield
    await operator.expect_nothing_refused(cluster)
    assert [verdict.story for verdict in cluster.hollow.disks.corrupted()] == []


async def expect_failover(ward: Ward) -> None:
    """The database runs elsewhere, on the proof that its old machine is down."""
    await ward.eventually("its database runs elsewhere", ward.runs_elsewhere)
    incident = await ward.incident()
    assert incident is not None
    proof = incident.status.proof
    assert proof is not None
    assert proof.grade == "A"
    assert [reading.state for reading in proof.readings or ()] == ["Off", "Off"]


def condition(item: Unstructured, kind: str) -> str:
    known = (item.status or {}).get("conditions") or ()
    return next((one["status"] for one in known if one["type"] == kind), "")


def loses_power(ward: Ward) -> None:
    ward.machine.set_power(False)


def hangs(ward: Ward) -> None:
    ward.node.hang()


def is_cut_off(ward: Ward) -> None:
    ward.node.partition()


@pytest.mark.parametrize(
    ("node", "fails", "power"),
    [
        ("zone-a-1", loses_power, "redfish"),
        ("zone-a-2", is_cut_off, "redfish"),
        ("zone-a-3", hangs, "ipmi"),
        ("zone-a-4", is_cut_off, "fence-agent"),
    ],
)
async def test_a_database_runs_elsewhere_and_its_node_comes_back(
    cluster: PowerCluster, node: str, fails: Callable[[Ward], None], power: str, request: pytest.FixtureRequest
) -> None:
    if power == "fence-agent":
        request.getfixturevalue("fence_agents")
    ward = await cluster.ward(node, power, workloads="OutOfServiceTaint")
    await ward.eventually("it could be fenced", ward.is_fenceable)
    before = await cluster.hollow.node(node)
    fails(ward)
    await expect_failover(ward)
    ward.node.heal()  # whoever mends the network has the time that a power cycle takes
    incident = await ward.expect_recovered()
    assert incident.status.tainted
    after = await cluster.hollow.node(node)
    assert after.uid == before.uid
    assert after.status.node_info.boot_id != before.status.node_info.boot_id


async def test_a_node_that_is_deleted_comes_back_with_its_labels_annotations_and_taints(cluster: PowerCluster) -> None:
    ward = await cluster.ward("zone-a-5", workloads="DeleteNode")
    before = await cluster.hollow.node(ward.name)
    taint = {"key": "example.com/special", "value": "yes", "effect": "NoSchedule"}
    mine = {"labels": {"example.com/rack": "7"}, "annotations": {"example.com/owner": "alice"}}
    await cluster.client.patch(NODES.at(ward.name), Merge({"metadata": mine, "spec": {"taints": [taint]}}))
    hangs(ward)
    await expect_failover(ward)
    incident = await ward.expect_recovered()
    assert incident.status.saved is not None
    assert not incident.status.tainted
    after = await cluster.hollow.node(ward.name)
    assert after.uid != before.uid
    assert after.labels == {**before.labels, "example.com/rack": "7"}
    assert after.annotations == {**before.annotations, "example.com/owner": "alice"}
    assert tuple(taint.values()) in [(one.key, one.value, one.effect) for one in after.spec.taints or ()]


async def test_a_bad_bmc_delays_its_own_node_alone_and_never_proves_anything(cluster: PowerCluster) -> None:
    names = [f"zone-b-{number}" for number in range(1, 5)]
    nodes = cluster.hollow.nodes
    await cluster.write_secret(names[0], password="not-the-one")
    nodes[names[1]].machine.bmc.suffer(Hangs())
    nodes[names[2]].machine.bmc.suffer(Claims(on=False))
    async with asyncio.TaskGroup() as tasks:
        making = [tasks.create_task(cluster.ward(name)) for name in names]
    refused, hung, lying, good = [made.result() for made in making]
    await expect_known(refused, "does not accept the user name and the password")
    for ward in (refused, hung, lying, good):
        hangs(ward)
    await expect_failover(good)
    await good.expect_recovered()
    await expect_waiting(refused, "does not accept the user name and the password")
    await expect_waiting(hung, "no answer within")
    await expect_waiting(lying, "still is after it was told to go on: no proof")
    # Whatever was wrong is mended while it waits.
    await cluster.write_secret(refused.name, password=refused.machine.bmc.password)
    hung.machine.bmc.suffer()
    lying.machine.bmc.suffer()
    for ward in (refused, hung, lying):
        await expect_failover(ward)
        await ward.expect_recovered()


async def expect_known(ward: Ward, why: str) -> None:
    """That it could not be fenced, before it fails."""

    async def is_told() -> bool:
        shown = (await ward.cluster.shown("pcrt")).get(ward.name, "")
        return " 1 0 False " in shown and why in shown

    await ward.eventually(f"kubectl says of the template {ward.name}: {why}", is_told)


async def expect_waiting(ward: Ward, why: str) -> None:
    """A person can read what it waits for, nothing is proved, and nothing that runs there was touched."""

    async def is_told() -> bool:
        return why in (await ward.cluster.shown()).get(ward.name, "")

    await ward.eventually(f"kubectl says of {ward.name}: {why}", is_told)
    incident = await ward.incident()
    assert incident is not None
    assert incident.is_open
    assert incident.status.proof is None
    assert ward.machine.history == []
    assert [(pod.spec.node_name, pod.is_deleted) for pod in await ward.cluster.hollow.pods(ward.app)] == [
        (ward.name, False)
    ]
    assert [writer.node for writer in (await ward.disk()).writers()] == [ward.name]


async def test_a_machine_that_only_a_person_can_switch_is_freed_on_that_persons_word(cluster: PowerCluster) -> None:
    """It is recorded with the name by which the API server knows that person."""
    ward = await cluster.ward("zone-b-5", "manual")
    hangs(ward)

    async def waits_for_a_person() -> bool:
        return "WaitsForConfirmation" in await ward.reason()

    async def waits_for_power() -> bool:
        return "WaitsForPowerOn" in await ward.reason()

    await ward.eventually("it asks for a person", waits_for_a_person)
    assert [writer.node for writer in (await ward.disk()).writers()] == [ward.name]
    ward.machine.set_power(False)
    confirmation = {"by": "admin", "at": f"{SystemClock().now():%Y-%m-%dT%H:%M:%SZ}"}
    await cluster.client.patch(NODE_INCIDENTS.at(ward.name), Merge({"spec": {"confirmedOff": confirmation}}))
    await ward.eventually("its database runs elsewhere", ward.runs_elsewhere)
    await ward.eventually("it asks for power", waits_for_power)
    ward.machine.set_power(True)
    incident = await ward.expect_recovered()
    assert incident.status.proof is not None
    assert (incident.status.proof.grade, incident.status.proof.by) == ("D", "admin")


async def test_a_person_has_a_node_power_cycled_without_any_health_check(cluster: PowerCluster) -> None:
    ward = Ward(cluster, "zone-a-1")
    before = len(ward.machine.history)
    boot = ward.node.boot_id
    body = {"metadata": {"name": ward.name}, "spec": {"power": cluster.power("ipmi")}}
    made = await cluster.client.create(POWER_CYCLES, body, namespace=PLACE)

    async def is_locked() -> bool:
        lock = await ward.lock()
        return lock is not None and lock.spec.holder_identity == LOCK_HOLDER

    async def has_succeeded() -> bool:
        (remediation,) = await ward.remediations()
        return condition(remediation, "Succeeded") == "True"

    async def is_unlocked() -> bool:
        return await ward.lock() is None

    async def is_gone() -> bool:
        return await ward.remediations() == []

    await ward.eventually("we hold its lock", is_locked)
    await ward.eventually("it has succeeded", has_succeeded)
    await ward.eventually("its lock is free", is_unlocked)
    assert ward.node.boot_id != boot
    assert [change.on for change in ward.machine.history[before:]] == [False, True]
    (remediation,) = await ward.remediations()
    assert remediation.metadata.finalizers == [FINALIZER]
    await cluster.client.delete(POWER_CYCLES.of(made), Deletion(uid=made.uid))
    await ward.eventually("it is gone", is_gone)
    assert OUT_OF_SERVICE not in [taint.key for taint in (await cluster.hollow.node(ward.name)).spec.taints or ()]
