"""The demo's stage: a simulated cluster with pods on it, the real operator, and the plot that takes a node its power."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from itertools import cycle
from typing import NoReturn

import msgspec

from defib.app import Operator
from defib.cli.demo_story import KUBERNETES, POWER, Spoken, deeds, pods_said
from defib.cli.demo_view import Outage, Pace, Scene
from defib.clock import Clock
from defib.config import Settings
from defib.decide.defaults import PATIENCE
from defib.decide.explain import explain
from defib.hollow.site import in_zones
from defib.hollow.timers import Timers
from defib.model import medik8s
from defib.model.duration import read_duration
from defib.model.pod_failover import DEFAULT_CHECK
from defib.model.verdict import State
from defib.picture import STORY_LENGTH
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.store import ADDED, Change, Object
from defib.simulate.workloads import WorkloadTimers
from defib.simulate.workloads.hands import Hands
from defib.telemetry.metrics import Metrics

ZONES, NODES_PER_ZONE = "abc", 3
REPLICAS = 18  # two on each node
LOOK_SECONDS = 0.05
START_SECONDS = 30.0  # on a machine that has more to do

# The story, in seconds of the cluster; at the speed of the demo they pass faster.
CALM_SECONDS = 45.0
OUTAGE_SECONDS = 150.0
RECOVERY_SECONDS = 90.0

WEB: Object = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
        },
    },
}


class Stage:
    def __init__(self, clock: Clock, speed: float, definitions: Iterable[Object]) -> None:
        self._clock = clock
        nodes, workloads = Timers().faster(speed), WorkloadTimers().faster(speed)
        self._pace = Pace(
            speed=speed,
            grace_seconds=nodes.grace_seconds,
            patience_seconds=read_duration(PATIENCE).total_seconds() / speed,
            toleration_seconds=workloads.toleration_seconds,
        )
        machines = in_zones(ZONES, NODES_PER_ZONE)
        self.cluster = SimulatedCluster(clock, nodes, machines, workloads)
        # Drawn before anything runs: whatever else is drawn later, a seed gives the same order.
        self._victims = cycle(sorted((machine.name for machine in machines), key=lambda _: clock.jitter(1.0)))
        # Frequent passes, since heartbeats alone do not cause one and the table shows their age.
        settings = Settings(resync_seconds=0.25)
        self.operator = Operator(self.cluster.transport("defib"), clock, settings, Metrics())
        self._furnish(settings.namespace, definitions)
        self._outage: Outage | None = None
        self._wanted = REPLICAS
        self._is_served = asyncio.Event()  # so many pods are ready, and none of them on a node without power
        self._lines: deque[Spoken] = deque(maxlen=STORY_LENGTH)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cluster.run(), name="cluster")
            group.create_task(self.operator.run(), name="operator")
            group.create_task(self._follow(), name="story")
            group.create_task(self._plot(), name="plot")

    def scene(self, kubeconfig: str) -> Scene:
        return Scene(
            now=self._clock.now(),
            picture=self.operator.picture,
            lines=tuple(self._lines),
            outage=self._outage,
            pods=self.cluster.ready_pods(),
            machines=len(self.cluster.nodes),
            replicas=REPLICAS,
            pace=self._pace,
            kubeconfig=kubeconfig,
        )

    def _furnish(self, namespace: str, definitions: Iterable[Object]) -> None:
        """What a person would apply: our kinds, our namespace, and something that is worth keeping alive."""
        server = self.cluster.server
        for definition in definitions:
            server.put(DEFINITIONS, definition)
        server.put("namespaces", {"metadata": {"name": namespace}})
        server.put("deployments.apps", WEB)
        server.reactions.append(self._hurry)

    def _hurry(self, change: Change) -> None:
        """The operator gives itself a check, as in any cluster without one. Here its patience runs as fast as the rest."""
        check = change.now.object
        if (change.resource, change.kind, check["metadata"]["name"]) == (medik8s.CHECKS, ADDED, DEFAULT_CHECK):
            wanted = {"duration": f"{self._pace.patience_seconds:g}s"}
            conditions = [condition | wanted for condition in check["spec"]["unhealthyConditions"]]
            Hands(self.cluster.server, "demo").patch(
                medik8s.CHECKS, check, {"spec": {"unhealthyConditions": conditions}}
            )

    async def _plot(self) -> NoReturn:
        await self._until_served(START_SECONDS)
        for victim in self._victims:
            await asyncio.sleep(CALM_SECONDS / self._pace.speed)
            self._lose_power(victim)
            await asyncio.sleep(OUTAGE_SECONDS / self._pace.speed)
            # Where somebody pulled the brake, the node stays away until Kubernetes itself gives its pods up.
            await self._until_served(2 * self._pace.alone_seconds)
            self._return_power(victim)
            await asyncio.sleep(RECOVERY_SECONDS / self._pace.speed)
            self._outage = None
        raise AssertionError("there is always another one")

    def _lose_power(self, victim: str) -> None:
        pods = self.cluster.ready_pods()
        self.cluster.nodes[victim].machine.set_power(False)
        self._outage = Outage(node=victim, since=self._clock.now(), pods=pods[victim])
        self._wanted = pods.total()  # whatever somebody has made of the Deployment meanwhile
        if pods[victim]:
            self._is_served.clear()
        self._say(POWER, f"{victim} loses its power", bad=True)

    async def _until_served(self, seconds: float) -> None:
        """At most so long: then the story goes on without."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_served.wait()
        except TimeoutError:
            return

    def _return_power(self, victim: str) -> None:
        assert self._outage is not None
        self.cluster.nodes[victim].machine.set_power(True)
        self._outage = msgspec.structs.replace(self._outage, has_power=True)
        self._say(POWER, f"{victim} has power again and boots")

    async def _follow(self) -> NoReturn:
        """The operator does not call when its picture changes, so it is looked at often."""
        seen = self.operator.picture
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            before, seen = seen, self.operator.picture
            self._lines.extend(deeds(before, seen, self._clock.now()))
            if not self._is_served.is_set() and self._is_all_served(self.cluster.ready_pods()):
                self._is_served.set()
                self._tell_failover()

    def _is_all_served(self, pods: Counter[str]) -> bool:
        lost = pods[self._outage.node] if self._outage is not None and not self._outage.has_power else 0
        return pods.total() - lost >= self._wanted

    def _tell_failover(self) -> None:
        outage = self._outage
        if outage is None or outage.has_power:
            return
        seconds = (self._clock.now() - outage.since).total_seconds()
        picture = self.operator.picture
        verdicts = explain(outage.node, picture.cluster, picture.plan)
        by_defib = any(verdict.state is State.REMEDIATING for verdict in verdicts)
        self._outage = msgspec.structs.replace(outage, served_after_seconds=seconds, by_defib=by_defib)
        alone = f"; without Defib: about {self._pace.alone_seconds:.3g} s" if by_defib else ""
        self._say(KUBERNETES, f"{pods_said(outage.pods)} run elsewhere after {seconds:.1f} s{alone}")

    def _say(self, by: str, text: str, *, bad: bool = False) -> None:
        self._lines.append(Spoken(self._clock.now(), by, text, bad))
