"""One run: a cluster, three replicas, nodes that fail, a schedule of troubles, and a verdict over all that happened."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random

import msgspec

from defib.clock import SystemClock
from defib.kube.errors import KubeError
from defib.model import medik8s
from defib.model.incident import INCIDENTS
from testbed.programs import Programs
from tests.chaos import books, door, judging, patients, replicas, schedule, story, troubles
from tests.e2e.power_cluster import PowerCluster, power_cluster
from tests.simulation.world import LEASES, REMEDIATIONS

KEPT = frozenset({"nodes", "pods", LEASES, INCIDENTS, medik8s.CHECKS, *REMEDIATIONS})
SETTLED_SECONDS = 120.0  # after the last trouble everybody is well again
_LOOK_EVERY_SECONDS = 0.5

Tell = Callable[[str], None]


class Report(msgspec.Struct):
    """`wrong` is what must not be; the rest is what was done."""

    wrong: list[str]
    troubles: Counter[str]
    fallen: int
    remediations: int
    restores: int
    replicas: int
    commands: int
    settled_seconds: float
    endings: list[str]
    directory: Path

    @property
    def summary(self) -> str:
        done = ", ".join(f"{name} {times}x" for name, times in sorted(self.troubles.items()))
        return (
            f"{self.troubles.total()} troubles ({done}), {self.restores} restores; {self.fallen} nodes fell ill, {self.remediations} remediations "
            f"with {self.commands} commands by {self.replicas} processes, {len(self.endings)} ended by themselves; "
            f"all was well {self.settled_seconds:.0f} s after the last trouble"
        )


class Run:
    def __init__(self, cluster: PowerCluster, seed: int, stack: AsyncExitStack) -> None:
        self._cluster = cluster
        self._seed = seed
        self._stack = stack
        self._books = books.Books(cluster.plane.directory, SystemClock(), KEPT)
        self._patients = patients.Patients(cluster, self._books, seed)

    async def live(self, seconds: float, tell: Tell) -> Report:
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        reading = group.create_task(self._books.run())
        hall = await self._stack.enter_async_context(door.door(self._cluster.client))
        await patients.admit(self._cluster)
        crew = await self._stack.enter_async_context(replicas.deployment(self._cluster, self._cluster.plane.port))
        parts = troubles.Parts(
            plane=self._cluster.plane,
            disks=self._cluster.hollow.disks,
            books=self._books,
            replicas=crew,
            door=hall,
        )
        stage = troubles.Stage(parts, Random(f"{self._seed} choices"))
        coming, keeping = group.create_task(self._patients.come()), group.create_task(stage.keep_controllers())
        until = self._books.now + seconds
        async with asyncio.TaskGroup() as hands:
            for drawn in schedule.draw(self._seed, seconds).values():
                hands.create_task(stage.play(drawn, until))
        coming.cancel()
        tell(f"no more troubles after {self._books.now:.0f} s: {stage.done.total()} of them")
        settled, lost = await self._settle()
        await asyncio.sleep(1.0)  # the last words of etcd and of the audit log
        reading.cancel()
        keeping.cancel()
        return await self._verdict(stage, crew, settled, lost)

    async def _settle(self) -> tuple[float, list[str]]:
        """How long it took until everybody was well; and what never was."""
        began, unwell = self._books.now, ["nothing was seen"]
        while unwell and self._books.now - began < SETTLED_SECONDS:
            await asyncio.sleep(_LOOK_EVERY_SECONDS)  # nobody tells when the last one is well
            try:
                unwell = await self._patients.unwell()
            except KubeError as error:
                unwell = [f"the API server does not answer: {error}"]
        return self._books.now - began, unwell

    async def _verdict(
        self, stage: troubles.Stage, crew: replicas.Deployment, settled: float, lost: list[str]
    ) -> Report:
        audit = story.read_audit(await asyncio.to_thread((self._cluster.plane.directory / story.AUDIT_LOG).read_bytes))
        names = {life.credential: life.name for life in crew.ever}
        commands = await crew.said("power is switched")
        switched = [story.switched(name, line, self._books.seconds) for name, line in commands]
        done: list[story.Entry] = [*switched, *stage.happened, *self._patients.happened]
        entries = story.tell(self._books, audit, names, done)
        await self._write_down(entries)
        nodes, disks = self._cluster.hollow.nodes, self._cluster.hollow.disks
        found = judging.findings(entries, self._books.now, stage.thaws)
        often = judging.switched_too_often(entries, nodes, self._patients.pulled, stage.restores)
        return Report(
            wrong=[
                *(f"lost: {one}" for one in lost),
                *map(str, found),
                *(f"duplicate: {one}" for one in often),
                *(f"corrupted: {verdict.story}" for verdict in disks.corrupted()),
                *(f"fault: {one}" for one in await crew.faults()),
            ],
            troubles=stage.done,
            fallen=self._patients.fallen.total(),
            remediations=judging.begins(entries).total(),
            restores=stage.restores,
            replicas=len(crew.ever),
            commands=len(switched),
            settled_seconds=settled,
            endings=crew.endings,
            directory=self._cluster.plane.directory,
        )

    async def _write_down(self, entries: list[story.Entry]) -> None:
        lines = "\n".join(f"{entry.at:10.3f} {entry}" for entry in entries)
        await asyncio.to_thread((self._cluster.plane.directory / "history.txt").write_text, lines)


async def live(programs: Programs, seed: int, seconds: float, tell: Tell, *, keep: bool = False) -> Report:
    """`seconds` of troubles. What is wrong is in the report, and then the directory of the cluster stays; or anyway."""
    with tempfile.TemporaryDirectory() as place:
        policies = Path(place)
        audit = await story.audit_flags(policies / "replicas.yaml")
        flags = (*audit, *books.FLAGS, *door.FLAGS)
        async with power_cluster(programs, policies / "policy.yaml", apiserver=flags) as cluster:
            try:
                async with AsyncExitStack() as stack:
                    report = await Run(cluster, seed, stack).live(seconds, tell)
            except BaseException:
                cluster.plane.keep()
                raise
            if report.wrong or keep:
                cluster.plane.keep()
            return report
