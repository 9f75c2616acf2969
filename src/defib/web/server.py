"""Probes and metrics over HTTP. Read only: no request changes anything.

It is given questions to ask, not the operator, so it cannot reach further than its answers.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
from aiohttp import web

from defib import __version__
from defib.model.cluster import Blindness
from defib.telemetry.metrics import CONTENT_TYPE
from defib.web.door import IDLE_SECONDS, SHUTDOWN_SECONDS, Door, open_door

SCRAPE_SECONDS = 10.0
CONNECTIONS_MAX = 64
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
    runner = web.AppRunner(
        _app(probes), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=IDLE_SECONDS
    )
    async with open_door(runner, Door(host=host, port=port, flag=FLAG, most=CONNECTIONS_MAX)) as found:
        yield found


class _Scrapes:
    """One at a time: whoever comes meanwhile shares the next one. Else who asks often enough has all our threads."""

    def __init__(self, probes: Probes) -> None:
        self._probes = probes
        self._turn = asyncio.Lock()
        self._begun = 0
        self._latest = (0, b"")  # which one it was, and what it gave

    async def text(self) -> bytes:
        begun_before = self._begun
        async with asyncio.timeout(SCRAPE_SECONDS), self._turn:
            if self._latest[0] > begun_before:
                return self._latest[1]
            self._begun += 1
            self._probes.before_scrape()
            # In a thread: with thousands of series this takes longer than a heartbeat may wait.
            self._latest = (self._begun, await asyncio.to_thread(self._probes.scrape))
            return self._latest[1]


def _app(probes: Probes) -> web.Application:
    app = web.Application(client_max_size=0)
    scrapes = _Scrapes(probes)

    async def index(_: web.Request) -> web.Response:
        return web.Response(text=INDEX, headers=HEADERS)

    async def healthz(_: web.Request) -> web.Response:
        return _answer(probes.not_alive())

    async def readyz(_: web.Request) -> web.Response:
        return _answer(probes.not_ready())

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=await scrapes.text(), headers=HEADERS | {"Content-Type": CONTENT_TYPE})

    app.add_routes(
        [web.get("/", index), web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)]
    )
    return app


def _answer(reasons: Sequence[str]) -> web.Response:
    text = "".join(f"{reason}\n" for reason in reasons) or "ok\n"
    return web.Response(text=text, status=503 if reasons else 200, headers=HEADERS)
