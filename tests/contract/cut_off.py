"""A server that the small segments of a TCP connection reach, and the big ones do not: as if the network broke there.

The kernel drops them before the server's socket, by a filter that needs no rights; so what was sent stays unacknowledged,
and is sent again and again by whoever still wants it delivered.
"""

import asyncio
import ctypes
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

LOOPBACK = "127.0.0.1"
SO_ATTACH_FILTER = 26  # asm-generic/socket.h; Python has no name for it
LOST_FROM_BYTES = 4096  # more than any part of a TLS handshake
BODY = b"x" * 2 * LOST_FROM_BYTES

# Linux's classic BPF: code, jump if true, jump if false, operand. How long is it? Then drop it, or accept it all.
_LENGTH, _AT_LEAST, _RETURN = 0x80, 0x35, 0x06


class CutOffServer:
    """Remembers what came. `over` is set when the kernel says that nothing more will."""

    def __init__(self) -> None:
        self.url = ""
        self.came = bytearray()
        self.over = asyncio.Event()
        self._open: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def serve(
        self, tls: ssl.SSLContext | None = None, *, lost_from_bytes: int = LOST_FROM_BYTES
    ) -> AsyncIterator["CutOffServer"]:
        listener = socket.create_server((LOOPBACK, 0))
        _lose(listener, lost_from_bytes)
        async with await asyncio.start_server(self._client, sock=listener, ssl=tls):
            self.url = f"{'https' if tls else 'http'}://{LOOPBACK}:{listener.getsockname()[1]}"
            yield self
            for writer in self._open:
                writer.transport.abort()
                await self.over.wait()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        with suppress(ConnectionError):
            while some := await reader.read(LOST_FROM_BYTES):
                self.came += some
        self.over.set()


def _lose(listener: socket.socket, from_bytes: int) -> None:
    """Connections inherit it from their listener, so nothing slips through before it is there."""
    steps = [(_LENGTH, 0, 0, 0), (_AT_LEAST, 0, 1, from_bytes), (_RETURN, 0, 0, 0), (_RETURN, 0, 0, 2**32 - 1)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", len(steps), ctypes.addressof(program)))
