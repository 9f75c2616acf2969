"""One suite, three servers: the embedded one in process, the same over HTTP, and a real kube-apiserver.

Where they differ, the embedded one is wrong. Each test works in a namespace of its own, so one real server serves all.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from defib.kube.client import Client
from defib.kube.kinds import Kind
from defib.model.meta import Unstructured
from testbed.cluster import ControlPlane
from testbed.programs import Programs
from testbed.settings import Settings
from tests.contract.api_server.objects import NAMESPACES, gadget_crd
from tests.contract.api_server.servers import Backend, HttpBackend, InProcessBackend, RealBackend, Server
from tests.contract.api_server.steps import install

# The first test on a real server waits for its start, or even for its build: only the test itself is timed.
REAL = pytest.param("real", marks=[pytest.mark.real, pytest.mark.timeout(60, func_only=True)])
SERVERS = ("embedded", "embedded-http", REAL)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_server(programs: Programs, request: pytest.FixtureRequest) -> AsyncIterator[ControlPlane]:
    async with started(programs, Settings(api_only=True), request.session) as cluster:
        yield cluster


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_cluster(programs: Programs, request: pytest.FixtureRequest) -> AsyncIterator[ControlPlane]:
    async with started(programs, Settings(), request.session) as cluster:
        yield cluster


@asynccontextmanager
async def started(programs: Programs, settings: Settings, session: pytest.Session) -> AsyncIterator[ControlPlane]:
    failed_before = session.testsfailed
    async with ControlPlane(programs, settings) as cluster:
        yield cluster
        if session.testsfailed > failed_before:
            cluster.keep()


def chosen(request: pytest.FixtureRequest, *, has_controllers: bool) -> Backend:
    match request.param:
        case "embedded":
            return InProcessBackend(has_controllers=has_controllers)
        case "embedded-http":
            return HttpBackend(request.getfixturevalue("tmp_path"), has_controllers=has_controllers)
        case _:
            return RealBackend(request.getfixturevalue("real_cluster" if has_controllers else "real_server"))


@pytest.fixture(params=SERVERS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return chosen(request, has_controllers=False)


@pytest.fixture(params=SERVERS)
def controlled_backend(request: pytest.FixtureRequest) -> Backend:
    return chosen(request, has_controllers=True)


@pytest.fixture
async def server(backend: Backend) -> AsyncIterator[Server]:
    """An API server alone: nothing happens but what the test does."""
    async with backend.open() as server:
        yield server


@pytest.fixture
async def cluster(controlled_backend: Backend) -> AsyncIterator[Server]:
    """An API server with the controllers that collect garbage and empty namespaces."""
    async with controlled_backend.open() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Client:
    return server.client


@pytest.fixture
async def namespace(server: Server) -> str:
    return await fresh_namespace(server)


async def fresh_namespace(server: Server) -> str:
    namespace = await server.client.create(NAMESPACES, {"metadata": {"generateName": "contract-"}})
    await server.settle(namespace.name)
    return namespace.name


@pytest.fixture
async def gadgets(client: Client) -> Kind[Unstructured]:
    """A custom kind that all tests share; each uses it in its own namespace."""
    return await install(client, gadget_crd("contract.example.com"))
