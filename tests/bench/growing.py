"""A cluster grows, and in each size one node fails, and then many at once: what that takes, on a real API server.

The operator, the writer and the onlooker are processes of their own. Heartbeats go on all the time, as in life.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence

from defib.clock import SystemClock
from testbed.cluster import ControlPlane
from tests.bench.growth import (
    FALLS,
    FOLLOWED_WITHIN,
    SECONDS,
    SIZES,
    Fallen,
    Growing,
    Step,
    failing_of,
    fallen_of,
    middle_of,
    pace_of,
    verdicts,
)
from tests.bench.moments import CREATED, DELETED, Moment, moments_of
from tests.bench.onlooker import Onlooker, looking_on
from tests.bench.processes import WRITTEN_WITHIN, BenchFailed, say, write, writing
from tests.bench.replica import QUIET_CPU_SECONDS, Replica, operating
from tests.bench.stretches import Stretch, between, meter_of
from tests.bench.ward import UNHEALTHY_AFTER_SECONDS, Ward, all_remediated, all_watched, warded

ONLOOKER = "token-admin"
READY_WITHIN = 300.0  # on a busy machine the API server takes its time to list so many nodes
SETTLED_WITHIN = 120.0
WARM_UP_SECONDS = 15.0
LIFE_SECONDS = 3600.0  # longer than any run; it is ended with it
QUIET_TIMES = 1.5  # so many times what it uses at rest is still rest: passes come in waves


async def grow(cluster: ControlPlane, sizes: Sequence[int], seconds: float) -> Growing:
    say("Installing the kinds, a template and a check over all nodes")
    steps: list[Step] = []
    async with warded(cluster) as ward:
        there = 0
        for nodes in sizes:
            say(f"{nodes:,} nodes, {pace_of(nodes):.0f} heartbeats a second")
            await write("nodes", cluster.kubeconfig, nodes=nodes, first=there)
            await write("heartbeats", cluster.kubeconfig, nodes=nodes, first=there)
            there = nodes
            steps.append(await _step(cluster, ward, nodes, seconds))
    is_whole = tuple(sizes) == SIZES and seconds >= SECONDS
    return Growing(judged=is_whole, steps=steps, verdicts=verdicts(steps))


async def _step(cluster: ControlPlane, ward: Ward, nodes: int, seconds: float) -> Step:
    load, _, _ = os.getloadavg()
    pace = pace_of(nodes)
    async with (
        looking_on("remediations", cluster.token_kubeconfig(ONLOOKER)) as onlooker,
        writing("life", cluster.kubeconfig, nodes=nodes, pace=pace, seconds=LIFE_SECONDS) as life,
    ):
        await asyncio.sleep(nodes / pace)  # until each has renewed once, and its Lease says how often it will
        async with operating(cluster.kubeconfig, cluster.directory / "operator.log") as replica:
            found = await Size(cluster, ward, replica, onlooker, nodes).measure(seconds, load)
        if life.returncode is not None:
            raise BenchFailed("the writer of heartbeats ended too early; its own words are above")
        return found


class Size:
    """A cluster that has so many nodes."""

    def __init__(self, cluster: ControlPlane, ward: Ward, replica: Replica, onlooker: Onlooker, nodes: int) -> None:
        self._kubeconfig = cluster.kubeconfig
        self._ward = ward
        self._replica = replica
        self._onlooker = onlooker
        self._nodes = nodes
        self._clock = SystemClock()

    async def measure(self, seconds: float, load: float) -> Step:
        began = self._clock.monotonic()
        await self._replica.until_ready(READY_WITHIN)
        ready_after = self._clock.monotonic() - began
        await self._ward.until(f"all {self._nodes:,} nodes are healthy", all_watched(self._nodes), SETTLED_WITHIN)
        started = self._replica.cpu_seconds
        rest = await self._rest(seconds)
        one = await self._fall(1, rest)
        many, others = middle_of([await self._fall(failing_of(self._nodes), rest) for _ in range(FALLS)])
        return Step(
            nodes=self._nodes,
            pace=pace_of(self._nodes),
            start_seconds=ready_after,
            start_cpu_seconds=started,
            rest=rest,
            one=one,
            many=many,
            others=others,
            peak_mib=self._replica.peak_mib,
            load=load,
        )

    async def _rest(self, seconds: float) -> Stretch:
        await asyncio.sleep(WARM_UP_SECONDS)  # until the start is over and the writer has its pace
        before = await meter_of(self._replica)
        await asyncio.sleep(seconds)  # the cost over this time is what is measured
        one = between(before, await meter_of(self._replica), self._replica.resident_mib)
        say(
            f"  at rest: {100 * one.cpu_share:.1f} % of a core, {one.heartbeats / one.seconds:.0f} renewals/s, "
            f"{one.resident_mib:.0f} MiB"
        )
        return one

    async def _fall(self, failing: int, rest: Stretch) -> Fallen:
        """They fail, have their remediations, and are well again."""
        quiet = QUIET_CPU_SECONDS + QUIET_TIMES * rest.cpu_share
        await self._replica.until_quiet(quiet)
        before = await meter_of(self._replica)
        since = int(self._clock.now().timestamp())
        written = await self._write("failures", failing, since)
        # On a busy machine a failure may be written later than its node is due by the time that it names.
        late = await self._lateness({one.node: max(one.at, since + UNHEALTHY_AFTER_SECONDS) for one in written})
        if len(late) == failing:
            await self._ward.until(f"{failing} are remediated", all_remediated(failing), SETTLED_WITHIN)
        await self._replica.until_quiet(quiet)
        used = between(before, await meter_of(self._replica), self._replica.resident_mib)
        strays = await self._onlooker.strays()
        await self._recover(failing)
        fallen = fallen_of(failing, late, strays, used, rest)
        say(
            f"  {failing} of {self._nodes:,} fail: p50 {fallen.p50_seconds:.2f} s, last {fallen.max_seconds:.2f} s, "
            f"{fallen.cpu_seconds:.2f} CPU s, {fallen.requests:.0f} requests, {self._replica.peak_mib:.0f} MiB"
        )
        return fallen

    async def _write(self, what: str, count: int, at: int) -> list[Moment]:
        async with writing(what, self._kubeconfig, nodes=self._nodes, count=count, at=at) as writer:
            return await moments_of(writer, WRITTEN_WITHIN)

    async def _lateness(self, due: Mapping[str, float]) -> list[float]:
        left = max(due.values()) + FOLLOWED_WITHIN - self._clock.now().timestamp()
        seen = await self._onlooker.see(CREATED, due.keys(), left)
        self._replica.fail_if_dead()
        if len(seen) < len(due):
            say(f"only {len(seen)} of {len(due)} had a remediation within {FOLLOWED_WITHIN:.0f} s")
        return [at - due[node] for node, at in seen.items()]

    async def _recover(self, count: int) -> None:
        names = [one.node for one in await self._write("recoveries", count, int(self._clock.now().timestamp()))]
        await self._onlooker.see(DELETED, names, FOLLOWED_WITHIN)
        await self._ward.until(f"all {self._nodes:,} nodes are healthy", all_watched(self._nodes), SETTLED_WITHIN)
