"""Probes and metrics over HTTP. Read only: no request changes anything.

It is given questions to ask, not the operator, so it cannot reach further than its answers.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
from aiohttp import web

from defib import __version__
from defib.model.cluster import Blindness
from defib.telemetry.metrics import CONTENT_TYPE

SHUTDOWN_SECONDS = 1.0  # aiohttp would wait a minute for idle connections
SCRAPE_SECONDS = 10.0
FLAG = "--probes-address"
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

INDEX = f"""Defib {__version__}

/healthz   200 while the operator's loop turns, its passes happen and it sees nodes; else 503 with one line per reason
/readyz    200 when everything it watches is seen and fresh; else 503 with one line per reason
/metrics   for Prometheus
"""


class Probes(msgspec.Struct, frozen=True, kw_only=True):
    """The questions that can be asked. The first two answer with reasons why not; no reason means yes."""

    not_alive: Callable[[], Sequence[str]]
    not_ready: Callable[[], Sequence[str]]
    before_scrape: Callable[[], None]  # in the event loop, where what is true at this moment can be looked at
    scrape: Callable[[], bytes]  # in a thread


class CannotListen(Exception):
    """The address cannot be bound. `str()` is one line that says what to do."""


def overdue(last_pass: float, now: float, limit_seconds: float) -> tuple[str, ...]:
    """Why we are not alive, by the monotonic time of the last pass: a loop that turns but does nothing is dead too."""
    age = now - last_pass
    return (f"the last pass was {age:.0f} s ago, allowed are {limit_seconds:.0f} s",) if age > limit_seconds else ()


def unseen(lost: Iterable[Blindness], now: datetime, limit_seconds: float) -> tuple[str, ...]:
    """Why we are not alive, by what we cannot do without and have not seen for too long; 0 allows any time.

    A new process has new connections, new credentials and no memory: that mends what trying again does not. While it is
    the API server that is out, being started anew again and again mends nothing and loses nothing: whoever is blind does
    nothing, what must be known stands in the cluster, and the first list tells what has happened. In a pod the new process
    waits until the server is back, so that the kubelet does not start it later and later.
    """
    ends = ((one, (now - one.since).total_seconds()) for one in lost)
    return tuple(
        f"{one.kind}: blind for {age:.0f} s, allowed are {limit_seconds:.0f} s: {one.why}"
        for one, age in ends
        if limit_seconds and age > limit_seconds
    )


@asynccontextmanager
async def serving(probes: Probes, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context lasts; gives the port, which matters when any free one (0) was asked for."""
    runner = web.AppRunner(_app(probes), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await listen(runner, host, port, FLAG)
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def listen(runner: web.AppRunner, host: str, port: int, flag: str) -> None:
    """Raises CannotListen, with the flag by which another address can be chosen."""
    try:
        await web.TCPSite(runner, host, port).start()
    except socket.gaierror as error:
        raise CannotListen(f"cannot listen on {host}: there is no such host; choose another with {flag}") from error
    except OSError as error:
        raise CannotListen(f"{_why(error, host, port)}; choose another with {flag}") from error


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is already in use"
    if error.errno == errno.EACCES:
        return f"port {port} may only be used by root, one above 1023 by everybody"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine"
    return f"cannot listen on {host} port {port}: {error.strerror}"


def _app(probes: Probes) -> web.Application:
    app = web.Application(client_max_size=0)

    async def index(_: web.Request) -> web.Response:
        return web.Response(text=INDEX, headers=HEADERS)

    async def healthz(_: web.Request) -> web.Response:
        return _answer(probes.not_alive())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(probes.not_ready())

    async def metrics(_: web.Request) -> web.Response:
        probes.before_scrape()
        async with asyncio.timeout(SCRAPE_SECONDS):
            # In a thread: with thousands of series this takes longer than a heartbeat may wait.
            text = await asyncio.to_thread(probes.scrape)
        return web.Response(body=text, headers=HEADERS | {"Content-Type": CONTENT_TYPE})

    app.add_routes(
        [web.get("/", index), web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]
    )
    return app


def _answer(reasons: Sequence[str]) -> web.Response:
    text = "".join(f"{reason}\n" for reason in reasons) or "ok\n"
    return web.Response(text=text, status=503 if reasons else 200, headers=HEADERS)
