"""Defib takes over from a running Go operator in the middle of remediations, on a real API server.

Everything is put in place as that operator leaves it, then Defib starts. It must neither begin anything again nor tear
anything down, and go on from where the other one was.
"""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from defib.clock import SystemClock
from defib.kube.client import Merge
from defib.kube.kinds import LEASES, NODES
from defib.model import medik8s
from defib.model.node import Lease
from testbed.programs import Programs
from tests import go_leftovers as go
from tests.contract.api_server.steps import delete, raw
from tests.e2e.audit import Request
from tests.e2e.check_cluster import (
    PLACE,
    CheckCluster,
    Pool,
    check_cluster,
    remediations,
    step,
    template_ref,
)
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(60, func_only=True), pytest.mark.asyncio(loop_scope="module")]

MINUTE = timedelta(minutes=1)
LEADER_LOCK = "defib-system/defib-leader"


class Estate(msgspec.Struct, kw_only=True):
    """What the Go operator left, and what became of it."""

    cluster: CheckCluster
    now: datetime
    pools: dict[str, Pool] = {}
    remedies: dict[str, go.Body] = {}  # as they were, by name
    locks: dict[str, Lease] = {}  # as they were, by node

    async def add_pool(self, name: str, **fields: Any) -> Pool:
        pool = self.pools[name] = await self.cluster.pool(name, **fields)
        await pool.fails(f"{name}-1")
        return pool

    async def leave(self, body: go.Body) -> go.Body:
        """A remediation."""
        kind = remediations("Foo")
        whole = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        made: go.Body = await raw(self.cluster.client, "POST", kind.collection(PLACE), whole)
        self.remedies[made["metadata"]["name"]] = made
        return made

    async def leave_lock(self, pool: Pool, *, seconds: int = 660) -> None:
        """Renewed a while ago, so that it is due again."""
        client = self.cluster.client
        node = await client.get(NODES.at(pool.nodes[0]))
        times = {"acquired": self.now - 9 * MINUTE, "renewed": self.now - 2 * MINUTE}
        body = go.a_lock(node.name, node.uid, pool.name, **times, seconds=seconds)
        self.locks[node.name] = await client.create(LEASES, body, namespace=medik8s.LOCK_NAMESPACE)

    async def leave_status(self, pool: Pool, nodes: dict[str, list[go.Body]]) -> None:
        status = go.a_status(nodes, observed=3, at=self.now - 9 * MINUTE)
        await self.say(pool, status)

    async def say(self, pool: Pool, status: go.Body) -> None:
        await self.cluster.client.patch(pool.ref, Merge({"status": status}), subresource="status")

    async def owner(self, pool: Pool) -> go.Body:
        return go.owner(pool.name, (await self.cluster.client.get(pool.ref)).uid)

    async def writes(self, what: str) -> set[tuple[str, str]]:
        """What we have created and deleted of a kind, each with its name; but for the lock by which we lead."""
        return {
            (request.verb, request.key.rpartition("/")[2] or "?")
            for request in await self.cluster.requests()
            if request.verb in ("create", "delete") and _kind(request) == what and request.key != LEADER_LOCK
        }


def _kind(request: Request) -> str:
    return request.what.partition(".")[0]


async def plain(estate: Estate) -> None:
    pool = await estate.add_pool("plain")
    made = await estate.leave(go.a_remedy("plain-1", "foo", await estate.owner(pool)))
    await estate.leave_lock(pool)
    await estate.leave_status(pool, {"plain-1": [go.a_record(made)]})


async def ancient(estate: Estate) -> None:
    """Before there were locks, annotations and unhealthyNodes."""
    pool = await estate.add_pool("ancient")
    await estate.leave(go.an_old_remedy("ancient-1", "foo", await estate.owner(pool)))
    status = {"observedNodes": 3, "healthyNodes": 2, "inFlightRemediations": {"ancient-1": go.stamp(estate.now)}}
    await estate.say(pool, status)


async def generated(estate: Estate) -> None:
    pool = await estate.add_pool("generated", remediationTemplate=template_ref("foo-a"))
    made = await estate.leave(go.a_remedy("generated-1", "foo-a", await estate.owner(pool), suffix="x7k2p"))
    await estate.leave_lock(pool)
    await estate.leave_status(pool, {"generated-1": [go.a_record(made)]})


