"""Many nodes are drained at once, with pods that their budgets keep: what our operator costs meanwhile, on a real API server.

No controller runs: the bench cordons, makes budgets, and writes how many pods these let go. First nobody drains, to know
what the operator costs anyway; then somebody does, and has time; then Defib is to help, and all budgets refuse; then they
all let go at once, and whatever is terminating is gone at once.
"""

import asyncio
import os
from collections import Counter
from itertools import cycle
from typing import Any

import msgspec

from defib.clock import SystemClock
from defib.decide.drains.intent import UNSCHEDULABLE
from defib.decide.drains.waiting import ASKED_FOR
from defib.kube.client import Client, Merge
from defib.kube.errors import NotFound
from defib.kube.http import connect
from defib.kube.kinds import NODES, PODS, unstructured
from defib.kube.transport import MERGE_PATCH, Request, Transport
from defib.model.drain_policy import POLICY
from defib.model.node_drain import WATCH_MARK, Phase
from testbed.cluster import ControlPlane
from tests.bench import fleet
from tests.bench.drained import (
    ASKING,
    BETWEEN_SECONDS,
    LEAVING,
    RESTING,
    WAITING,
    WATCHING,
    Crowd,
    Draining,
    verdicts,
)
from tests.bench.kubelets import end_pods
from tests.bench.processes import ROOT, BenchFailed, say, write, writing
from tests.bench.replica import Replica, operating
from tests.bench.stretches import Meter, Stretch, between, meter_of
from tests.bench.ward import LOOK_EVERY, MANIFESTS, SERVED_WITHIN, kubectl
from tests.bench.writer import Pen

POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", POLICY.name, namespaced=False)
DRAINS = unstructured("defib.dev", "v1alpha1", "nodedrains", "NodeDrain", namespaced=False)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
NAME = "bench"
HASH = "pod-template-hash"  # the label by which the pods of a node are known here

SETTLED_WITHIN = 300.0
ROOM = 2  # nobody here counts anew what an eviction took that was given up half way
ASKED_SECONDS = ASKED_FOR.total_seconds() + 15.0  # until nobody asks for the first time any more
RENEW_SECONDS = 10.0
COUNTED_EVERY_SECONDS = 1.0
WARM_UP_SECONDS = 10.0
LIFE_SECONDS = 3600.0  # longer than any run; it is ended with it

OTHERS: fleet.Json = {
    "metadata": {"name": "others"},
    "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "others"}}},
}


class Listed(msgspec.Struct, frozen=True):
    items: list[dict[str, Any]]


def a_policy(crowd: Crowd) -> fleet.Json:
    return {"metadata": {"name": NAME}, "spec": {"maxForcedNodes": crowd.draining}}


def a_budget(number: int) -> fleet.Json:
    """Of all pods of a node."""
    labels = fleet.a_pod(number, 0)["metadata"]["labels"]
    selector = {"matchLabels": {HASH: labels[HASH]}}
    return {"metadata": {"name": budget_name(number)}, "spec": {"minAvailable": "100%", "selector": selector}}


def budget_name(number: int) -> str:
    return f"endpoint-{number}"


def a_count(pods: int, allowed: int) -> fleet.Json:
    """What the disruption controller writes into a budget that nobody has changed since."""
    counted = {"expectedPods": pods, "currentHealthy": pods, "desiredHealthy": max(pods - allowed, 0)}
    return {"status": counted | {"disruptionsAllowed": allowed, "observedGeneration": 1}}


