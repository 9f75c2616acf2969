"""Real servers on loopback: an API server that asks who you are, and a proxy that tunnels to it."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from aiohttp import web

from tests.contract.auth.authority import Issued

LOOPBACK = "127.0.0.1"


class Seen(msgspec.Struct, frozen=True):
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, list[str]]
    body: bytes
    certificate: str


class ApiServer:
    """Answers every request with 200, or with the API server's own 401 to whom it does not know."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self.knows: Callable[[Seen], bool] = lambda _: True
        self.refuses_with = b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}'
        self.left = asyncio.Event()  # a client hung up on a watch
        self.go_on = asyncio.Event()  # lets a watch send its second event

    @property
    def tokens(self) -> list[str]:
        return [seen.headers.get("Authorization", [""])[0] for seen in self.seen]

    @property
    def certificates(self) -> list[str]:
        return [seen.certificate for seen in self.seen]

    def accept_only(self, *tokens: str) -> None:
        wanted = {f"Bearer {token}" for token in tokens}
        self.knows = lambda seen: seen.headers.get("Authorization", [""])[0] in wanted

    @asynccontextmanager
    async def serve(
        self, tls: Issued | None, folder: Path, *, clients: str = "", port: int = 0
    ) -> AsyncIterator["ApiServer"]:
        """Until the block ends; without a certificate, over plain HTTP. `clients` is the CA of their certificates."""
        app = web.Application()
        app.router.add_get("/watch", self._watch)
        app.router.add_get("/broken", self._broken)
        app.router.add_get("/elsewhere", self._elsewhere)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        try:
            context = server_context(tls, folder, clients) if tls else None
            await web.TCPSite(runner, LOOPBACK, port, ssl_context=context).start()
            self.url = f"{'https' if tls else 'http'}://{LOOPBACK}:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        peer = (request.transport.get_extra_info("peercert") if request.transport else None) or {}
        names = dict(pair for part in peer.get("subject", ()) for pair in part)
        headers = {name: request.headers.getall(name) for name in request.headers}
        seen = Seen(request.method, request.raw_path, headers, await request.read(), names.get("commonName", ""))
        self.seen.append(seen)
        if not self.knows(seen):
            return web.Response(body=self.refuses_with, content_type="application/json", status=401)
        return web.json_response({"kind": "Thing"}, headers={"X-Mixed-Case": "kept"})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            await response.write(b'{"type":"ADDED"}\n')
            await self.go_on.wait()
            await response.write(b'{"type":"MODIFIED"}\n')
        except asyncio.CancelledError:
            self.left.set()
            raise
        return response

    async def _elsewhere(self, _: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("/api/v1/nodes")

    async def _broken(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n{"type":"MOD')
        await self.go_on.wait()
        assert request.transport is not None
        request.transport.abort()
        return response


def server_context(tls: Issued, folder: Path, clients: str = "") -> ssl.SSLContext:
    certificate, key = folder / "server.crt", folder / "server.key"
    certificate.write_text(tls.certificate)
    key.write_text(tls.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if clients:
        context.load_verify_locations(cadata=clients)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class Proxy:
    """Tunnels whatever it is asked to CONNECT to, and remembers what that was."""

    def __init__(self, login: str = "") -> None:
        self.address = ""
        self.tunnels: list[str] = []
        self._wanted = f"Basic {b64encode(login.encode()).decode()}" if login else ""

    @asynccontextmanager
    async def serve(self, context: ssl.SSLContext | None = None) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._client, LOOPBACK, 0, ssl=context)
        self.address = f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split()[1]
        if self._wanted not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        else:
            self.tunnels.append(target)
            host, _, port = target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            async with asyncio.TaskGroup() as directions:
                directions.create_task(_pump(reader, far_writer))
                directions.create_task(_pump(far_reader, writer))
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while some := await reader.read(65536):
            writer.write(some)
            await writer.drain()
    except ConnectionError:
        pass  # either end may hang up when it likes
    finally:
        writer.close()


class DroppingServer:
    """Answers the first request, and drops that connection as soon as it has read the next one."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self._has_dropped = False

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self._client, LOOPBACK, 0) as server:
            yield f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # the client hung up
            while not await self._drops(reader):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def _drops(self, reader: asyncio.StreamReader) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.methods.append(head.split()[0])
        drops = len(self.methods) > 1 and not self._has_dropped
        self._has_dropped |= drops
        return drops


@asynccontextmanager
async def a_deaf_server() -> AsyncIterator[str]:
    """Accepts connections, and says nothing."""
    done = asyncio.Event()

    async def client(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    server = await asyncio.start_server(client, LOOPBACK, 0)
    async with server:
        yield f"https://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        done.set()
