"""The embedded server on a socket, so that kubectl and other processes can talk to it. Loopback only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from defib.kube.transport import JSON, Request
from defib.simulate.answers import Answer, refused
from defib.simulate.exchange import Exchange
from defib.simulate.refusals import Refusal
from defib.simulate.server import ApiServer

_SHUTDOWN_SECONDS = 0.1
_BODY_MAX = 8 * 1024 * 1024


class HttpFront:
    """Where the server is, and how to get there."""

    def __init__(self, server: ApiServer, port: int, token: str) -> None:
        self._server = server
        self._token = token
        self.url = f"http://127.0.0.1:{port}"

    def kubeconfig(self) -> str:
        user: dict[str, Any] = {"token": self._token} if self._token else {}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "embedded",
                "clusters": [{"name": "embedded", "cluster": {"server": self.url}}],
                "users": [{"name": "embedded", "user": user}],
                "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}}],
            },
            sort_keys=False,
        )

    def write_kubeconfig(self, path: Path) -> Path:
        path.write_text(self.kubeconfig())
        path.chmod(0o600)
        return path


class _Handler:
    def __init__(self, server: ApiServer, token: str) -> None:
        self._server = server
        self._token = token

    async def handle(self, received: web.Request) -> web.StreamResponse:
        if self._token and received.headers.get("Authorization") != f"Bearer {self._token}":
            return _plain(refused(Refusal(401, "Unauthorized", "Unauthorized")))
        exchange = Exchange(self._server, await _request(received), _client(received))
        try:
            answer = await exchange.answer()
            if answer.watch is None:
                return _plain(answer)
            return await self._stream(received, exchange)
        except ConnectionError:
            # Whoever broke it, the client must see a broken connection, not an error of ours.
            if received.transport:
                received.transport.abort()
            return web.Response(status=500)
        finally:
            exchange.close()

    async def _stream(self, received: web.Request, exchange: Exchange) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        await response.prepare(received)
        async with aclosing(exchange.chunks()) as chunks:
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
        return response


async def _request(received: web.Request) -> Request:
    return Request(
        method=received.method,
        path=received.path,
        query=dict(received.query),
        body=await received.read(),
        content_type=received.headers.get("Content-Type", JSON),
        accept=received.headers.get("Accept", JSON),
    )


def _client(received: web.Request) -> str:
    """The first word of the user agent: `kubectl/v1.37 (linux)` is kubectl."""
    return received.headers.get("User-Agent", "unknown").partition("/")[0]


def _plain(answer: Answer) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


@asynccontextmanager
async def serving(server: ApiServer, *, port: int = 0, token: str = "") -> AsyncIterator[HttpFront]:
    """Serves on 127.0.0.1, on a free port unless one is given, until the context is left."""
    app = web.Application(client_max_size=_BODY_MAX)
    app.router.add_route("*", "/{path:.*}", _Handler(server, token).handle)
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_SECONDS, handler_cancellation=True
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    try:
        await site.start()
        yield HttpFront(server, int(runner.addresses[0][1]), token)
    finally:
        # Open watches would keep the runner waiting for its whole timeout.
        for watch in server.watches.of():
            watch.end()
        await asyncio.sleep(0)
        await runner.cleanup()
