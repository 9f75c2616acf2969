"""Replicas as Kubernetes would keep them: each on a line of its own, and one that ends has another one in its place."""

import asyncio
import json
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import yaml

from defib.kube.errors import KubeError
from testbed.line import Line
from tests.e2e.replica_set import LOCK, SHORT
from tests.e2e.running_operator import Installed, log_in, start

COUNT = 3
LOGINS_AHEAD = 6
_AGAIN_AFTER_SECONDS = 0.5


class Life(msgspec.Struct):
    """One process, from its start to its end."""

    name: str
    process: Process
    credential: str
    line: Line
    log: Path
    was_killed: bool = False


class Deployment:
    """`ever` are all that there were; `endings` are those that nobody wished for, with what they said last."""

    def __init__(self, cluster: Installed, lines: list[Line]) -> None:
        self.ever: list[Life] = []
        self.endings: list[str] = []
        self._cluster = cluster
        self._lines = lines
        self._alive: dict[int, Life] = {}
        self._logins: asyncio.Queue[tuple[str, Path, str]] = asyncio.Queue(LOGINS_AHEAD)

    @property
    def alive(self) -> list[Life]:
        return [life for life in self._alive.values() if life.process.returncode is None]

    @property
    def lines(self) -> list[Line]:
        return self._lines

    async def prepare(self) -> None:
        """For ever: a few logins ahead, so that somebody can also be started while the API server is away."""
        number = 0
        while True:
            number += 1
            name = f"replica-{number}"
            kubeconfig, credential = await self._log_in(name)
            await self._logins.put((name, kubeconfig, credential))

    async def keep(self, place: int) -> None:
        """For ever: whoever ends is followed by another one, with another name."""
        while True:
            life = self._alive[place] = await self._begin(self._lines[place])
            code = await life.process.wait()
            if not life.was_killed:
                words = await asyncio.to_thread(life.log.read_text, errors="replace")
                self.endings.append(f"{life.name} ended with {code}: {words[-2000:]}")
            await asyncio.sleep(_AGAIN_AFTER_SECONDS)  # as a kubelet would wait, only shorter

    async def _begin(self, line: Line) -> Life:
        name, kubeconfig, credential = await self._logins.get()
        config = yaml.safe_load(await asyncio.to_thread(kubeconfig.read_text))
        for cluster in config["clusters"]:
            cluster["cluster"]["server"] = line.url
        await asyncio.to_thread(kubeconfig.write_text, yaml.safe_dump(config))
        log = self._cluster.plane.directory / f"operator-{name}.log"
        process = await start(log, f"--kubeconfig={kubeconfig}", f"--replica-name={name}", "--dashboard=off", *SHORT)
        life = Life(name, process, credential, line, log)
        self.ever.append(life)
        return life

    async def _log_in(self, name: str) -> tuple[Path, str]:
        while True:
            try:
                return await log_in(self._cluster, name)
            except KubeError:
                await asyncio.sleep(_AGAIN_AFTER_SECONDS)  # the API server is away, too

    async def leader(self) -> Life | None:
        """Whose name stands in the lock, if it is alive and the API server says so."""
        try:
            lock = await self._cluster.client.get(LOCK, deadline=2.0)
        except KubeError:
            return None
        return next((life for life in self.alive if life.name == lock.spec.holder_identity), None)

    async def said(self, event: str) -> list[tuple[str, dict[str, str]]]:
        """Who said it, and the whole line."""
        found = []
        for life in self.ever:
            text = await asyncio.to_thread(life.log.read_text, errors="replace")
            found += [(life.name, json.loads(line)) for line in text.splitlines() if f'"{event}"' in line]
        return found

    async def faults(self) -> list[str]:
        """What went wrong inside of replicas: exceptions that nobody had thought of."""
        found = []
        for life in self.ever:
            text = await asyncio.to_thread(life.log.read_text, errors="replace")
            found += [f"{life.name}: {line}" for line in text.splitlines() if _is_fault(line)]
        return found

    async def end(self) -> None:
        for life in self.ever:
            if life.process.returncode is None:
                life.was_killed = True
                life.process.kill()
                await life.process.wait()


def _is_fault(line: str) -> bool:
    return "Traceback" in line or '"level": "critical"' in line or '"exception"' in line


@asynccontextmanager
async def deployment(cluster: Installed, port: int) -> AsyncIterator[Deployment]:
    """Three of them, from when one leads. They end with the context, and nobody follows."""
    async with AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(Line("127.0.0.1", port)) for _ in range(COUNT)]
        replicas = Deployment(cluster, lines)
        async with asyncio.TaskGroup() as group:
            keeping = [group.create_task(replicas.keep(place)) for place in range(COUNT)]
            keeping.append(group.create_task(replicas.prepare()))
            try:
                async with asyncio.timeout(60):
                    while await replicas.leader() is None:  # noqa: ASYNC110 - the control plane has no event for us
                        await asyncio.sleep(_AGAIN_AFTER_SECONDS)  # the first election
                yield replicas
            finally:
                for task in keeping:
                    task.cancel()
                await replicas.end()
