"""`defib run` as a process of its own, with whatever it is given to write its logs to, and what it costs."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import aiohttp
import msgspec

from tests.bench.usage import mib_of

LOOK_SECONDS = 0.1
STARTED_WITHIN = 30.0
ENDED_WITHIN = 20.0

Output = int | IO[bytes]


class Running(msgspec.Struct, frozen=True):
    process: Process
    probes: str
    dashboard: int

    @property
    def peak_mib(self) -> float:
        return mib_of("VmHWM", self.process.pid)

    @property
    def resident_mib(self) -> float:
        return mib_of("VmRSS", self.process.pid)

    async def is_ready(self) -> bool:
        assert self.process.returncode is None, "it has ended by itself"
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self.probes}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def metrics(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(f"{self.probes}/metrics") as answer:
            return await answer.text()

    @property
    def probes_port(self) -> int:
        return int(self.probes.rpartition(":")[2])


@asynccontextmanager
async def defib_run(
    kubeconfig: Path, *options: str, stdout: Output = DEVNULL, stderr: Output = DEVNULL, before: str = ""
) -> AsyncIterator[Running]:
    """From when it sees everything to its orderly end. `before`: what a shell does first, such as to set a limit."""
    probes, dashboard = _free_port(), _free_port()
    arguments = (
        f"--kubeconfig={kubeconfig}",
        f"--probes-address=127.0.0.1:{probes}",
        f"--dashboard-address=127.0.0.1:{dashboard}",
        "--default-check=off",
        "--log-format=json",
        *options,
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEFIB_")}
    shell = ("sh", "-c", f'{before}; exec "$@"', "sh") if before else ()
    process = await asyncio.create_subprocess_exec(
        *(*shell, sys.executable, "-B", "-m", "defib", "run", *arguments), stdout=stdout, stderr=stderr, env=environment
    )
    running = Running(process, f"http://127.0.0.1:{probes}", dashboard)
    try:
        async with asyncio.timeout(STARTED_WITHIN):
            while not await running.is_ready():  # noqa: ASYNC110  another process
                await asyncio.sleep(LOOK_SECONDS)
        yield running
        assert process.returncode is None, "it has ended by itself"
        process.terminate()
        async with asyncio.timeout(ENDED_WITHIN):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
