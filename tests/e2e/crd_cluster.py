"""An API server that has our kinds and nothing else, and kubectl on it: for what it takes, refuses and shows."""

import asyncio
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.errors import NotFound
from defib.kube.http import connect
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.steps import eventually, raw

CRDS = Path(__file__).parents[2] / "deploy/crds"
PATIENCE_SECONDS = 20.0


@asynccontextmanager
async def with_crds(programs: Programs) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(programs, Settings(api_only=True)) as cluster:
        await kubectl(cluster, "apply", "-f", str(CRDS))
        yield cluster


@asynccontextmanager
async def client_of(cluster: ControlPlane, collections: Iterable[str]) -> AsyncIterator[Client]:
    """From when all of these are served, which is a moment after their CRDs were taken."""
    clock = SystemClock()
    client = Client(await connect(cluster.kubeconfig, None, {}, clock), clock)
    wanted = tuple(collections)

    async def is_served() -> bool:
        try:
            for path in wanted:
                await raw(client, "GET", path)
        except NotFound:
            return False
        return True

    try:
        await eventually(is_served)
        yield client
    finally:
        await client.close()


async def told(cluster: ControlPlane, *arguments: str, text: str = "") -> tuple[int, str]:
    """How kubectl ended, and all that it said."""
    process = await asyncio.create_subprocess_exec(
        cluster.kubectl, f"--kubeconfig={cluster.kubeconfig}", *arguments, stdin=PIPE, stdout=PIPE, stderr=STDOUT
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, _ = await process.communicate(text.encode())
    assert process.returncode is not None
    return process.returncode, said.decode()


async def kubectl(cluster: ControlPlane, *arguments: str, text: str = "") -> str:
    code, said = await told(cluster, *arguments, text=text)
    assert code == 0, said
    return said
