"""A stranger takes the lock again and again, on a real API server: nobody acts until it leaves off, and then one does."""

import asyncio
from datetime import datetime, timedelta

import pytest

from defib.clock import SystemClock
from defib.kube.client import Client, Merge
from testbed.programs import Programs
from tests.contract.api_server.steps import eventually
from tests.e2e.audit import Request
from tests.e2e.check_cluster import Pool, check_cluster
from tests.e2e.replica_set import LOCK, ReplicaSet, deeds, is_of_the_lock, replica_set, tell, without_mandate

pytestmark = [pytest.mark.real, pytest.mark.timeout(180, func_only=True)]

STRANGER = "stranger"
PERIOD_SECONDS, HOSTILE_SECONDS = 2.0, 60.0
LEASE_SECONDS, RETRY_SECONDS = 15.0, 2.0  # as they are when nobody says anything
BUSY_SECONDS = 3.0  # what a busy machine may add
LEASE = timedelta(seconds=LEASE_SECONDS)


class Takeover:
    """When it was, in its first and its last write, as far as the stranger knows."""

    first: datetime
    last: datetime

    async def go_on(self, client: Client) -> None:
        """Whatever stands there, it is written over: no version is compared."""
        clock = SystemClock()
        self.first = clock.now()
        until = clock.monotonic() + HOSTILE_SECONDS
        while clock.monotonic() < until:
            self.last = now = clock.now()
            spec = {
                "holderIdentity": STRANGER,
                "leaseDurationSeconds": int(LEASE_SECONDS),
                "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
            }
            await client.patch(LOCK, Merge({"spec": spec}))
            await asyncio.sleep(PERIOD_SECONDS)


async def fails_and_is_left_alone(pool: Pool, takeover: Takeover) -> None:
    """The node fails when nobody can lead any more."""

    async def is_over_for_us() -> bool:
        return SystemClock().now() > takeover.first + LEASE

    await eventually(is_over_for_us, within=LEASE_SECONDS + BUSY_SECONDS)
    await pool.fails("left-1")


def writes(requests: list[Request], since: datetime, until: datetime) -> list[str]:
    """Of whatever kind, also those that were refused."""
    return [str(one) for one in requests if one.is_write and since <= one.received <= until]


def takes(requests: list[Request]) -> list[Request]:
    return [one for one in requests if is_of_the_lock(one) and one.is_write and one.has_worked]


async def expect_nobody_leads(replicas: ReplicaSet) -> None:
    for replica in replicas.alive:
        assert await replica.probe("healthz") == (200, "ok\n"), "to wait is no reason to be restarted"
        assert await replica.is_ready()
        assert await replica.leader_page() == (200, f'{{"name":"{STRANGER}"}}')


async def test_le_10_who_takes_the_lock_by_force_stops_everybody_and_when_it_leaves_off_one_leads_again(
    programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    policy = tmp_path_factory.mktemp("audit") / "policy.yaml"
    async with check_cluster(programs, policy) as cluster, replica_set(cluster) as replicas:
        pool = await cluster.pool("left", nodes=5)
        old = await replicas.expect_leader(within=RETRY_SECONDS + BUSY_SECONDS)
        await pool.fails("left-2")
        await pool.expect_remedy("left-2")
        takeover = Takeover()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(takeover.go_on(cluster.client))
            tasks.create_task(fails_and_is_left_alone(pool, takeover))
        assert [remedy.name for remedy in await pool.remedies()] == ["left-2"]
        await expect_nobody_leads(replicas)
        new = await replicas.expect_leader(within=LEASE_SECONDS + 1.2 * RETRY_SECONDS + BUSY_SECONDS)
        await pool.expect_remedy("left-1")
        requests = await replicas.requests()
        again = min(one.received for one in takes(requests) if one.received > takeover.last)
        last = max(one.received for one in deeds(requests) if one.received < takeover.last)
        tell(f"{old.name} did its last deed {last - takeover.first} after the first write of the stranger")
        tell(f"{new.name} leads {again - takeover.last} after its last")
        assert writes(requests, takeover.first + LEASE, takeover.last) == []
        assert again - takeover.last >= LEASE
        for node in ("left-1", "left-2"):
            await pool.recovers(node)
        await pool.expect_at_rest()
        requests = await replicas.requests()
        assert [str(one) for one in requests if one.code == 403] == []
        assert [str(one) for one in without_mandate(requests, LEASE_SECONDS)] == []