class Crew:
    """Whoever drains the nodes, and whoever owns the pods on them."""

    def __init__(self, crowd: Crowd, transport: Transport) -> None:
        self._crowd = crowd
        self._client = Client(transport, SystemClock())
        self._pen = Pen(transport)
        self._numbers = fleet.spread(crowd.nodes, crowd.draining)

    async def ask_for_help(self) -> None:
        """The API server learns of a kind a moment after it took its definition."""
        try:
            async with asyncio.timeout(SERVED_WITHIN):
                while not await self._created():  # noqa: ASYNC110  the server does not tell
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            raise BenchFailed(f"{POLICIES} were not served within {SERVED_WITHIN:.0f} s") from None

    async def _created(self) -> bool:
        try:
            await self._client.create(POLICIES, a_policy(self._crowd))
        except NotFound:
            return False
        return True

    async def protect(self) -> None:
        """Budgets that let no pod go."""
        path = BUDGETS.collection(fleet.POD_NAMESPACE)
        budgets = (_creation(path, a_budget(number)) for number in self._numbers)
        await self._pen.write("budgets", budgets, self._crowd.draining)
        await self._pen.send(_creation(path, OTHERS))
        await self.allow(0)

    async def allow(self, pods: int) -> None:
        """So many of each budget may go now."""
        paths = (BUDGETS.at(budget_name(number), fleet.POD_NAMESPACE).path("status") for number in self._numbers)
        count = a_count(self._crowd.pods_each, pods)
        await self._pen.write("counts of budgets", (_merge(path, count) for path in paths), self._crowd.draining)

    async def count_others(self) -> None:
        """Until cancelled. Somewhere in a cluster of this size a pod comes or goes all the time, and its budget is counted."""
        path = BUDGETS.at(OTHERS["metadata"]["name"], fleet.POD_NAMESPACE).path("status")
        for healthy in cycle(range(2, 4)):
            count = {
                "expectedPods": 3,
                "currentHealthy": healthy,
                "desiredHealthy": 2,
                "disruptionsAllowed": healthy - 2,
            }
            await self._pen.send(_merge(path, {"status": count | {"observedGeneration": 1}}))
            await asyncio.sleep(COUNTED_EVERY_SECONDS)  # the pace is part of what is measured

    async def drain(self) -> None:
        """As kubectl does, with the mark by which Defib knows, and the taint that Kubernetes makes of it."""
        paths = (NODES.at(fleet.name_of(number)).path() for number in self._numbers)
        taint = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": fleet.stamp(SystemClock().now())}
        spec = {"unschedulable": True, "taints": [taint]}
        body = {"metadata": {"annotations": {WATCH_MARK: "true"}}, "spec": spec}
        await self._pen.write("cordons", (_merge(path, body) for path in paths), self._crowd.draining)

    async def lose_patience(self) -> None:
        """From now on Defib is to help, wherever nothing else stands against it."""
        await self._client.patch(POLICIES.at(NAME), Merge({"spec": {"timeout": "0s"}}))

    async def until_all(self, phase: Phase) -> None:
        found: Counter[str] = Counter()
        try:
            async with asyncio.timeout(SETTLED_WITHIN):
                while (found := await self._phases())[phase.value] < self._crowd.draining:  # noqa: ASYNC110  others do it
                    await asyncio.sleep(LOOK_EVERY)
        except TimeoutError:
            missed = f"not all drains were {phase.value} within {SETTLED_WITHIN:.0f} s: {dict(found)}"
            raise BenchFailed(missed) from None

    async def _phases(self) -> Counter[str]:
        answer = await self._client.ask(Request(method="GET", path=DRAINS.collection()))
        items = msgspec.json.decode(answer, type=Listed).items
        return Counter((item.get("status") or {}).get("phase", "") for item in items)

    async def pods_left(self) -> int:
        path = PODS.collection(fleet.POD_NAMESPACE)
        answer = await self._client.ask(Request(method="GET", path=path))
        return len(msgspec.json.decode(answer, type=Listed).items)


def _creation(path: str, body: fleet.Json) -> Request:
    return Request(method="POST", path=path, query={"fieldManager": NAME}, body=msgspec.json.encode(body))


def _merge(path: str, body: fleet.Json) -> Request:
    encoded = msgspec.json.encode(body)
    return Request(method="PATCH", path=path, query={"fieldManager": NAME}, body=encoded, content_type=MERGE_PATCH)


