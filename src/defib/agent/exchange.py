"""One HTTP/1.1 request and its answer over a connection. So small because the agent runs on every node and must stay small.

A library for it takes more memory than all the rest of the agent. Whatever is not needed is not here: no redirects, no
compression, no pipelining. Whoever asks brings a deadline.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Mapping

import msgspec

HEAD_BYTES_MAX = 2**16
BODY_BYTES_MAX = 2**25
AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: on, with 0 s: what was not delivered when we give up never is
NO_BODY = (204, 304)


class BadAnswer(Exception):
    """It is not HTTP as we speak it."""


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


class Line:
    """A connection that takes one question after the other. After an error it is of no use and must be dropped."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_open = True

    async def ask(self, head: str, body: bytes = b"") -> Answer:
        """Raises OSError, EOFError, BadAnswer."""
        self._writer.write(head.encode("latin-1") + body)
        await self._writer.drain()
        status, headers = await read_head(self._reader)
        answer = Answer(status, headers, await self._body(status, headers))
        if headers.get("connection", "").lower() == "close":
            self.drop()
        return answer

    async def _body(self, status: int, headers: Mapping[str, str]) -> bytes:
        if status in NO_BODY:
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await _chunked(self._reader)
        return await self._reader.readexactly(_length(headers))

    def drop(self) -> None:
        self.is_open = False
        self._writer.transport.abort()


async def connect(host: str, port: int, tls: ssl.SSLContext | None, name: str, seconds: float) -> Line:
    """`name` is whose certificate is expected. What is not acknowledged for so many seconds breaks the connection."""
    reader, writer = await asyncio.open_connection(
        host, port, ssl=tls, server_hostname=name if tls else None, limit=HEAD_BYTES_MAX
    )
    wire = writer.get_extra_info("socket")
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
    return Line(reader, writer)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    try:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(first.split(" ", 2)[1])
    except (ValueError, IndexError, asyncio.LimitOverrunError):
        raise BadAnswer("the answer does not begin as HTTP does") from None
    return status, headers_of(lines)


def headers_of(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _length(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
        raise BadAnswer("the answer does not say how long it is, or is too long")
    return int(length)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        try:
            size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        except (ValueError, asyncio.LimitOverrunError):
            raise BadAnswer("a part of the answer does not say how long it is") from None
        if size < 0 or len(body) + size > BODY_BYTES_MAX:
            raise BadAnswer("the answer is too long")
        body += (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return bytes(body)
