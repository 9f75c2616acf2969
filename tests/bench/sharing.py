"""Three replicas act at once, each for its share of the nodes: how even that is, and what `remediating` promises, again.

All on one cluster. First the bars of `remediating`, with three replicas in place of one. There another program would carry
out what is remediated, and one replica alone admits it, since budgets are counted. Then many nodes fail that are
remediated by Defib itself: whoever looks after a node moves its pods.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from defib.coordinate.seats import BUCKETS
from defib.coordinate.sharded import BUCKET_LEASE
from defib.coordinate.shards import preferences
from defib.kube.client import Client, Scope
from defib.kube.kinds import LEASES, unstructured
from testbed.cluster import ControlPlane
from tests.bench import fleet
from tests.bench.account import NAMESPACE, account_of
from tests.bench.moments import DELETED, moments_of
from tests.bench.moves import spread_of
from tests.bench.onlooker import Onlooker, looking_on
from tests.bench.processes import WRITTEN_WITHIN, BenchFailed, say, write, writing
from tests.bench.remediating import (
    FOLLOWED_WITHIN,
    HEARTBEATS_PER_SECOND,
    ONLOOKER,
    SETTLED_WITHIN,
    STARTED_WITHIN,
    Trial,
)
from tests.bench.replica import operating
from tests.bench.replicas import Replicas
from tests.bench.shares import (
    REPLICAS,
    Fleet,
    Load,
    Moved,
    Sharing,
    added_up,
    looked_after,
    of_replica,
    verdicts,
)
from tests.bench.spent import Spent
from tests.bench.turns import Remediating
from tests.bench.ward import LOOK_EVERY, NAME, UNHEALTHY_AFTER_SECONDS, Ward, all_remediated, all_watched, warded

TEMPLATES = unstructured(
    "defib.dev", "v1alpha1", "podfailoverremediationtemplates", "PodFailoverRemediationTemplate", namespaced=True
)
TEMPLATE = {"metadata": {"name": NAME}, "spec": {"template": {"spec": {"deletion": {"mode": "Force"}}}}}
HEARTBEATS_CPU_SECONDS = 0.08  # what those of 5,000 nodes take in a second, and something for a busy machine
LIFE_SECONDS = 3600.0  # longer than any run; it is ended with it


class Leaving(msgspec.Struct, frozen=True):
    """Who had which bucket, what became of the pods, and what that cost each replica."""

    holders: dict[int, str]
    moved: Moved
    spent: list[Spent]


class Exodus:
    """Many nodes fail at once, and all their pods are moved."""

    def __init__(self, cluster: ControlPlane, ward: Ward, replicas: Replicas, onlooker: Onlooker, size: Fleet) -> None:
        self._cluster = cluster
        self._ward = ward
        self._replicas = replicas
        self._onlooker = onlooker
        self._size = size
        self._clock = SystemClock()

    async def measure(self) -> tuple[Moved, list[Spent]]:
        size = self._size
        await self._ward.until(f"all {size.nodes:,} nodes are healthy", all_watched(size.nodes), SETTLED_WITHIN)
        await self._replicas.until_quiet(HEARTBEATS_CPU_SECONDS)
        await self._replicas.begin()
        due = await self._fail()
        pods = {fleet.pod_name(number, place) for number in failing(size) for place in range(size.pods_each)}
        seen = await self._onlooker.see(DELETED, pods, due + FOLLOWED_WITHIN - self._clock.now().timestamp())
        self._replicas.fail_if_dead()
        if len(seen) == len(pods):
            await self._ward.until(f"{size.failures} are remediated", all_remediated(size.failures), SETTLED_WITHIN)
        await self._replicas.until_quiet(HEARTBEATS_CPU_SECONDS)
        late = [at - due for at in seen.values()] + [FOLLOWED_WITHIN] * (len(pods) - len(seen))
        strays = await self._onlooker.strays()
        moved = Moved(pods=len(pods), gone=len(seen), strays=strays, seconds=spread_of(late))
        return moved, await self._replicas.spent()

    async def _fail(self) -> float:
        """When they are due."""
        size, since = self._size, int(self._clock.now().timestamp())
        say(f"{size.failures} of {size.nodes:,} nodes turn Unknown, with {size.pods_each} pods each")
        async with writing(
            "failures", self._cluster.kubeconfig, nodes=size.nodes, count=size.failures, at=since
        ) as writer:
            await moments_of(writer, WRITTEN_WITHIN)
        return float(since + UNHEALTHY_AFTER_SECONDS)


async def share(cluster: ControlPlane, size: Fleet, watched_seconds: float) -> Sharing:
    say("Installing the kinds, a template and a check over all nodes")
    load_before, _, _ = os.getloadavg()
    async with warded(cluster) as ward:
        account = await account_of(cluster, ward.client)
        trial = Trial(cluster, ward, lambda: sharing(cluster, account, ward.client))
        remediating = await trial.run(size.nodes, watched_seconds)
        leaving = await leave(cluster, ward, account, size)
    loads = _loads(size, leaving, remediating)
    load_after, _, _ = os.getloadavg()
    return Sharing(
        fleet=size,
        judged=size.is_whole and remediating.judged,
        load_before=load_before,
        load_after=load_after,
        moved=leaving.moved,
        loads=loads,
        remediating=remediating,
        verdicts=[*verdicts(loads, leaving.moved), *remediating.verdicts],
    )


async def leave(cluster: ControlPlane, ward: Ward, account: Path, size: Fleet) -> Leaving:
    """The nodes are there, and their heartbeats, which go on: else nobody would trust what they see."""
    await ward.remediate_by(TEMPLATES, TEMPLATE)
    await write("pods", cluster.kubeconfig, nodes=size.nodes, count=size.failures, each=size.pods_each)
    pace = min(HEARTBEATS_PER_SECOND, size.nodes / 10)
    async with (
        writing("life", cluster.kubeconfig, nodes=size.nodes, pace=pace, seconds=LIFE_SECONDS) as life,
        sharing(cluster, account, ward.client) as replicas,
        looking_on("pods", cluster.token_kubeconfig(ONLOOKER)) as onlooker,
    ):
        holders = await holders_of_buckets(ward.client)
        moved, spent = await Exodus(cluster, ward, replicas, onlooker, size).measure()
        if await holders_of_buckets(ward.client) != holders:
            raise BenchFailed("buckets changed hands while they were measured")
        if life.returncode is not None:
            raise BenchFailed("the writer of heartbeats ended too early; its own words are above")
    say(f"  {moved.gone} of {moved.pods} pods gone, the last {moved.seconds.max_seconds:.2f} s after the deadline")
    return Leaving(holders, moved, spent)


def _loads(size: Fleet, leaving: Leaving, remediating: Remediating) -> list[Load]:
    holders = leaving.holders
    nodes = looked_after(holders, [fleet.name_of(number) for number in range(size.nodes)])
    failures = looked_after(holders, [fleet.name_of(number) for number in failing(size)])
    return [
        Load(
            replica=name,
            buckets=sum(holder == name for holder in holders.values()),
            nodes=nodes[name],
            failures=failures[name],
            moving=of_replica(name, leaving.spent),
            remediating=added_up([of_replica(name, turn.each) for turn in remediating.turns]),
            watching=of_replica(name, remediating.watched.each),
        )
        for name in REPLICAS
    ]


def failing(size: Fleet) -> list[int]:
    return fleet.spread(size.nodes, size.failures)


@asynccontextmanager
async def sharing(cluster: ControlPlane, account: Path, client: Client) -> AsyncIterator[Replicas]:
    """Three replicas, from when each has its share."""
    async with AsyncExitStack() as stack:
        members = {
            name: await stack.enter_async_context(
                operating(account, cluster.directory / f"{name}.log", *("--election", "shards", "--replica-name", name))
            )
            for name in REPLICAS
        }
        replicas = Replicas(members)
        await replicas.until_ready()
        await _until_shared(client)
        yield replicas


async def _until_shared(client: Client) -> None:
    """Until each has every bucket that is its own by preference: from then on none changes hands."""
    wanted = dict(preferences(BUCKETS, REPLICAS))
    try:
        async with asyncio.timeout(STARTED_WITHIN):
            while await holders_of_buckets(client) != wanted:  # noqa: ASYNC110  others write it
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        raise BenchFailed(f"the buckets were not shared within {STARTED_WITHIN:.0f} s") from None


async def holders_of_buckets(client: Client) -> dict[int, str]:
    page = await client.list_all(LEASES, Scope(namespace=NAMESPACE))
    return {
        int(lease.name.removeprefix(BUCKET_LEASE)): lease.spec.holder_identity or ""
        for lease in page.items
        if lease.name.startswith(BUCKET_LEASE)
    }