async def stairs(estate: Estate) -> None:
    """The first step is over, the second has failed a moment ago. The Go operator never lists a second of one kind."""
    steps = [step("foo-a", 1, "60s"), step("foo-b", 2, "10m"), step("bar", 3, "15m")]
    pool = await estate.add_pool("stairs", escalatingRemediations=steps)
    owner = await estate.owner(pool)
    over = go.a_remedy("stairs-1", "foo-a", owner, suffix="aaaaa")
    over["metadata"]["annotations"][medik8s.TIMED_OUT] = go.stamp(estate.now - 7 * MINUTE)
    first = await estate.leave(over)
    await estate.leave(go.a_remedy("stairs-1", "foo-b", owner, suffix="bbbbb"))
    failed = {"status": {"conditions": [{"type": "Succeeded", "status": "False"}]}}
    second = remediations("Foo").at("stairs-1-bbbbb", PLACE)
    await estate.cluster.client.patch(second, Merge(failed), subresource="status")
    await estate.leave_lock(pool, seconds=180)
    await estate.leave_status(pool, {"stairs-1": [go.a_record(first, timed_out=estate.now - 7 * MINUTE)]})


async def forgotten(estate: Estate) -> None:
    """It died between creating the remediation and writing the status."""
    pool = await estate.add_pool("forgotten")
    await estate.leave(go.a_remedy("forgotten-1", "foo", await estate.owner(pool)))
    await estate.leave_lock(pool)


async def vanished(estate: Estate) -> None:
    """Somebody deleted the remediations of two nodes while nobody was there; one of the nodes is healthy."""
    pool = await estate.add_pool("vanished")
    owner = await estate.owner(pool)
    records = {}
    for node in pool.nodes[:2]:
        made = await estate.leave(go.a_remedy(node, "foo", owner))
        records[node] = [go.a_record(made)]
        await delete(estate.cluster.client, remediations("Foo").at(node, PLACE))
    await estate.leave_lock(pool)
    await estate.leave_status(pool, records)


async def recovered(estate: Estate) -> None:
    """Its node became healthy while nobody was there."""
    pool = await estate.add_pool("recovered")
    made = await estate.leave(go.a_remedy("recovered-1", "foo", await estate.owner(pool)))
    await estate.leave_lock(pool)
    await estate.leave_status(pool, {"recovered-1": [go.a_record(made)]})
    await pool.recovers("recovered-1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def estate(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Estate]:
    async with check_cluster(programs, tmp_path_factory.mktemp("audit") / "policy.yaml") as cluster:
        estate = Estate(cluster=cluster, now=SystemClock().now())
        for leave in (plain, ancient, generated, stairs, forgotten, vanished, recovered):
            await leave(estate)
        yield estate


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def operator(estate: Estate) -> AsyncIterator[RunningOperator]:
    """It is there, and has said something about every check."""
    async with defib_run(estate.cluster) as operator:
        for pool in estate.pools.values():

            async def is_taken_over(pool: Pool = pool) -> bool:
                return (await pool.status()).observed_generation > 0

            await pool.eventually("it is taken over", is_taken_over)
        yield operator


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("plain", "plain-1"), ("ancient", "ancient-1"), ("generated", "generated-1-x7k2p"), ("forgotten", "forgotten-1")],
)
async def test_what_is_under_way_goes_on_as_it_is(estate: Estate, name: str, remedy: str) -> None:
    pool = estate.pools[name]
    (there,) = await pool.remedies()
    was = estate.remedies[remedy]
    now = await raw(estate.cluster.client, "GET", remediations("Foo").of(there).path())
    assert now == was, "not even touched"
    told = (await pool.status()).node(f"{name}-1")
    assert told is not None
    assert told.remediations is not None
    (record,) = told.remediations
    assert (record.resource.name, record.resource.uid) == (remedy, was["metadata"]["uid"])
    assert record.started == there.metadata.creation_timestamp
    assert record.timed_out is None
    assert (await pool.status()).phase == "Remediating"


