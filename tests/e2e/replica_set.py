"""Several `defib run` processes side by side, as a Deployment has them: who leads, and everything that can befall them.

Each logs in with a token of its own, so that the API server's audit log tells who of them asked for what.
"""

import asyncio
import json
import signal
import socket
from asyncio.subprocess import Process
from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import aiohttp

from defib.clock import SystemClock
from defib.kube.errors import NotFound
from defib.kube.kinds import LEASES
from defib.model.node import Lease
from tests.contract.api_server.steps import eventually
from tests.e2e.audit import Request, requests_of
from tests.e2e.check_cluster import PATIENCE_SECONDS, Body
from tests.e2e.running_operator import Installed, log_in, probes_address, start

LOCK = LEASES.at("defib-leader", "defib-system")
LOCK_KEY = "defib-system/defib-leader"
SHORT = ("--lease-duration=3s", "--renew-deadline=2s", "--retry-period=0.5s")
_ASK_WITHIN = aiohttp.ClientTimeout(total=5)


class Replica:
    """One process. Whoever takes its place has another name, and another token."""

    def __init__(self, name: str, process: Process, credential: str, leader_page: str) -> None:
        self.name = name
        self.process = process
        self.credential = credential
        self.probes = ""
        self.pauses: list[tuple[datetime, datetime]] = []
        self._leader_page = leader_page

    async def probe(self, path: str) -> tuple[int, str]:
        return await _got(f"{self.probes}{path}")

    async def is_ready(self) -> bool:
        return (await self.probe("readyz"))[0] == 200

    async def leader_page(self) -> tuple[int, str]:
        return await _got(self._leader_page)

    async def kill(self) -> None:
        self.process.kill()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.process.wait()

    async def terminate(self) -> int:
        """In order; how it ended."""
        self.process.terminate()
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.process.wait()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """It stands still meanwhile, and does not know it."""
        since = SystemClock().now()
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.pauses.append((since, SystemClock().now()))
            self.process.send_signal(signal.SIGCONT)


class ReplicaSet:
    def __init__(self, cluster: Installed, options: tuple[str, ...]) -> None:
        self.cluster = cluster
        self.alive: list[Replica] = []
        self.ever: list[Replica] = []
        self._options = options
        self._count = 0

    async def add(self) -> Replica:
        """One more, from when it sees everything."""
        self._count += 1
        name = f"replica-{self._count}"
        log = self._log(name)
        kubeconfig, credential = await log_in(self.cluster, name)
        page = f"127.0.0.1:{_free_port()}"
        options = (f"--kubeconfig={kubeconfig}", f"--replica-name={name}", f"--leader-address={page}", *self._options)
        process = await start(log, *options)
        replica = Replica(name, process, credential, f"http://{page}/")
        self.ever.append(replica)
        replica.probes = await probes_address(process, log)
        await eventually(replica.is_ready, within=PATIENCE_SECONDS)
        self.alive.append(replica)
        return replica

    def lose(self, replica: Replica) -> None:
        """It has ended, as it was meant to."""
        assert replica.process.returncode is not None
        self.alive.remove(replica)

    async def lock(self) -> Lease | None:
        try:
            return await self.cluster.client.get(LOCK)
        except NotFound:
            return None

    async def leader(self) -> Replica | None:
        """Whose name stands in the lock, if it is one of us and alive."""
        lock = await self.lock()
        holder = lock.spec.holder_identity if lock is not None else None
        return next((replica for replica in self.alive if replica.name == holder), None)

    async def expect_leader(self, *, other_than: Replica | None = None, within: float) -> Replica:
        found: list[Replica | None] = []

        async def one_leads() -> bool:
            found[:] = [await self.leader()]
            return found[0] not in (None, other_than)

        try:
            await eventually(one_leads, within=within)
        except TimeoutError:
            raise AssertionError(f"nobody leads within {within:g} s: {await self.lock()}") from None
        assert found[0] is not None
        return found[0]

    async def requests(self) -> list[Request]:
        return await requests_of(self.cluster.plane)

    async def said(self, replica: Replica, sentence: str) -> list[Body]:
        """The lines of its log that say this."""
        text = await asyncio.to_thread(self._log(replica.name).read_text)
        return [line for line in map(json.loads, text.splitlines()) if line["event"] == sentence]

    def _log(self, name: str) -> Path:
        return self.cluster.plane.directory / f"operator-{name}.log"

    def name_of(self, request: Request) -> str:
        return next(replica.name for replica in self.ever if replica.credential == request.by)

    async def end(self) -> None:
        """Whatever is left, at once."""
        for replica in self.ever:
            if replica.process.returncode is None:
                await replica.kill()


@asynccontextmanager
async def replica_set(cluster: Installed, *options: str, replicas: int = 3) -> AsyncIterator[ReplicaSet]:
    """From when all of them see everything. Nobody may end but who was told to."""
    replica_set = ReplicaSet(cluster, options)
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(replicas):
                tasks.create_task(replica_set.add())
        yield replica_set
        assert [one.name for one in replica_set.alive if one.process.returncode is not None] == []
    except BaseException:
        cluster.plane.keep()
        raise
    finally:
        await replica_set.end()


def tell(what: str) -> None:
    """How long things took: pytest shows it when a test fails, and with -s."""
    print(what)  # noqa: T201 - it is for whoever runs the test


def is_of_the_lock(request: Request) -> bool:
    return request.key == LOCK_KEY and request.what.startswith("leases")


def deeds(requests: list[Request]) -> list[Request]:
    """What changed something in the cluster, or was meant to; the election itself is not one."""
    return [request for request in requests if request.is_write and not is_of_the_lock(request)]


def without_mandate(requests: list[Request], lease_seconds: float) -> list[Request]:
    """Deeds of somebody who did not lead: another one had taken the lock before it arrived, or their own lease was over."""
    takes = sorted((one for one in requests if is_of_the_lock(one) and one.is_write and one.has_worked), key=_answered)
    moments = [_answered(one) for one in takes]

    def was_led(deed: Request) -> bool:
        number = bisect_right(moments, deed.received)
        last = takes[number - 1] if number else None
        return last is not None and last.by == deed.by and _seconds(last.answered, deed.received) < lease_seconds

    return [deed for deed in deeds(requests) if not was_led(deed)]


def _answered(request: Request) -> datetime:
    return request.answered


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()


async def _got(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession(timeout=_ASK_WITHIN) as session, session.get(url) as answer:
        return answer.status, await answer.text()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
