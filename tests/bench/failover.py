"""Nodes full of pods fail, one after the other: how soon a PodFailoverPolicy has moved them, on a real API server.

The operator, the writer of heartbeats and the onlooker are processes of their own. Each node fails under an operator that
was just started and has come to rest: one that has handled another failure a moment ago has open connections left, and is
quicker than one that has not done anything for a month. First some fail that have the only pods of the cluster, to know how
much memory that takes; then all, beside many pods on nodes that stay well.
"""

import asyncio
import os
from collections.abc import Callable

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import unstructured
from defib.kube.transport import Transport
from defib.model.failover_policy import POLICY, PolicyStatus, State, read_policy_status
from testbed.cluster import ControlPlane
from tests.bench import fleet
from tests.bench.moments import DELETED
from tests.bench.moves import (
    FAILURES_ALONE,
    PODS_EACH,
    Failure,
    Moving,
    Scale,
    memory_of,
    since_seen,
    since_written,
    to_the_last,
    verdicts,
)
from tests.bench.onlooker import Onlooker, looking_on
from tests.bench.processes import ROOT, BenchFailed, say, write, writing
from tests.bench.replica import Replica, operating
from tests.bench.ward import LOOK_EVERY, MANIFESTS, SERVED_WITHIN, kubectl
from tests.bench.writer import Pen, taint, turns

ONLOOKER = "token-admin"
POLICIES = unstructured("defib.dev", "v1alpha1", "podfailoverpolicies", POLICY.name, namespaced=True)
NAME = "noobaa"
ONE_LINER = {"metadata": {"name": NAME}, "spec": {"selector": {"matchLabels": fleet.POD_LABELS}}}

SETTLED_WITHIN = 60.0
MOVED_WITHIN = 60.0
LIFE_SECONDS = 3600.0  # longer than any run; it is ended with it
RENEW_SECONDS = 10.0


