"""The start of a replica while the API server is out: a pod waits for it with its probes served, anybody else is told."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from defib.app import Operator, StartFailed
from defib.clock import SystemClock
from defib.config import Settings
from defib.forms import Address
from defib.replica import IN_A_POD, _reach, run
from defib.simulate.faults import Fault, Refuse
from defib.simulate.http import serving
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock
from defib.simulate.virtual_time import run as run_virtually
from defib.telemetry.metrics import Metrics

LOOPBACK = "127.0.0.1"
PATIENCE_SECONDS = 15.0
LOOK_SECONDS = 0.05
OUT_FOR_SECONDS = 570.0  # then /healthz asks for a new process, as it does of everybody who is blind for ten minutes


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        return int(bound.getsockname()[1])


class Start:
    """A replica that is about to start, with an API server at a place where nobody listens yet."""

    def __init__(self, folder: Path) -> None:
        self.server = ApiServer(SystemClock())
        self.port, self.probes = free_port(), free_port()
        self.kubeconfig = folder / "kubeconfig"
        cluster = f"clusters: [{{name: c, cluster: {{server: 'http://{LOOPBACK}:{self.port}'}}}}]"
        context = "contexts: [{name: c, context: {cluster: c, user: u}}]"
        users = "users: [{name: u, user: {token: t}}]"
        self.kubeconfig.write_text(f"{cluster}\n{context}\n{users}\ncurrent-context: c")
        self.kubeconfig.chmod(0o600)

    def settings(self, kubeconfig: Path | None = None) -> Settings:
        where = Address(LOOPBACK, self.probes)
        return Settings(election="off", default_check="off", kubeconfig=kubeconfig, probes_address=where)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run(self.settings()))
            yield
            task.cancel()

    async def answers(self, path: str, status: int) -> None:
        """Sooner or later."""
        url = f"http://{LOOPBACK}:{self.probes}{path}"
        async with asyncio.timeout(PATIENCE_SECONDS), aiohttp.ClientSession() as session:
            while True:
                with suppress(aiohttp.ClientConnectorError):
                    async with session.get(url) as response:
                        if response.status == status:
                            return
                await asyncio.sleep(LOOK_SECONDS)


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


@pytest.fixture
def pod(start: Start, monkeypatch: pytest.MonkeyPatch) -> Start:
    monkeypatch.setenv(IN_A_POD, LOOPBACK)
    monkeypatch.setenv("KUBECONFIG", str(start.kubeconfig))
    return start


async def test_a_pod_waits_for_the_api_server_alive_and_not_ready(pod: Start) -> None:
    async with pod.running():
        await pod.answers("/healthz", 200)
        await pod.answers("/readyz", 503)
        async with serving(pod.server, port=pod.port):
            await pod.answers("/readyz", 200)


async def test_a_pod_that_is_told_to_end_while_it_waits_ends(pod: Start) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), pod.running():
        await pod.answers("/healthz", 200)


async def test_a_pod_that_may_not_look_is_told_so_at_once(pod: Start) -> None:
    pod.server.faults.inject(Fault(effect=Refuse(code=403)))
    async with asyncio.timeout(PATIENCE_SECONDS), serving(pod.server, port=pod.port):
        with pytest.raises(StartFailed, match="kubectl auth can-i list nodes"):
            await run(pod.settings())


async def test_outside_of_a_pod_an_api_server_out_of_reach_ends_it_before_anything_is_served(start: Start) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(StartFailed, match="connection refused"):
            await run(start.settings(start.kubeconfig))


async def test_a_pod_that_is_given_a_kubeconfig_does_not_wait(pod: Start) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(StartFailed, match="connection refused"):
            await run(pod.settings(pod.kubeconfig))


def test_however_long_it_waits_it_is_alive_and_goes_on_when_the_server_is_back() -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.stop()
        operator = Operator(InProcess(server, "a"), clock, Settings(), Metrics())
        async with asyncio.TaskGroup() as group:
            reaching = group.create_task(_reach(operator, clock))
            while clock.monotonic() < OUT_FOR_SECONDS:
                await asyncio.sleep(10)  # virtual
                assert operator.probes().not_alive() == ()
                assert operator.probes().not_ready() != ()
            assert not reaching.done()
            server.start()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await reaching

    run_virtually(main)
