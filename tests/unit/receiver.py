"""A real HTTP server that takes what it is sent, and answers as a test says: well, badly, slowly or not at all."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

LOOPBACK = "127.0.0.1"


class Received(msgspec.Struct, frozen=True):
    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers with `codes` in turn, and then with the last of them. None: it never answers."""

    def __init__(self, codes: Iterable[int | None], headers: dict[str, str]) -> None:
        self._codes = list(codes)
        self._headers = headers
        self._heard = asyncio.Condition()
        self.received: list[Received] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/services/T0/B0/very-secret"

    async def until(self, wanted: Callable[[], bool]) -> None:
        async with asyncio.timeout(10), self._heard:
            await self._heard.wait_for(wanted)

    async def take(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = Received(request.path, headers, await request.read())
        async with self._heard:
            self.received.append(received)
            self._heard.notify_all()
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        if code is None:
            await asyncio.Event().wait()
        assert code is not None
        return web.Response(status=code, headers=self._headers, text="ok")


@asynccontextmanager
async def receiving(
    *codes: int | None, headers: dict[str, str] | None = None, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    receiver = Receiver(codes or (200,), headers or {})
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.take)
    runner = web.AppRunner(app, shutdown_timeout=0.0, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, LOOPBACK, port, ssl_context=tls)
    await site.start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()
