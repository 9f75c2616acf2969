"""The page and what it reads, over HTTP. No GET changes anything.

It is given questions to ask and wishes to pass on, not the operator, so it cannot reach further than these.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from defib.clock import Clock
from defib.decide.answers.node import answer_about
from defib.model.incident import INCIDENTS, NodeIncident
from defib.model.secret import Secret
from defib.web.access import Access, NotAllowed, is_local_name, is_loopback, is_same_origin, needed_token, token_of
from defib.web.actions import BODY_MAX, WISHES, CarryOut, NotPossible, Wish, act, check_sender
from defib.web.board import Site
from defib.web.board_parts import incident_whole
from defib.web.door import IDLE_SECONDS, SHUTDOWN_SECONDS, Door, open_door
from defib.web.files import PageFile, read_files, serve_file, tagged, takes_gzip
from defib.web.live import Listener, Live, Packer, Sight, TooMany

FLAG = "--dashboard-address"
TICK_SECONDS = 0.2
PING_SECONDS = 15.0
WRITE_SECONDS = 10.0  # so long may what was sent stay unread before nobody is believed to be there
UNREAD_BYTES = 2**16
ACT_SECONDS = 30.0
ACTS_AT_ONCE = 4  # an approval looks at the whole cluster, before anybody knows whether its sender may give it
CONNECTIONS_MAX = 256  # a browser has up to six of them
RETRY_SECONDS = "10"

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
API_HEADERS = {"Cache-Control": "no-store"}

Extra = Callable[[], Awaitable[Any]]
"""Something more that can be asked or told at this address; what it gives is sent as JSON."""


class Dashboard(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page can ask for. Without `carry_out`, it can only be looked at.

    `reads` and `tells` are more that can be asked by GET and told by POST, by the path below /api/: nobody is asked for a
    token, so they are for loopback addresses.
    """

    sight: Sight
    site: Site
    clock: Clock
    access: Access
    carry_out: CarryOut | None = None
    reads: Mapping[str, Extra] = {}
    tells: Mapping[str, Extra] = {}


@asynccontextmanager
async def serving_dashboard(dashboard: Dashboard, host: str, port: int) -> AsyncIterator[int]:
    """Serve while the context lasts; gives the port. Raises CannotListen."""
    files = await asyncio.to_thread(read_files)
    pages = _Pages(dashboard, files, is_open=is_loopback(host))
    runner = web.AppRunner(
        pages.app(),
        access_log=None,
        shutdown_timeout=SHUTDOWN_SECONDS,
        keepalive_timeout=IDLE_SECONDS,
        handler_cancellation=True,  # whoever has gone no longer listens
    )
    async with open_door(runner, Door(host=host, port=port, flag=FLAG, most=CONNECTIONS_MAX)) as found:
        try:
            yield found
        finally:
            pages.live.close()