class Trial:
    """One operator, from before the drains to their end."""

    def __init__(self, crowd: Crowd, crew: Crew, replica: Replica, seconds: float) -> None:
        self._crowd = crowd
        self._crew = crew
        self._replica = replica
        self._seconds = seconds
        self._stretches: dict[str, Stretch] = {}

    async def run(self) -> dict[str, Stretch]:
        crowd, crew = self._crowd, self._crew
        await self._rest(RESTING)
        say(f"{crowd.draining} nodes with {crowd.pods:,} pods are drained; whoever does that has time")
        await crew.drain()
        await crew.until_all(Phase.WATCHING)
        await self._rest(WATCHING)
        say("Defib is to help, and every budget refuses")
        before = await meter_of(self._replica)
        await crew.lose_patience()
        await crew.until_all(Phase.FORCING)
        await asyncio.sleep(ASKED_SECONDS)  # the end of that is what is waited for
        await self._note(ASKING, before)
        await self._rest(WAITING)
        say("All budgets let go")
        before = await meter_of(self._replica)
        await crew.allow(ROOM * crowd.pods_each)
        await crew.until_all(Phase.DRAINED)
        await self._note(LEAVING, before)
        return self._stretches

    async def _rest(self, what: str) -> None:
        await asyncio.sleep(WARM_UP_SECONDS)  # until whatever came before is over
        before = await meter_of(self._replica)
        await asyncio.sleep(self._seconds)  # the cost over this time is what is measured
        await self._note(what, before)

    async def _note(self, what: str, before: Meter) -> None:
        one = between(before, await meter_of(self._replica), self._replica.resident_mib)
        self._stretches[what] = one
        say(
            f"  {what}: {one.seconds:.0f} s, {100 * one.cpu_share:.1f} % of a core, {one.passes} passes, "
            f"{dict(one.requests)}, {one.asked} evictions asked for, {one.resident_mib:.0f} MiB"
        )


async def drain(cluster: ControlPlane, crowd: Crowd, seconds: float = BETWEEN_SECONDS) -> Draining:
    transport = await connect(cluster.kubeconfig, None, os.environ, SystemClock())
    try:
        crew = Crew(crowd, transport)
        await _furnish(cluster, crowd, crew)
        pace = crowd.nodes / RENEW_SECONDS
        load_before, _, _ = os.getloadavg()
        async with (
            writing("life", cluster.kubeconfig, nodes=crowd.nodes, pace=pace, seconds=LIFE_SECONDS) as life,
            operating(cluster.kubeconfig, cluster.directory / "operator.log") as replica,
        ):
            await replica.until_ready()
            stretches = await _in_company(Trial(crowd, crew, replica, seconds), crew, transport)
            if life.returncode is not None:
                raise BenchFailed("the writer of heartbeats ended too early; its own words are above")
            load_after, _, _ = os.getloadavg()
            return Draining(
                crowd=crowd,
                judged=crowd.is_whole and seconds >= BETWEEN_SECONDS,
                load_before=load_before,
                load_after=load_after,
                stretches=stretches,
                peak_mib=replica.peak_mib,
                verdicts=verdicts(crowd, stretches, await crew.pods_left(), pace),
            )
    finally:
        await transport.close()


async def _in_company(trial: Trial, crew: Crew, transport: Transport) -> dict[str, Stretch]:
    """With kubelets, and with budgets of others."""
    async with asyncio.TaskGroup() as group:
        kubelets = group.create_task(end_pods(Client(transport, SystemClock())))
        counting = group.create_task(crew.count_others())
        try:
            found: dict[str, Stretch] | BenchFailed = await trial.run()
        except BenchFailed as error:  # not raised here, where it would be one of a group
            found = error
        kubelets.cancel()
        counting.cancel()
    if isinstance(found, BenchFailed):
        raise found
    return found


async def _furnish(cluster: ControlPlane, crowd: Crowd, crew: Crew) -> None:
    say(f"Installing the kinds, one policy, {crowd.nodes:,} nodes and their heartbeats")
    await kubectl(cluster, "apply", *(text for path in MANIFESTS for text in ("-f", str(ROOT / path))))
    await cluster.wait_for_namespace(fleet.POD_NAMESPACE)
    await crew.ask_for_help()
    await write("nodes", cluster.kubeconfig, nodes=crowd.nodes)
    await write("heartbeats", cluster.kubeconfig, nodes=crowd.nodes)
    say(f"{crowd.pods:,} pods, and a budget for those of each node that lets none go")
    await write("pods", cluster.kubeconfig, nodes=crowd.nodes, count=crowd.draining, each=crowd.pods_each)
    await crew.protect()
