"""Servers that answer what a test tells them to, well formed or not, and remember what they were asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Answering = Callable[[asyncio.StreamWriter], Awaitable[None]]

_REASONS = {200: "OK", 204: "No Content"}


class Server:
    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[bytes] = []
        self.sent = 0


@asynccontextmanager
async def tcp(answer: Callable[["Server", bytes, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[Server]:
    """Reads one request of each connection and lets `answer` do what it likes; all ends with the context."""
    server = Server("")
    open_streams: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_streams.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            request = await _request(reader)
            server.requests.append(request)
            await answer(server, request, writer)
        open_streams.discard(writer)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for writer in open_streams:
            writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().splitlines():
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.partition(b":")[2]))
    return head


class Page(msgspec.Struct, frozen=True):
    status: int = 200
    body: Any = None  # JSON, or bytes as they are
    headers: tuple[str, ...] = ()


def raw(page: Page) -> bytes:
    body = page.body if isinstance(page.body, bytes) else b"" if page.body is None else json.dumps(page.body).encode()
    head = [f"HTTP/1.1 {page.status} {_REASONS.get(page.status, 'No')}", f"Content-Length: {len(body)}", *page.headers]
    return "\r\n".join([*head, "Connection: close", "", ""]).encode() + body


@asynccontextmanager
async def pages(book: dict[str, Page]) -> AsyncIterator[Server]:
    """By method and path, `GET /redfish/v1/`; what is not in the book does not exist. The book may change meanwhile."""

    async def answer(_server: Server, request: bytes, writer: asyncio.StreamWriter) -> None:
        asked = request.split(b" HTTP/", 1)[0].decode()
        writer.write(raw(book.get(asked, Page(404))))
        await writer.drain()

    async with tcp(answer) as server:
        yield server


@asynccontextmanager
async def always(answer: bytes) -> AsyncIterator[Server]:
    """The same bytes to everybody, then the end of the connection."""

    async def send(_server: Server, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    async with tcp(send) as server:
        yield server


@asynccontextmanager
async def without_end(head: bytes, piece: bytes, pause: float = 0.0) -> AsyncIterator[Server]:
    """Piece after piece, until the other side has enough."""

    async def send(server: Server, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            server.sent += len(piece)
            await writer.drain()
            await asyncio.sleep(pause)  # the pace of the server, not a wait of the test

    async with tcp(send) as server:
        yield server
