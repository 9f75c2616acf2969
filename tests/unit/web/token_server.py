"""The two questions about a token that an API server answers, over real HTTP. The end-to-end tests ask a real one."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiohttp import web

from defib.clock import Clock, SystemClock
from defib.kube.borrowed import with_token
from defib.kube.client import Client
from defib.kube.kubeconfig import Connection
from defib.model.secret import Secret

MAY = {
    "looker": {"nodehealthchecks"},
    "chief": {"nodehealthchecks", "configmaps", "nodes", "nodeincidents"},
    "stranger": set[str](),
}
"""By token, and each is its own user's name: which resources they may touch."""


class TokenServer:
    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.fails = False
        self.revoked: set[str] = set()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_post("/apis/authentication.k8s.io/v1/selfsubjectreviews", self._who)
        app.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", self._may)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            self.goes_on.set()
            await runner.cleanup()

    async def _who(self, request: web.Request) -> web.Response:
        token = await self._token(request)
        return web.json_response({"status": {"userInfo": {"username": token}}}, status=201)

    async def _may(self, request: web.Request) -> web.Response:
        token = await self._token(request)
        resource = (await request.json())["spec"]["resourceAttributes"]["resource"]
        return web.json_response({"status": {"allowed": resource in MAY[token]}}, status=201)

    async def _token(self, request: web.Request) -> str:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked[token] += 1
        await self.goes_on.wait()
        if self.fails:
            raise web.HTTPInternalServerError(text="{}")
        if token not in MAY or token in self.revoked:
            raise web.HTTPUnauthorized(text='{"kind":"Status","code":401,"message":"Unauthorized"}')
        return token


class AsUser:
    """Asks that server with somebody's token."""

    def __init__(self, address: str, clock: Clock | None = None) -> None:
        self._connection = Connection(server=address, source="a test")
        self._clock = clock or SystemClock()

    def __call__(self, token: Secret) -> AbstractAsyncContextManager[Client]:
        return with_token(self._connection, token, self._clock)
