"""Others who hold us up: they ask and never read the answer, or take what they are sent and never answer."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Self

RECEIVED_BYTES = 2048  # as little as the kernel lets somebody keep unread


class DeafCrowd:
    """So many connections, each of which asks for one page and reads nothing of it."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def ask(self, port: int, path: str, times: int, headers: str = "") -> None:
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode()
        for _ in range(times):
            one = self._stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
            one.connect(("127.0.0.1", port))
            one.sendall(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@asynccontextmanager
async def never_answering() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A receiver that lets everybody in and says nothing: its port, and the first bytes of each who came."""
    came: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            came.append(await reader.read(16))
            await reader.read()  # until they go
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came
