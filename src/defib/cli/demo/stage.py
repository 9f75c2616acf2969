"""The demo's stage: a simulated cluster with machines, disks and workloads, two replicas of the real operator, and a script."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import NoReturn

import msgspec

from defib.cli.demo import furniture
from defib.cli.demo.cast import Cast
from defib.cli.demo.furniture import DATABASES, SHOP, WEB_PODS
from defib.cli.demo.scenes import SCENES, Pace, Scene
from defib.cli.demo.story import POWER, Spoken, deeds
from defib.clock import Clock
from defib.config import Settings
from defib.decide.defaults import DEFAULTS
from defib.hollow.attacher import StorageTimers
from defib.hollow.machine import Delays
from defib.hollow.nodes import HollowNodes
from defib.hollow.site import in_zones
from defib.hollow.timers import Timers
from defib.model.duration import read_duration
from defib.picture import STORY_LENGTH, Picture
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.store import Object
from defib.simulate.workloads import WorkloadTimers, pods

ZONES, NODES_PER_ZONE = "abc", 3
LOOK_SECONDS = 0.05
START_SECONDS = 30.0  # on a machine that has more to do
CALM_SECONDS = 40.0  # of the cluster's own time, between two scenes
FIRST_CALM_SECONDS = 20.0
LONGEST_DELAY_SECONDS = 0.3  # what a machine's power takes; slower ones would only make the show longer


class Stage:
    def __init__(self, clock: Clock, speed: float, definitions: Iterable[Object]) -> None:
        self.clock = clock
        nodes, workloads = Timers().faster(speed), WorkloadTimers().faster(speed)
        self.pace = Pace(
            speed=speed,
            grace_seconds=nodes.grace_seconds,
            patience_seconds=read_duration(DEFAULTS["on"].patience).total_seconds() / speed,
            toleration_seconds=workloads.toleration_seconds,
            drain_seconds=furniture.DRAIN_SECONDS / speed,
        )
        machines = in_zones(ZONES, NODES_PER_ZONE)
        blueprints = [msgspec.structs.replace(one, labels=dict(furniture.labels())) for one in machines]
        usual = StorageTimers()
        storage = StorageTimers(**{name: getattr(usual, name) / speed for name in usual.__struct_fields__})
        self.cluster = SimulatedCluster(clock, nodes, blueprints, workloads, storage)
        self.cast = Cast(self.cluster, clock, speed, furniture.DRIVER)
        # Drawn before anything runs: whatever else is drawn later, a seed gives the same order.
        self._victims = cycle(sorted(self.cluster.nodes, key=lambda _: clock.jitter(1.0)))
        self._furnish(definitions)
        self._wishes: deque[Scene] = deque(maxlen=1)
        self._wished = asyncio.Event()
        self.has_begun = False
        self.playing: Scene | None = None
        self.victims: tuple[str, ...] = ()
        self.failed_at = 0.0  # when the scene's machine failed
        self.lines: deque[Spoken] = deque(maxlen=STORY_LENGTH)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cluster.run(), name="cluster")
            group.create_task(self.cast.run(), name="replicas")
            group.create_task(self._follow(), name="story")
            group.create_task(self._plot(), name="plot")

    @property
    def nodes(self) -> HollowNodes:
        return self.cluster.nodes

    @property
    def picture(self) -> Picture | None:
        return self.cast.picture

    @property
    def caption(self) -> str:
        """One sentence or two about what is to be seen now, and why."""
        if self.playing is not None and (picture := self.picture) is not None:
            return self.playing.caption(self, picture)
        if not self.has_begun:
            return "The cluster starts: its nodes join, its pods are placed, a replica of Defib leads."
        return "All is well: every node answers, every pod runs. Press a key, or wait for what happens next."

    def ask_for(self, key: str) -> bool:
        """Somebody wants to see this next; whether there is such a scene."""
        scene = next((scene for scene in SCENES if scene.key == key), None)
        if scene is None:
            return False
        self._wishes.append(scene)
        self._wished.set()
        return True

    # What scenes do and look at.

    def fails(self, victim: str, how: str) -> None:
        """The scene's machine fails: it `hangs`, or `loses its power`."""
        self.victims, self.failed_at = (victim,), self.clock.monotonic()
        self.say(POWER, f"{victim} {how}", bad=True)

    def say(self, by: str, text: str, *, bad: bool = False) -> None:
        self.lines.append(Spoken(self.clock.now(), by, text, bad))

    def next_victim(self, wanted: Callable[[str], bool] = lambda _: True) -> str:
        """Each gets its turn, of those that are wanted."""
        for _ in range(len(self.nodes)):
            name = next(self._victims)
            if wanted(name):
                return name
        return next(self._victims)

    def zone(self, letter: str) -> Sequence[str]:
        return [name for name in self.nodes if name.startswith(f"zone-{letter}-")]

    def place_of(self, pod: str) -> str:
        """The node on which a pod of the shop is ready; empty when it is nowhere. `cache` is any pod of that name's."""
        for version in self.cluster.server.store.collection("pods").objects.values():
            item = version.object
            meta = item["metadata"]
            named = meta["name"] == pod or meta.get("labels", {}).get("app") == pod
            if named and meta["namespace"] == SHOP and pods.active(item) and pods.ready(item):
                return str(item["spec"].get("nodeName", ""))
        return ""

    def pods(self) -> Counter[str]:
        return self.cluster.ready_pods()

    @property
    def is_served(self) -> bool:
        """Every pod that should run does, on a machine that answers."""
        counted = self.pods()
        return sum(counted[name] for name in self.nodes if self.nodes[name].answers) >= WEB_PODS + len(DATABASES) + 1

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Whether it held within so many seconds of the show; else the show goes on without."""
        ends = self.clock.monotonic() + seconds
        while not holds():
            if self.clock.monotonic() >= ends:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    # What runs by itself.

    def _furnish(self, definitions: Iterable[Object]) -> None:
        server = self.cluster.server
        for definition in definitions:
            server.put(DEFINITIONS, definition)
        patience = f"{self.pace.patience_seconds:g}s"
        for resource, item in furniture.furniture(Settings().namespace, patience, self.pace.drain_seconds):
            server.put(resource, item)
        for node in self.nodes.values():
            furniture.let_in(node.machine.bmc)
            delay = min(LONGEST_DELAY_SECONDS, Delays().on_seconds / self.pace.speed)
            node.machine.delays = Delays(on_seconds=delay, off_seconds=delay, soft_off_seconds=delay)

    async def _plot(self) -> NoReturn:
        await self.until(lambda: self.is_served and self.cast.leader != "", START_SECONDS)
        self.has_begun = True
        calm, last = FIRST_CALM_SECONDS, -1
        while True:
            await self._calm(calm)
            scene = self._wishes.popleft() if self._wishes else SCENES[(last + 1) % len(SCENES)]
            last = SCENES.index(scene)
            self._wished.clear()
            self.playing = scene
            await scene.play(self)
            self.playing, self.victims = None, ()
            calm = CALM_SECONDS

    async def _calm(self, cluster_seconds: float) -> None:
        """Time to read; whoever asks for something need not wait."""
        try:
            async with asyncio.timeout(cluster_seconds / self.pace.speed):
                await self._wished.wait()
        except TimeoutError:
            return

    async def _follow(self) -> NoReturn:
        """The operator does not call when its picture changes, so it is looked at often."""
        seen: tuple[str, Picture | None] = ("", None)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            (who, before), seen = seen, (self.cast.leader, self.picture)
            leader, now = seen
            if before is not None and now is not None and who == leader:  # what two replicas think is no story
                self.lines.extend(deeds(before, now, self.clock.now()))
