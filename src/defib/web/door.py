"""How we listen: so many connections and no more, none of them idle for long.

Whoever reaches a port can open connections to it, send half a request, or never read an answer. What they would hold
of ours is memory and file descriptors, without which we could not reach the API server either.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

SHUTDOWN_SECONDS = 1.0  # aiohttp would wait a minute for idle connections
IDLE_SECONDS = 30.0  # also for a whole request to arrive
WAITING_MAX = 128  # to be let in


class CannotListen(Exception):
    """The address cannot be bound. `str()` is one line that says what to do."""


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """`flag` is that by which another address can be chosen; `most` is how many connections there are at a time."""

    host: str
    port: int
    flag: str
    most: int


@asynccontextmanager
async def open_door(runner: web.AppRunner, door: Door) -> AsyncIterator[int]:
    """Serve while the context lasts; gives the port. Raises CannotListen."""
    logging.getLogger("aiohttp.server").addFilter(_is_of_ours)
    await runner.setup()
    try:
        listening = await _listen(runner, door)
        try:
            yield listening.sockets[0].getsockname()[1]
        finally:
            listening.close()
    finally:
        await runner.cleanup()


def _is_of_ours(record: logging.LogRecord) -> bool:
    """What is no HTTP is its sender's mistake, who is told so: a page of log for each would be theirs to fill our disks with."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | RequestPayloadError))


async def _listen(runner: web.AppRunner, door: Door) -> asyncio.Server:
    server = runner.server
    assert server is not None, "it was set up"

    def let_in() -> RequestHandler:
        """For one that is too many the oldest goes: it has had its time, and a probe that comes now is answered."""
        there = server.connections
        if len(there) >= door.most and (oldest := there[0].transport) is not None:
            oldest.abort()  # what is still to be sent may never be read
        return server()

    loop = asyncio.get_running_loop()
    try:
        return await loop.create_server(let_in, door.host, door.port, backlog=WAITING_MAX)
    except socket.gaierror as error:
        why = f"cannot listen on {door.host}: there is no such host"
        raise CannotListen(f"{why}; choose another with {door.flag}") from error
    except OSError as error:
        raise CannotListen(f"{_why(error, door)}; choose another with {door.flag}") from error


def _why(error: OSError, door: Door) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {door.port} is already in use"
    if error.errno == errno.EACCES:
        return f"port {door.port} may only be used by root, one above 1023 by everybody"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{door.host} is not an address of this machine"
    return f"cannot listen on {door.host} port {door.port}: {error.strerror}"
