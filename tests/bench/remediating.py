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
from tests.bench.replica import Replica, operating
from tests.bench.turns import BARS, SAYING, Bar, Remediating, Turn, Watched, Way, percentile, verdicts
from tests.bench.ward import UNHEALTHY_AFTER_SECONDS, Ward, all_remediated, all_watched, warded

ONLOOKER = "token-admin"
WHOLE_FLEET = max(bar.nodes for bar in BARS)
SETTLED_WITHIN = 60.0
FOLLOWED_WITHIN = 120.0
WATCHED_SECONDS = 60.0
WARM_UP_SECONDS = 10.0
HEARTBEATS_PER_SECOND = 300.0


class Round:
    """One bar: so many nodes fail, then recover, under the eyes of an onlooker."""

    def __init__(self, kubeconfig: Path, ward: Ward, replica: Replica, onlooker: Onlooker, bar: Bar) -> None:
        self._kubeconfig = kubeconfig
        self._ward = ward
        self._replica = replica
        self._onlooker = onlooker
        self._bar = bar
        self._clock = SystemClock()

    async def fail(self) -> Turn:
        say(f"{self._bar} nodes turn Unknown; after {UNHEALTHY_AFTER_SECONDS} s each is due")
        before = self._replica.cpu_seconds
        since = int(self._clock.now().timestamp())
        written = await self._write("failures", since)
        due = {moment.node: float(since + UNHEALTHY_AFTER_SECONDS) for moment in written}
        late = await self._lateness(CREATED, due)
        if len(late) == len(due):
            await self._ward.until(f"{len(due)} are remediated", all_remediated(len(due)), SETTLED_WITHIN)
        return await self._turn("fail", late, before)

    async def recover(self) -> Turn:
        nodes = self._bar.nodes
        say(f"The {self._bar} nodes are Ready again")
        before = self._replica.cpu_seconds
        written = await self._write("recoveries", int(self._clock.now().timestamp()))
        due = {moment.node: moment.at for moment in written}
        late = await self._lateness(DELETED, due)
        if len(late) == len(due):
            await self._ward.until(f"all {nodes:,} nodes are healthy again", all_watched(nodes), SETTLED_WITHIN)
        return await self._turn("recover", late, before)

    async def _write(self, what: str, at: int) -> list[Moment]:
        bar = self._bar
        async with writing(what, self._kubeconfig, nodes=bar.nodes, count=bar.turning, at=at) as writer:
            return await moments_of(writer, WRITTEN_WITHIN)

    async def _lateness(self, what: str, due: Mapping[str, float]) -> list[float]:
        """Of each that happened, up to the last one, or until it makes no sense to wait for more."""
        left = max(due.values()) + FOLLOWED_WITHIN - self._clock.now().timestamp()
        seen = await self._onlooker.see(what, due.keys(), left)
        self._replica.fail_if_dead()
        if len(seen) < len(due):
            say(f"only {len(seen)} of {len(due)} within {FOLLOWED_WITHIN:.0f} s")
        return [at - due[node] for node, at in seen.items()]

    async def _turn(self, way: Way, late: list[float], cpu_before: float) -> Turn:
        await self._replica.until_quiet()
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
            cpu_seconds=self._replica.cpu_seconds - cpu_before,
            peak_mib=self._replica.peak_mib,
        )
        say(
            f"  {turn.followed} {SAYING[way]}: p50 {turn.p50_seconds:.2f} s, p99 {turn.p99_seconds:.2f} s, "
            f"last {turn.max_seconds:.2f} s; {turn.cpu_seconds:.2f} CPU s, {turn.peak_mib:.0f} MiB"
        )
        return turn


async def remediate(cluster: ControlPlane, nodes: int, watched_seconds: float) -> Remediating:
    """All bars on one cluster, which grows in between; `nodes` below the whole fleet is a trial."""
    say("Installing the kinds, a template and a check over all nodes")
    turns: list[Turn] = []
    there = 0
    async with warded(cluster) as ward:
        for bar in _scaled(nodes):
            if bar.nodes > there:
                say(f"Making {bar.nodes - there:,} nodes")
                await write("nodes", cluster.kubeconfig, nodes=bar.nodes, first=there)
                there = bar.nodes
            turns += await turn(cluster, ward, bar)
        watched = await watch_over(cluster, ward, there, watched_seconds)
    return Remediating(judged=nodes >= WHOLE_FLEET, turns=turns, watched=watched, verdicts=verdicts(turns, watched))


async def turn(cluster: ControlPlane, ward: Ward, bar: Bar) -> list[Turn]:
    """With an operator that has just been started, so that the most memory it used is for this bar."""
    async with (
        operating(cluster.kubeconfig, cluster.directory / "operator.log") as replica,
        looking_on("remediations", cluster.token_kubeconfig(ONLOOKER)) as onlooker,
    ):
        await ward.until(f"all {bar.nodes:,} nodes are healthy", all_watched(bar.nodes), SETTLED_WITHIN)
        await replica.until_quiet()
        one = Round(cluster.kubeconfig, ward, replica, onlooker, bar)
        return [await one.fail(), await one.recover()]


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


async def watch_over(cluster: ControlPlane, ward: Ward, nodes: int, seconds: float) -> Watched:
    pace = min(HEARTBEATS_PER_SECOND, nodes / 10)
    say(f"A check over {nodes:,} healthy nodes with {pace:.0f} heartbeats/s, for {seconds:.0f} s")
    await write("heartbeats", cluster.kubeconfig, nodes=nodes)
    length = seconds + SETTLED_WITHIN + 2 * WARM_UP_SECONDS  # it must not end before what is measured
    async with (
        writing("life", cluster.kubeconfig, nodes=nodes, pace=pace, seconds=length) as writer,
        operating(cluster.kubeconfig, cluster.directory / "operator.log") as replica,
    ):
        await ward.until(f"all {nodes:,} nodes are healthy", all_watched(nodes), SETTLED_WITHIN)
        await asyncio.sleep(WARM_UP_SECONDS)  # until the writer has its pace and the start is over
        before, cpu_before = await replica.counted(), replica.cpu_seconds
        await asyncio.sleep(seconds)  # the load over this time is what is measured
        cpu_after, after = replica.cpu_seconds, await replica.counted()
        if writer.returncode is not None:
            raise BenchFailed("the writer ended too early; its own words are above")
        return Watched(
            nodes=nodes,
            seconds=seconds,
            cpu_share=(cpu_after - cpu_before) / seconds,
            heartbeats_per_second=(after.heartbeats - before.heartbeats) / seconds,
            heartbeats_per_second_wanted=pace,
            node_events_per_second=(after.node_events - before.node_events) / seconds,
            passes_per_second=(after.passes - before.passes) / seconds,
            writes=after.writes - before.writes,
            resident_mib=replica.resident_mib,
        )