class _Pages:
    def __init__(self, dashboard: Dashboard, files: Mapping[str, PageFile], *, is_open: bool) -> None:
        self._dashboard = dashboard
        self._files = files
        self._is_open = is_open  # to everybody who can reach it
        self._acting = 0
        self.live = Live(dashboard.sight, dashboard.site, dashboard.clock)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_MAX, middlewares=[self._guard])
        app.on_response_prepare.append(_add_headers)
        app.add_routes(
            [
                web.get("/api/board", self._board),
                web.get("/api/live", self._listen, allow_head=False),
                web.get("/api/node/{name}", self._node),
                web.get("/api/incident/{name}", self._incident),
                web.get("/api/me", self._me),
                *(web.get(f"/api/{path}", _extra(extra)) for path, extra in self._dashboard.reads.items()),
                *(web.post(f"/api/{path}", _told(extra)) for path, extra in self._dashboard.tells.items()),
            ]
        )
        if self._dashboard.carry_out is not None:
            app.router.add_post(f"/api/{{wish:{'|'.join(WISHES)}}}", self._act)
        app.router.add_get("/{path:(?!api/).*}", self._file)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            await self._check(request)
            return await handler(request)
        except NotAllowed as error:
            return _refused(error.status, str(error))
        except TimeoutError:
            return _refused(web.HTTPGatewayTimeout.status_code, "the API server did not answer in time")
        except NotPossible as error:
            return _refused(web.HTTPConflict.status_code, str(error))
        except web.HTTPException as error:
            return _refused(error.status, error.reason, allow=error.headers.get("Allow", ""))

    async def _check(self, request: web.Request) -> None:
        """Raises NotAllowed."""
        if self._is_open and not is_local_name(request.headers.get("Host", "")):
            raise NotAllowed(web.HTTPForbidden.status_code, "this is served to localhost only, by that name")
        is_data = request.path.startswith("/api/")
        if is_data and not is_same_origin(request):
            # It could not read the answer, but have us make it, and take the places of those who listen.
            raise NotAllowed(web.HTTPForbidden.status_code, "this was sent by a page of another site")
        if is_data and not self._is_open:
            await self._dashboard.access.check(needed_token(request))

    async def _board(self, request: web.Request) -> web.StreamResponse:
        whole = self.live.whole()
        tag = f'"{self.live.began}-{whole.number}"'
        headers = API_HEADERS | {"Content-Type": "application/json"}
        return tagged(request, tag, (whole.plain, whole.packed), headers)

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        packs = takes_gzip(request)
        headers = API_HEADERS | {"Content-Type": "text/event-stream", "Vary": "Accept-Encoding"}
        try:
            with self.live.listening(partial(_hang_up, request)) as listener:
                response = web.StreamResponse(headers=headers | ({"Content-Encoding": "gzip"} if packs else {}))
                await response.prepare(request)
                _keep_little(request)
                await self._tell(request, listener, response, Packer(packs=packs))
        except TooMany:
            refused = _refused(web.HTTPServiceUnavailable.status_code, "too many people listen already")
            refused.headers["Retry-After"] = RETRY_SECONDS
            return refused
        except (ConnectionError, TimeoutError, NotAllowed):
            _hang_up(request)
        return response

    async def _tell(
        self, request: web.Request, listener: Listener, response: web.StreamResponse, packer: Packer
    ) -> None:
        """Until nobody is there, or may not look any more. Raises ConnectionError, TimeoutError and NotAllowed."""
        clock = self._dashboard.clock
        pinged_at = clock.monotonic()
        while not listener.is_dropped and not self.live.is_closing:
            while listener.waiting:
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(packer.pack(listener.waiting.popleft()))
            await asyncio.sleep(TICK_SECONDS)
            self.live.look()
            if clock.monotonic() - pinged_at >= PING_SECONDS:
                pinged_at = clock.monotonic()
                await self._check(request)
                listener.tell(self.live.ping())

    async def _node(self, request: web.Request) -> web.StreamResponse:
        picture, site, name = self.live.picture, self._dashboard.site, request.match_info["name"]
        answer = answer_about(name, picture.cluster, picture.plan, site.rules.namespace)
        if answer is None:
            return _refused(web.HTTPNotFound.status_code, f"there is no node {name}")
        return _json(msgspec.structs.replace(answer, basis=f"As the operator {site.replica} saw the cluster then."))

    async def _incident(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        found = self.live.picture.cluster.all_of(INCIDENTS, NodeIncident).get(name)
        if found is None:
            return _refused(web.HTTPNotFound.status_code, f"there is no incident {name}")
        return _json(incident_whole(found))

    async def _me(self, request: web.Request) -> web.StreamResponse:
        token = token_of(request)
        if token is None:
            return _json({"user": "", "can": {"look": True} | dict.fromkeys(WISHES, False)})
        return _json(await self._dashboard.access.me(token))

    async def _act(self, request: web.Request) -> web.StreamResponse:
        async with asyncio.timeout(ACT_SECONDS):
            return _json(await act(request, self._carry_out))

    async def _carry_out(self, token: Secret, wish: Wish) -> str:
        """Raises NotAllowed and NotPossible."""
        assert self._dashboard.carry_out is not None, "else there is no such route"
        if self._acting >= ACTS_AT_ONCE:
            raise NotAllowed(web.HTTPServiceUnavailable.status_code, "others act at this moment; try again")
        self._acting += 1
        try:
            return await self._dashboard.carry_out(token, wish)
        finally:
            self._acting -= 1

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return serve_file(request, self._files)


def _keep_little(request: web.Request) -> None:
    """Of what is on its way to somebody who does not read, neither we nor the kernel keep much."""
    if request.transport is not None:
        request.transport.set_write_buffer_limits(high=UNREAD_BYTES)
        request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()  # what was not read yet, nobody will read


def _extra(extra: Extra) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_: web.Request) -> web.StreamResponse:
        return _json(await extra())

    return answer


def _told(extra: Extra) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        check_sender(request)
        return _json(await extra())

    return answer


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    response.headers.popall("Server", None)


def _json(body: Any) -> web.Response:
    headers = API_HEADERS | {"Content-Type": "application/json"}
    return web.Response(body=msgspec.json.encode(body), headers=headers)


def _refused(status: int, why: str, *, allow: str = "") -> web.Response:
    refused = _json({"error": why})
    refused.set_status(status)
    if status == web.HTTPUnauthorized.status_code:
        refused.headers["WWW-Authenticate"] = "Bearer"
    if allow:
        refused.headers["Allow"] = allow
    return refused
