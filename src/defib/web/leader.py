"""Who leads, over HTTP, as the leader-elector sidecar of Kubernetes told it: one object with one name, on every path.

Read only. What a request sends along is never read.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from defib.web.door import IDLE_SECONDS, SHUTDOWN_SECONDS, Door, open_door
from defib.web.server import HEADERS

FLAG = "--leader-address"
CONNECTIONS_MAX = 64


@asynccontextmanager
async def serving_leader(leader: Callable[[], str], host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context lasts; gives the port. `leader` answers with an empty name when nobody can say."""

    async def tell(_: web.Request) -> web.Response:
        body = msgspec.json.encode({"name": leader()})
        return web.Response(body=body, headers=HEADERS | {"Content-Type": "application/json"})

    app = web.Application()
    app.router.add_get("/{path:.*}", tell)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, keepalive_timeout=IDLE_SECONDS)
    async with open_door(runner, Door(host=host, port=port, flag=FLAG, most=CONNECTIONS_MAX)) as found:
        yield found
