"""A line that is cut or mute does to connections what networks do."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from testbed.line import Line

Ends = tuple[StreamReader, StreamWriter]


class Server:
    """Says again what it hears, and remembers it."""

    def __init__(self) -> None:
        self.heard = b""
        self.callers = 0

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.callers += 1
        try:
            while data := await reader.read(100):
                self.heard += data
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()
            self.callers -= 1

    async def ended(self) -> None:
        async with asyncio.timeout(5):
            while self.callers:  # noqa: ASYNC110 - a closed connection has no event for us
                await asyncio.sleep(0.01)  # until the kernel has told it
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def line(server: Server) -> AsyncIterator[Line]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with Line("127.0.0.1", listening.sockets[0].getsockname()[1]) as line:
        yield line
    listening.close()
    await server.ended()


async def last_words(reader: StreamReader) -> bytes:
    """Until it is over, in whichever way the kernel tells it."""
    try:
        return await reader.read(1)
    except ConnectionError:
        return b""


async def hung_up(writer: StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.sleep(0)


async def connected(line: Line) -> Ends:
    return await asyncio.open_connection("127.0.0.1", urlsplit(line.url).port)


async def test_what_is_said_arrives_and_so_does_the_answer(line: Line, server: Server) -> None:
    reader, writer = await connected(line)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    assert server.heard == b"hello"
    await hung_up(writer)


async def test_a_cut_breaks_every_connection_and_the_next_one_is_taken(line: Line) -> None:
    reader, writer = await connected(line)
    writer.write(b"hello")
    await reader.readexactly(5)
    line.cut()
    assert await last_words(reader) == b""
    await hung_up(writer)
    reader, writer = await connected(line)
    writer.write(b"again")
    assert await reader.readexactly(5) == b"again"
    await hung_up(writer)


async def test_what_was_said_into_a_mute_line_arrives_when_it_speaks_again(line: Line, server: Server) -> None:
    reader, writer = await connected(line)
    writer.write(b"before")
    await reader.readexactly(6)
    line.mute()
    writer.write(b"after")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await reader.read(1)
    assert server.heard == b"before"
    line.unmute()
    assert await reader.readexactly(5) == b"after"
    await hung_up(writer)


async def test_who_has_hung_up_says_nothing_any_more(line: Line, server: Server) -> None:
    reader, writer = await connected(line)
    writer.write(b"before")
    await reader.readexactly(6)
    line.mute()
    writer.write(b"after")
    await hung_up(writer)
    await asyncio.sleep(0.1)  # until the kernel has told the other side
    line.unmute()
    await server.ended()
    assert server.heard == b"before"
