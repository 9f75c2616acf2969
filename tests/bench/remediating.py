"""Many nodes fail at once, and recover: how late our operator follows and what it costs, on a real API server.

The operator, the writer and the onlooker are processes of their own. Nothing is measured before all of them are quiet.
"""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

from defib.clock import SystemClock
from testbed.cluster import ControlPlane
from tests.bench.moments import CREATED, DELETED, Moment, moments_of
from tests.bench.onlooker import Onlooker, looking_on
from tests.bench.processes import WRITTEN_WITHIN, BenchFailed, say, write, writing
from tests.bench.replicas import Replicas, Staff, one_replica
from tests.bench.turns import BARS, SAYING, Bar, Remediating, Turn, Watched, Way, percentile, verdicts
from tests.bench.ward import UNHEALTHY_AFTER_SECONDS, Ward, all_remediated, all_watched, warded
from tests.bench.written import writes_made

ONLOOKER = "token-admin"
WHOLE_FLEET = max(bar.nodes for bar in BARS)
SETTLED_WITHIN = 60.0
STARTED_WITHIN = 120.0  # of several replicas, until each has its share
FOLLOWED_WITHIN = 120.0
WATCHED_SECONDS = 60.0
WARM_UP_SECONDS = 10.0
HEARTBEATS_PER_SECOND = 300.0


class Round:
    """One bar: so many nodes fail, then recover, under the eyes of an onlooker."""

    def __init__(self, kubeconfig: Path, ward: Ward, replicas: Replicas, onlooker: Onlooker, bar: Bar) -> None:
        self._kubeconfig = kubeconfig
        self._ward = ward
        self._replicas = replicas
        self._onlooker = onlooker
        self._bar = bar
        self._clock = SystemClock()

    async def fail(self) -> Turn:
        say(f"{self._bar} nodes turn Unknown; after {UNHEALTHY_AFTER_SECONDS} s each is due")
        await self._replicas.begin()
        since = int(self._clock.now().timestamp())
        written = await self._write("failures", since)
        due = {moment.node: float(since + UNHEALTHY_AFTER_SECONDS) for moment in written}
        late = await self._lateness(CREATED, due)
        if len(late) == len(due):
            await self._ward.until(f"{len(due)} are remediated", all_remediated(len(due)), SETTLED_WITHIN)
        return await self._turn("fail", late)

    async def recover(self) -> Turn:
        nodes = self._bar.nodes
        say(f"The {self._bar} nodes are Ready again")
        await self._replicas.begin()
        written = await self._write("recoveries", int(self._clock.now().timestamp()))
        due = {moment.node: moment.at for moment in written}
        late = await self._lateness(DELETED, due)
        if len(late) == len(due):
            await self._ward.until(f"all {nodes:,} nodes are healthy again", all_watched(nodes), SETTLED_WITHIN)
        return await self._turn("recover", late)

    async def _write(self, what: str, at: int) -> list[Moment]:
        bar = self._bar
        async with writing(what, self._kubeconfig, nodes=bar.nodes, count=bar.turning, at=at) as writer:
            return await moments_of(writer, WRITTEN_WITHIN)

    async def _lateness(self, what: str, due: Mapping[str, float]) -> list[float]:
        """Of each that happened, up to the last one, or until it makes no sense to wait for more."""
        left = max(due.values()) + FOLLOWED_WITHIN - self._clock.now().timestamp()
        seen = await self._onlooker.see(what, due.keys(), left)
        self._replicas.fail_if_dead()
        if len(seen) < len(due):
            say(f"only {len(seen)} of {len(due)} within {FOLLOWED_WITHIN:.0f} s")
        return [at - due[node] for node, at in seen.items()]

    async def _turn(self, way: Way, late: list[float]) -> Turn:
        await self._replicas.until_quiet()
        each = await self._replicas.spent()
        missing = [FOLLOWED_WITHIN] * (self._bar.turning - len(late))  # they are at least as late as we waited
        turn = Turn(
            bar=self._bar,
            way=way,
            followed=len(late),
            strays=await self._onlooker.strays(),
            min_seconds=min(late + missing),
            p50_seconds=percentile(late + missing, 0.5),
            p99_seconds=percentile(late + missing, 0.99),
            max_seconds=max(late + missing),
            cpu_seconds=max(one.cpu_seconds for one in each),
            peak_mib=self._replicas.peak_mib,
            each=each,
        )
        say(
            f"  {turn.followed} {SAYING[way]}: p50 {turn.p50_seconds:.2f} s, p99 {turn.p99_seconds:.2f} s, "
            f"last {turn.max_seconds:.2f} s; {turn.cpu_seconds:.2f} CPU s, {turn.peak_mib:.0f} MiB"
        )
        return turn


