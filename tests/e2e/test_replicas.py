"""Three replicas on a real API server, each under the account of the manifest: one acts, the others are ready to."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from testbed.programs import Programs
from tests.contract.api_server.steps import delete, eventually, raw
from tests.e2e.check_cluster import PATIENCE_SECONDS, CheckCluster, check_cluster
from tests.e2e.replica_set import LOCK, Replica, ReplicaSet, deeds, replica_set, tell, without_mandate

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

LEASE_SECONDS, RETRY_SECONDS = 15.0, 2.0  # as they are when nobody says anything
BUSY_SECONDS = 2.0  # what a busy machine may add
HAND_OVER_SECONDS = 1.2 * RETRY_SECONDS + BUSY_SECONDS


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CheckCluster]:
    async with check_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml") as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(cluster: CheckCluster) -> AsyncIterator[ReplicaSet]:
    async with replica_set(cluster) as replicas:
        yield replicas


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _only_the_leader_acts_and_nothing_is_refused(replicas: ReplicaSet) -> AsyncIterator[None]:
    yield
    requests = await replicas.requests()
    assert [str(one) for one in requests if one.code == 403] == []
    assert [str(one) for one in without_mandate(requests, LEASE_SECONDS)] == []


async def named_by(replica: Replica) -> str:
    status, text = await replica.leader_page()
    assert status == 200
    name: str = msgspec.json.decode(text)["name"]
    return name


async def transitions(replicas: ReplicaSet) -> int:
    lock = await replicas.lock()
    assert lock is not None
    return lock.spec.lease_transitions or 0


async def expect_all_name(replicas: ReplicaSet, leader: Replica) -> None:
    async def all_do() -> bool:
        return {await named_by(one) for one in replicas.alive} == {leader.name}

    await eventually(all_do, within=HAND_OVER_SECONDS)


async def test_le_01_one_of_three_acts_and_the_others_write_nothing(
    cluster: CheckCluster, replicas: ReplicaSet
) -> None:
    leader = await replicas.expect_leader(within=HAND_OVER_SECONDS)
    pool = await cluster.pool("one")
    await pool.fails("one-1")
    await pool.expect_remedy("one-1")
    await pool.recovers("one-1")
    await pool.expect_at_rest()
    assert {replicas.name_of(one) for one in deeds(await replicas.requests())} == {leader.name}


async def test_standbys_are_as_ready_as_the_leader(replicas: ReplicaSet) -> None:
    for replica in replicas.alive:
        assert await replica.probe("healthz") == (200, "ok\n")
        # Not at once: the API server starts the storage of a new kind again when it learns another one of its group.
        await eventually(replica.is_ready, within=PATIENCE_SECONDS)
        status, text = await replica.probe("metrics")
        assert status == 200
        assert "defib_passes" in text


async def test_le_14_each_replica_names_the_same_leader_over_http(replicas: ReplicaSet) -> None:
    await expect_all_name(replicas, await replicas.expect_leader(within=HAND_OVER_SECONDS))


async def test_le_02_the_lock_is_a_lease_as_kubernetes_itself_has_them(
    cluster: CheckCluster, replicas: ReplicaSet
) -> None:
    leader = await replicas.expect_leader(within=HAND_OVER_SECONDS)
    spec = (await raw(cluster.client, "GET", LOCK.path()))["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (leader.name, LEASE_SECONDS)
    assert spec["acquireTime"] <= spec["renewTime"]
    assert await shown(cluster) == ["defib-leader", leader.name]


async def shown(cluster: CheckCluster) -> list[str]:
    """What a person sees of the lock: its name, and who has it."""
    plane = cluster.plane
    command = (plane.kubectl, f"--kubeconfig={plane.kubeconfig}", "get", "lease", "-n", "defib-system", "--no-headers")
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=STDOUT)
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate()
    return said.decode().split()[:2]


async def test_le_06_a_replica_that_comes_or_goes_changes_nothing_for_the_leader(replicas: ReplicaSet) -> None:
    leader, before = await replicas.expect_leader(within=HAND_OVER_SECONDS), await transitions(replicas)
    fourth = await replicas.add()

    async def has_looked() -> bool:
        return await named_by(fourth) == leader.name

    await eventually(has_looked, within=HAND_OVER_SECONDS)
    assert await fourth.terminate() == 0
    replicas.lose(fourth)
    assert (await replicas.leader(), await transitions(replicas)) == (leader, before)


async def test_le_07_who_is_told_to_end_hands_over_within_a_retry_period(
    cluster: CheckCluster, replicas: ReplicaSet
) -> None:
    old, before = await replicas.expect_leader(within=HAND_OVER_SECONDS), await transitions(replicas)
    pool = await cluster.pool("handed")
    await pool.fails("handed-1")
    await pool.expect_remedy("handed-1")
    told = SystemClock().now()
    assert await old.terminate() == 0
    replicas.lose(old)
    await pool.recovers("handed-1")
    new = await replicas.expect_leader(other_than=old, within=HAND_OVER_SECONDS)
    assert await shown(cluster) == ["defib-leader", new.name]
    assert await transitions(replicas) == before + 1
    await pool.expect_cleared("handed-1")
    first = next(one for one in deeds(await replicas.requests()) if one.by == new.credential)
    tell(f"{new.name} acted {(first.received - told).total_seconds():.2f} s after {old.name} was told to end")
    await pool.fails("handed-2")
    await pool.expect_remedy("handed-2")
    await pool.recovers("handed-2")
    await pool.expect_at_rest()
    await expect_all_name(replicas, new)
    assert first.received - told < timedelta(seconds=HAND_OVER_SECONDS + BUSY_SECONDS)


async def test_le_11_a_lock_that_somebody_deletes_has_one_holder_again(replicas: ReplicaSet) -> None:
    was = await replicas.lock()
    assert was is not None
    await delete(replicas.cluster.client, LOCK)

    async def is_there_again() -> bool:
        lock = await replicas.lock()
        return lock is not None and lock.uid != was.uid and await replicas.leader() is not None

    await eventually(is_there_again, within=2 * LEASE_SECONDS)
    leader = await replicas.expect_leader(within=HAND_OVER_SECONDS)
    await expect_all_name(replicas, leader)


async def test_le_07_when_all_are_told_to_end_the_lock_is_free(replicas: ReplicaSet) -> None:
    for replica in tuple(replicas.alive):
        assert await replica.terminate() == 0
        replicas.lose(replica)
    lock = await replicas.lock()
    assert lock is not None
    assert (lock.spec.holder_identity, lock.spec.lease_duration_seconds) == ("", 1)
