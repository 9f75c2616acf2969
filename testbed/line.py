"""A line between somebody and a server on this machine, which can be cut and muted: what networks do to connections.

    async with Line("127.0.0.1", 6443) as line:
        line.url                    # here instead of there
        line.cut()                  # every connection breaks; new ones are taken
        line.mute(), line.unmute()  # nothing gets through, and nobody is told

What was said into a muted line arrives late, unless whoever said it has hung up since: as with packets that are lost
and sent again.
"""

import asyncio
import socket
from asyncio import StreamReader, StreamWriter
from types import TracebackType
from typing import Self

_CHUNK = 65536
_ESTABLISHED = 1  # as the kernel numbers the states of a connection


class Line:
    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._ends: set[StreamWriter] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self.cuts = 0  # connections that were broken so far

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.unmute()
        while self._ends:
            self.cut()
            await asyncio.sleep(0)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """At once and without a word."""
        self.cuts += len(self._ends)
        for end in tuple(self._ends):
            end.transport.abort()

    def mute(self) -> None:
        self._is_open.clear()

    def unmute(self) -> None:
        self._is_open.set()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        caller: socket.socket = writer.get_extra_info("socket")
        self._ends.add(writer)
        try:
            await self._is_open.wait()
            there, back = await asyncio.open_connection(self._host, self._port)
            self._ends.add(back)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._carry(reader, back, caller))
                    group.create_task(self._carry(there, writer, caller))
            except* OSError:
                pass  # either side broke it: it is over for both
            finally:
                self._ends.discard(back)
                back.transport.abort()
        except OSError:
            pass  # nobody is there, and the caller finds out
        finally:
            self._ends.discard(writer)
            writer.transport.abort()

    async def _carry(self, source: StreamReader, sink: StreamWriter, caller: socket.socket) -> None:
        while data := await source.read(_CHUNK):
            if not self._is_open.is_set():
                await self._is_open.wait()
                if not _is_there(caller):
                    break
            sink.write(data)
            await sink.drain()
        raise ConnectionResetError  # one direction that ends, ends the other one


def _is_there(caller: socket.socket) -> bool:
    """Whether it still holds its end of the connection."""
    if caller.fileno() < 0:
        return False
    return caller.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