class Trial:
    """All bars on one cluster, which grows in between."""

    def __init__(self, cluster: ControlPlane, ward: Ward, staff: Staff) -> None:
        self._cluster = cluster
        self._ward = ward
        self._staff = staff

    async def run(self, nodes: int, watched_seconds: float) -> Remediating:
        """`nodes` below the whole fleet is a trial."""
        turns: list[Turn] = []
        there = 0
        for bar in _scaled(nodes):
            if bar.nodes > there:
                say(f"Making {bar.nodes - there:,} nodes")
                await write("nodes", self._cluster.kubeconfig, nodes=bar.nodes, first=there)
                there = bar.nodes
            turns += await self._turn(bar)
        watched = await self._watch_over(there, watched_seconds)
        return Remediating(judged=nodes >= WHOLE_FLEET, turns=turns, watched=watched, verdicts=verdicts(turns, watched))

    async def _turn(self, bar: Bar) -> list[Turn]:
        """With an operator that has just been started, so that the most memory it used is for this bar."""
        async with (
            self._staff() as replicas,
            looking_on("remediations", self._cluster.token_kubeconfig(ONLOOKER)) as onlooker,
        ):
            await self._ward.until(f"all {bar.nodes:,} nodes are healthy", all_watched(bar.nodes), SETTLED_WITHIN)
            await replicas.until_quiet()
            one = Round(self._cluster.kubeconfig, self._ward, replicas, onlooker, bar)
            return [await one.fail(), await one.recover()]

    async def _watch_over(self, nodes: int, seconds: float) -> Watched:
        pace = min(HEARTBEATS_PER_SECOND, nodes / 10)
        say(f"A check over {nodes:,} healthy nodes with {pace:.0f} heartbeats/s, for {seconds:.0f} s")
        await write("heartbeats", self._cluster.kubeconfig, nodes=nodes)
        length = seconds + STARTED_WITHIN + SETTLED_WITHIN + 2 * WARM_UP_SECONDS  # not to end before what is measured
        async with (
            writing("life", self._cluster.kubeconfig, nodes=nodes, pace=pace, seconds=length) as writer,
            self._staff() as replicas,
        ):
            await self._ward.until(f"all {nodes:,} nodes are healthy", all_watched(nodes), SETTLED_WITHIN)
            await asyncio.sleep(WARM_UP_SECONDS)  # until the writer has its pace and the start is over
            written = await writes_made(self._ward.client)
            await replicas.begin()
            await asyncio.sleep(seconds)  # the load over this time is what is measured
            each = await replicas.spent()
            written = await writes_made(self._ward.client) - written
            if writer.returncode is not None:
                raise BenchFailed("the writer ended too early; its own words are above")
            return Watched(
                nodes=nodes,
                seconds=seconds,
                cpu_share=max(one.cpu_seconds for one in each) / seconds,
                heartbeats_per_second=min(one.counted.heartbeats for one in each) / seconds,
                heartbeats_per_second_wanted=pace,
                node_events_per_second=min(one.counted.node_events for one in each) / seconds,
                passes_per_second=max(one.counted.passes for one in each) / seconds,
                writes=written,
                resident_mib=replicas.resident_mib,
                each=each,
            )


async def remediate(cluster: ControlPlane, nodes: int, watched_seconds: float) -> Remediating:
    say("Installing the kinds, a template and a check over all nodes")
    async with warded(cluster) as ward:
        return await Trial(cluster, ward, lambda: one_replica(cluster)).run(nodes, watched_seconds)


def _scaled(nodes: int) -> Iterator[Bar]:
    """The bars, cut down to a fleet of so many nodes."""
    for bar in BARS:
        size = min(bar.nodes, nodes)
        yield Bar(
            nodes=size,
            turning=max(bar.turning * size // bar.nodes, 1),
            p99_seconds=bar.p99_seconds,
            cpu_seconds=bar.cpu_seconds,
        )
