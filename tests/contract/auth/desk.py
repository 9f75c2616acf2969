"""A person's desk: a folder with a kubeconfig, a clock that only the test moves, and the ways to use them."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml

from defib.agent.api import LeanTransport
from defib.clock import Clock
from defib.kube.http import HttpTransport, open_transport
from defib.kube.kubeconfig import Connection, load_connection
from defib.kube.transport import Request
from tests.builders import T0
from tests.contract.auth.authority import Authority

GET = Request(method="GET", path="/api/v1/nodes")
Opened = HttpTransport | LeanTransport
Opens = Callable[[Connection, Mapping[str, str], Clock], Awaitable[Opened]]


async def as_an_agent(connection: Connection, _environ: Mapping[str, str], clock: Clock) -> Opened:
    return LeanTransport(connection, clock, 3.0)


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._passed = 0.0

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return 1000.0 + self._passed

    def jitter(self, span: float) -> float:
        return span / 2

    def advance(self, seconds: float) -> None:
        self._passed += seconds


class Desk:
    """A person's folder with a kubeconfig in it, and the ways to use it."""

    def __init__(self, folder: Path, authority: Authority, opens: Opens = open_transport) -> None:
        self._opens = opens
        self.folder = folder
        self.authority = authority
        self.clock = HandClock()
        self.environ = {"PATH": "/usr/bin:/bin"}
        self.kubeconfig = folder / "config"

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def script(self, name: str, text: str) -> Path:
        path = self.write(name, f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def configure(self, server: str, user: dict[str, Any], **cluster: Any) -> None:
        """A kubeconfig with one context; the authority is trusted unless the cluster says otherwise."""
        trusted = {"certificate-authority-data": encoded(self.authority.certificate)}
        is_told = {"certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"} & cluster.keys()
        entry = {"server": server, **({} if is_told else trusted), **cluster}
        self.write_kubeconfig(
            {
                "current-context": "prod",
                "clusters": [{"name": "east", "cluster": entry}],
                "users": [{"name": "ann", "user": user}],
                "contexts": [{"name": "prod", "context": {"cluster": "east", "user": "ann"}}],
            }
        )

    def write_kubeconfig(self, content: dict[str, Any]) -> None:
        self.kubeconfig.write_text(yaml.safe_dump(content))

    async def opened(self, context: str | None = None) -> Opened:
        named = None if "KUBECONFIG" in self.environ else self.kubeconfig
        connection = await asyncio.to_thread(load_connection, named, context, self.environ)
        return await self._opens(connection, self.environ, self.clock)

    @asynccontextmanager
    async def connected(self, context: str | None = None) -> AsyncIterator[Opened]:
        transport = await self.opened(context)
        try:
            yield transport
        finally:
            await transport.close()

    @asynccontextmanager
    async def connected_in_cluster(self, service_account: Path) -> AsyncIterator[Opened]:
        connection = await asyncio.to_thread(load_connection, None, None, self.environ, service_account)
        transport = await self._opens(connection, self.environ, self.clock)
        try:
            yield transport
        finally:
            await transport.close()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def ask(transport: Opened, request: Request = GET) -> int:
    """The status of the answer, whose body is read to its end."""
    async with transport.send(request) as response:
        await response.read()
        return response.status


async def said(transport: Opened, request: Request = GET) -> str:
    """The server's message in a refusal."""
    async with transport.send(request) as response:
        message = msgspec.json.decode(await response.read())["message"]
    assert isinstance(message, str)
    return message