@pytest.mark.parametrize("name", ["plain", "generated", "forgotten"])
async def test_a_lock_is_renewed_under_the_same_name(estate: Estate, name: str) -> None:
    pool, node = estate.pools[name], f"{name}-1"
    was = estate.locks[node]

    async def is_renewed() -> bool:
        lock = await pool.lock(node)
        assert lock is not None
        assert lock.uid == was.uid
        assert lock.spec.renew_time is not None
        return lock.spec.renew_time > estate.now

    await pool.eventually("its lock is renewed", is_renewed)
    lock = await pool.lock(node)
    assert lock is not None
    same = msgspec.structs.replace(lock.spec, renew_time=was.spec.renew_time)
    assert same == was.spec, "the holder, since when, and for how long"
    assert lock.metadata.owner_references == was.metadata.owner_references


async def test_a_remediation_from_before_there_were_locks_gets_one(estate: Estate) -> None:
    pool = estate.pools["ancient"]

    async def is_locked() -> bool:
        return await pool.holder("ancient-1") == "NodeHealthCheck-ancient"

    await pool.eventually("its node is locked", is_locked)
    assert "inFlightRemediations" not in await pool.raw_status()


async def test_escalation_goes_on_with_the_next_step(estate: Estate) -> None:
    pool = estate.pools["stairs"]
    third = await pool.expect_remedy("stairs-1", "Bar", template="bar")
    assert third.name == "stairs-1"
    told = (await pool.status()).node("stairs-1")
    assert told is not None
    records = {one.template_name: one for one in told.remediations or ()}
    assert list(records) == ["foo-a", "foo-b", "bar"]
    assert records["foo-a"].timed_out == (estate.now - 7 * MINUTE).replace(microsecond=0), "as it was"
    assert records["foo-b"].timed_out is not None
    assert records["bar"].timed_out is None
    there = {one.name: one for one in await pool.remedies()}
    assert there.keys() == {"stairs-1-aaaaa", "stairs-1-bbbbb"}
    first = estate.remedies["stairs-1-aaaaa"]["metadata"]
    assert there["stairs-1-aaaaa"].metadata.resource_version == first["resourceVersion"], "not even touched"
    assert medik8s.TIMED_OUT in there["stairs-1-bbbbb"].annotations
    lock = await pool.lock("stairs-1")
    assert lock is not None
    was = estate.locks["stairs-1"]
    assert lock.spec.lease_duration_seconds == 960
    assert (lock.uid, lock.spec.acquire_time, lock.spec.holder_identity) == (
        was.uid,
        was.spec.acquire_time,
        was.spec.holder_identity,
    )


async def test_what_is_gone_is_made_again_once_where_it_is_needed(estate: Estate) -> None:
    pool = estate.pools["vanished"]
    remedy = await pool.expect_remedy("vanished-1")
    assert remedy.uid != estate.remedies["vanished-1"]["metadata"]["uid"]
    assert [one.name for one in await pool.remedies()] == ["vanished-1"]
    status = await pool.status()
    assert [node.name for node in status.unhealthy_nodes or ()] == ["vanished-1"]


async def test_what_has_recovered_meanwhile_is_cleared_away(estate: Estate) -> None:
    pool = estate.pools["recovered"]
    await pool.expect_at_rest()
    assert (await pool.status()).phase == "Enabled"


async def test_what_was_told_is_not_told_again(estate: Estate) -> None:
    for name in ("plain", "generated"):
        assert await estate.pools[name].events() == []


async def test_only_what_was_due_has_been_created_or_deleted(estate: Estate) -> None:
    """As the API server wrote it down."""
    assert await estate.writes("fooremediations") == {("create", "vanished-1"), ("delete", "recovered-1")}
    assert await estate.writes("barremediations") == {("create", "stairs-1")}
    assert await estate.writes("leases") == {("create", "node-ancient-1"), ("delete", "node-recovered-1")}


async def test_recovery_clears_everything_away(estate: Estate, operator: RunningOperator) -> None:
    for name, pool in estate.pools.items():
        await pool.recovers(f"{name}-1")
    for pool in estate.pools.values():
        await pool.expect_at_rest()
    await operator.expect_nothing_refused(estate.cluster)