class Team:
    """Whoever owns the policy: it reads what the policy says."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask_for_failover(self) -> None:
        """The API server learns of a kind a moment after it took its definition."""
        try:
            async with asyncio.timeout(SERVED_WITHIN):
                while not await self._created():  # noqa: ASYNC110  the server does not tell
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise BenchFailed(f"{POLICIES} were not served within {SERVED_WITHIN:.0f} s") from None

    async def until(self, what: str, holds: Callable[[PolicyStatus], bool]) -> None:
        said = PolicyStatus()
        try:
            async with asyncio.timeout(SETTLED_WITHIN):
                while not holds(said := await self._status()):  # noqa: ASYNC110  another process writes it
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise BenchFailed(f"the policy did not say within {SETTLED_WITHIN:.0f} s that {what}: {said}") from None

    async def _status(self) -> PolicyStatus:
        return read_policy_status(await self._client.get(POLICIES.at(NAME, fleet.POD_NAMESPACE)))

    async def _created(self) -> bool:
        try:
            await self._client.create(POLICIES, ONE_LINER, namespace=fleet.POD_NAMESPACE)
        except NotFound:
            return False
        return True


class Ordeal:
    """One operator, under which a node fails and comes back."""

    def __init__(self, replica: Replica, onlooker: Onlooker, team: Team, pen: Pen) -> None:
        self._replica = replica
        self._onlooker = onlooker
        self._team = team
        self._pen = pen
        self._clock = SystemClock()

    async def fail(self, number: int) -> Failure:
        name = fleet.name_of(number)
        pods = {fleet.pod_name(number, place) for place in range(PODS_EACH)}
        await self._team.until("no node has failed", is_quiet)
        await self._replica.until_quiet()
        before = self._replica.cpu_seconds
        now = self._clock.now()
        written = await self._turn(number, fleet.a_failure(now), fleet.a_taint(now))
        seen = await self._onlooker.see(DELETED, pods, MOVED_WITHIN)
        stayed = len(pods) - len(seen)
        if not stayed:
            await self._team.until(f"the pods of {name} are moved", is_moved)
        await self._replica.until_quiet()
        return Failure(
            node=name,
            since_written=[at - written for at in seen.values()] + [MOVED_WITHIN] * stayed,
            seen_after_seconds=self._replica.when_not_ready(name, written) - written,
            strays=await self._onlooker.strays(),
            stayed=stayed,
            cpu_seconds=self._replica.cpu_seconds - before,
            resident_mib=self._replica.resident_mib,
            peak_mib=self._replica.peak_mib,
        )

    async def recover(self, number: int) -> None:
        await self._turn(number, fleet.a_recovery(self._clock.now()), fleet.NO_TAINT)
        await self._team.until(f"{fleet.name_of(number)} is back", is_quiet)

    async def _turn(self, number: int, news: fleet.Json, taints: fleet.Json) -> float:
        """The moment when the news was answered. That the scheduler is told follows at once, as in Kubernetes."""
        for _, request in turns([number], news):
            await self._pen.send(request)
        answered = self._clock.now().timestamp()
        await self._pen.send(taint(number, taints))
        return answered


def is_quiet(status: PolicyStatus) -> bool:
    return status.failed_nodes == 0


def is_moved(status: PolicyStatus) -> bool:
    return bool(status.nodes) and all(one.state is State.MOVED for one in status.nodes or ())


class Scene:
    """The cluster, furnished and alive, in which operators are put to the test."""

    def __init__(self, cluster: ControlPlane, scale: Scale, transport: Transport) -> None:
        self._cluster = cluster
        self._scale = scale
        self._team = Team(Client(transport, SystemClock()))
        self._pen = Pen(transport)

    async def furnish(self) -> None:
        """All but pods."""
        nodes = self._scale.nodes
        say(f"Installing the kinds, one policy, {nodes:,} nodes and their heartbeats")
        await kubectl(self._cluster, "apply", *(text for path in MANIFESTS for text in ("-f", str(ROOT / path))))
        await self._cluster.wait_for_namespace(fleet.POD_NAMESPACE)
        await self._team.ask_for_failover()
        await write("nodes", self._cluster.kubeconfig, nodes=nodes)
        await write("heartbeats", self._cluster.kubeconfig, nodes=nodes)

    async def measure(self) -> Moving:
        scale, others = self._scale, self._scale.others
        alone = await self._fail(min(FAILURES_ALONE, scale.failures))
        say(f"{others:,} pods on nodes that stay well")
        await self._write("bystanders", count=scale.failures, each=scale.others_each)
        load_before, _, _ = os.getloadavg()
        failures = await self._fail(scale.failures)
        load_after, _, _ = os.getloadavg()
        without = memory_of(alone, len(alone) * PODS_EACH)
        beside = memory_of(failures, others + scale.failures * PODS_EACH)
        return Moving(
            scale=scale,
            judged=scale.is_whole,
            load_before=load_before,
            load_after=load_after,
            pods=since_written(failures),
            pods_since_seen=since_seen(failures),
            nodes=to_the_last(failures),
            cpu_seconds_each=sum(one.cpu_seconds for one in failures) / len(failures),
            memory_without=without,
            memory_with=beside,
            verdicts=verdicts(failures, without, beside),
        )

    async def _fail(self, failures: int) -> list[Failure]:
        """So many nodes, all over the fleet."""
        await self._write("pods", count=failures, each=PODS_EACH)
        async with looking_on("pods", self._cluster.token_kubeconfig(ONLOOKER)) as onlooker:
            return [await self._fail_one(number, onlooker) for number in fleet.spread(self._scale.nodes, failures)]

    async def _fail_one(self, number: int, onlooker: Onlooker) -> Failure:
        async with operating(self._cluster.kubeconfig, self._cluster.directory / "operator.log") as replica:
            ordeal = Ordeal(replica, onlooker, self._team, self._pen)
            failure = await ordeal.fail(number)
            await ordeal.recover(number)
        say(
            f"{failure.node}: not ready, seen after {failure.seen_after_seconds:.2f} s, "
            f"{PODS_EACH - failure.stayed} pods gone after {min(failure.since_written):.2f} to "
            f"{max(failure.since_written):.2f} s; {failure.cpu_seconds:.2f} CPU s, {failure.resident_mib:.0f} MiB"
        )
        return failure

    async def _write(self, what: str, *, count: int, each: int) -> None:
        await write(what, self._cluster.kubeconfig, nodes=self._scale.nodes, count=count, each=each)


async def move(cluster: ControlPlane, scale: Scale) -> Moving:
    transport = await connect(cluster.kubeconfig, None, os.environ, SystemClock())
    try:
        scene = Scene(cluster, scale, transport)
        await scene.furnish()
        pace = scale.nodes / RENEW_SECONDS
        async with writing("life", cluster.kubeconfig, nodes=scale.nodes, pace=pace, seconds=LIFE_SECONDS) as life:
            measured = await scene.measure()
            if life.returncode is not None:
                raise BenchFailed("the writer of heartbeats ended too early; its own words are above")
            return measured
    finally:
        await transport.close()
