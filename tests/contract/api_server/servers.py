"""The servers that the contract suite runs on, each behind the same few words."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import aiohttp
import msgspec

from defib.clock import Clock, SystemClock
from defib.kube.client import Client
from defib.kube.http import connect
from defib.simulate import controllers
from defib.simulate.http import serving
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from testbed.cluster import ControlPlane


class Server(Protocol):
    """One API server, and what a test may ask of it besides requests."""

    client: Client

    async def forget_history(self) -> None:
        """Afterwards versions and continue tokens of before are too old; objects are not touched."""
        ...

    async def settle(self, namespace: str) -> None:
        """Returns when pods can be created in a new namespace."""
        ...


class Backend(Protocol):
    """Outlives the event loop of a test, which a client does not."""

    def open(self) -> AbstractAsyncContextManager[Server]: ...


class EmbeddedServer:
    def __init__(self, client: Client, server: ApiServer) -> None:
        self.client = client
        self._server = server

    async def forget_history(self) -> None:
        self._server.compact()

    async def settle(self, namespace: str) -> None:
        """It has no service accounts to wait for."""


class InProcessBackend:
    def __init__(self, *, has_controllers: bool) -> None:
        self._has_controllers = has_controllers

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Server]:
        clock = SystemClock()
        server = an_embedded_server(clock, has_controllers=self._has_controllers)
        yield EmbeddedServer(Client(InProcess(server), clock), server)


class HttpBackend:
    """The embedded server, asked over a socket."""

    def __init__(self, directory: Path, *, has_controllers: bool) -> None:
        self._kubeconfig = directory / "kubeconfig"
        self._has_controllers = has_controllers

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Server]:
        clock = SystemClock()
        server = an_embedded_server(clock, has_controllers=self._has_controllers)
        async with serving(server) as front:
            client = Client(await connect(front.write_kubeconfig(self._kubeconfig), None, {}, clock), clock)
            try:
                yield EmbeddedServer(client, server)
            finally:
                await client.close()


def an_embedded_server(clock: Clock, *, has_controllers: bool) -> ApiServer:
    server = ApiServer(clock)
    if has_controllers:
        controllers.attach(server)
    return server


class RealServer:
    def __init__(self, client: Client, cluster: ControlPlane) -> None:
        self.client = client
        self._cluster = cluster

    async def forget_history(self) -> None:
        """Compacts etcd, then restarts the API server, which otherwise answers from its own memory for a while."""
        socket = self._cluster.directory / "etcd.sock"
        async with aiohttp.ClientSession("http://etcd", connector=aiohttp.UnixConnector(str(socket))) as etcd:
            found = await self._ask(etcd, "range", {"key": "YQ=="})
            await self._ask(etcd, "compaction", {"revision": found["header"]["revision"], "physical": True})
        await self._cluster.kill_apiserver()
        await self._cluster.start_apiserver()

    async def settle(self, namespace: str) -> None:
        await self._cluster.wait_for_namespace(namespace)

    async def _ask(self, etcd: aiohttp.ClientSession, verb: str, body: object) -> dict[str, dict[str, str]]:
        async with etcd.post(f"/v3/kv/{verb}", data=msgspec.json.encode(body)) as answer:
            answer.raise_for_status()
            said: dict[str, dict[str, str]] = await answer.json(content_type=None)
            return said


class RealBackend:
    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Server]:
        clock = SystemClock()
        client = Client(await connect(self._cluster.kubeconfig, None, {}, clock), clock)
        try:
            yield RealServer(client, self._cluster)
        finally:
            await client.close()
