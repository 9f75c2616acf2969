"""The leader of three replicas ends, again and again: how soon the next one acts in its place, on a real API server.

Each time a node has just failed, and is due to be remediated a moment after the leader was asked to stop, or killed: so
the next one has something to do from the very moment when it leads. All replicas are processes of their own, with the
default settings and the account of deploy/install.yaml, and so are the onlookers. Whoever ended is replaced before the
next one does, and nothing is measured before all have come to rest.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import LEASES
from testbed.cluster import ControlPlane
from tests.bench import fleet
from tests.bench.account import NAMESPACE, account_of
from tests.bench.moments import CREATED, DELETED
from tests.bench.onlooker import Onlooker, looking_on
from tests.bench.processes import BenchFailed, say, write
from tests.bench.replica import Replica, operating
from tests.bench.successions import (
    CRASH,
    FOLLOWED_WITHIN,
    ORDERLY,
    REPLICAS,
    End,
    Ends,
    HandedOver,
    Succession,
    spreads_of,
    verdicts,
)
from tests.bench.ward import LOOK_EVERY, UNHEALTHY_AFTER_SECONDS, Ward, all_watched
from tests.bench.writer import Pen, turns

ONLOOKER = "token-admin"
LOCK = "defib-leader"
SIGNALS = {ORDERLY: signal.SIGTERM, CRASH: signal.SIGKILL}
ENDS_WITH = {ORDERLY: 0, CRASH: -signal.SIGKILL}

SETTLED_WITHIN = 60.0
KNOWN_SECONDS = 2  # so long all replicas have known of the failed node when it is due
AHEAD_SECONDS = 0.3  # so much earlier the leader is told: it may not be quick enough to hear of it and act all the same
TRIES_MORE = 10


class Crew:
    """Three replicas, and whoever takes the place of one that ended."""

    def __init__(self, kubeconfig: Path, directory: Path, stack: AsyncExitStack) -> None:
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._stack = stack
        self._hired = 0
        self.aboard: dict[str, Replica] = {}

    async def fill(self) -> None:
        """Until there are three again, each of which knows everything and is at rest."""
        while len(self.aboard) < REPLICAS:
            self._hired += 1
            name = f"replica-{self._hired}"
            log = self._directory / f"{name}.log"
            running = operating(self._kubeconfig, log, "--replica-name", name)
            self.aboard[name] = await self._stack.enter_async_context(running)
        for replica in self.aboard.values():
            await replica.until_ready()
        for replica in self.aboard.values():
            await replica.until_quiet()


class Relay:
    """One cluster, in which one leader after the other ends."""

    def __init__(self, client: Client, pen: Pen, crew: Crew, locks: Onlooker, remediations: Onlooker) -> None:
        self._client = client
        self._pen = pen
        self._crew = crew
        self._locks = locks
        self._remediations = remediations
        self._clock = SystemClock()

    async def hand_over(self, end: End, number: int) -> Succession | None:
        """Nothing, if the leader had acted before it heard that it must not."""
        await self._crew.fill()
        node, leader = fleet.name_of(number), await self._leader()
        due = int(self._now) + 1 + KNOWN_SECONDS
        await self._turn(number, fleet.a_failure, due - UNHEALTHY_AFTER_SECONDS)
        await asyncio.sleep(max(due - AHEAD_SECONDS - self._now, 0.0))  # until the moment that is wanted
        ending, signalled = self._crew.aboard.pop(leader), self._now
        ending.send(SIGNALS[end])
        held = await self._locks.first(self._crew.aboard.keys(), signalled, FOLLOWED_WITHIN)
        if held is None:
            raise BenchFailed(f"nobody leads {FOLLOWED_WITHIN:.0f} s after the {end} of {leader}")
        seen = await self._remediations.see(CREATED, {node}, FOLLOWED_WITHIN)
        if (code := await ending.until_ended()) != ENDS_WITH[end]:
            raise BenchFailed(f"{leader} ended with {code} after {end}")
        succession = Succession(
            end=end,
            signalled=signalled,
            due=float(due),
            acquired=held.at,
            acted=seen.get(node, signalled + FOLLOWED_WITHIN),
            is_followed=node in seen,
            strays=await self._remediations.strays(),
        )
        if node in seen:
            await self._recover(number)
        return None if ending.has_remediated(node, signalled) else succession

    async def _recover(self, number: int) -> None:
        node = fleet.name_of(number)
        await self._turn(number, fleet.a_recovery, int(self._now))
        if node not in await self._remediations.see(DELETED, {node}, SETTLED_WITHIN):
            raise BenchFailed(f"the remediation of {node} was not ended within {SETTLED_WITHIN:.0f} s")

    async def _leader(self) -> str:
        holder = ""
        try:
            async with asyncio.timeout(SETTLED_WITHIN):
                while (holder := await self._holder()) not in self._crew.aboard:  # noqa: ASYNC110  others write it
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise BenchFailed(f"none of the replicas leads; the lock says {holder or 'nobody'}") from None
        return holder

    async def _holder(self) -> str:
        try:
            lease = await self._client.get(LEASES.at(LOCK, NAMESPACE))
        except NotFound:
            return ""
        return lease.spec.holder_identity or ""

    async def _turn(self, number: int, news: Callable[[datetime], fleet.Json], since: int) -> None:
        for _, request in turns([number], news(datetime.fromtimestamp(since, UTC))):
            await self._pen.send(request)

    @property
    def _now(self) -> float:
        return self._clock.now().timestamp()


async def hand_over(cluster: ControlPlane, ends: Ends) -> HandedOver:
    say(f"Installing the kinds, a check over {ends.nodes:,} nodes, and {REPLICAS} replicas")
    async with _relay(cluster, ends.nodes) as relay:
        load_before, _, _ = os.getloadavg()
        found, quicker = await _all(relay, ends)
        load_after, _, _ = os.getloadavg()
    return HandedOver(
        ends=ends,
        judged=ends.is_whole,
        load_before=load_before,
        load_after=load_after,
        quicker=quicker,
        spreads=spreads_of(found),
        successions=found,
        verdicts=verdicts(found),
    )


@asynccontextmanager
async def _relay(cluster: ControlPlane, nodes: int) -> AsyncIterator[Relay]:
    clock = SystemClock()
    transport = await connect(cluster.kubeconfig, None, os.environ, clock)
    client = Client(transport, clock)
    try:
        ward = Ward(client)
        await ward.install(cluster)
        account = await account_of(cluster, client)
        await write("nodes", cluster.kubeconfig, nodes=nodes)
        token = cluster.token_kubeconfig(ONLOOKER)
        async with (
            looking_on("remediations", token) as remediations,
            looking_on("locks", token) as locks,
            AsyncExitStack() as stack,
        ):
            crew = Crew(account, cluster.directory, stack)
            await crew.fill()
            await ward.until(f"all {nodes:,} nodes are healthy", all_watched(nodes), SETTLED_WITHIN)
            yield Relay(client, Pen(transport), crew, locks, remediations)
    finally:
        await client.close()


async def _all(relay: Relay, ends: Ends) -> tuple[list[Succession], int]:
    """So many of each, and how many were in vain. No two of them concern the same node, as far as there are enough."""
    found: list[Succession] = []
    in_vain = 0
    for end in [ORDERLY] * ends.orderly + [CRASH] * ends.crashes:
        while (one := await relay.hand_over(end, (len(found) + in_vain) % ends.nodes)) is None:
            in_vain += 1
            say(f"{end}: the leader was quicker than the signal; once more")
            if in_vain > TRIES_MORE:
                raise BenchFailed(f"{in_vain} times the leader was quicker than the signal")
        found.append(one)
        say(
            f"{len(found)}. {end}: the next leads after {one.led_after_seconds:.2f} s, acts after "
            f"{one.acted_after_seconds:.2f} s, {one.promoted_seconds:.2f} s after it could"
        )
    return found, in_vain
