"""Redfish BMCs on loopback, a port for each machine.

    async with redfish([machine]) as addresses:
        ...                                # addresses["n1"].url, .system; log in as machine.bmc.username, .password

sushy-tools' emulator gives the answers and knows Basic authentication only, so there is no session service. What is
wrong with a BMC happens here, before the emulator is asked: refused connections, hanging, 401, 500, nonsense.
"""

import asyncio
import base64
import binascii
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NoReturn

import msgspec
from aiohttp import web

from defib.hollow.machine import Bmc, Fails, Garbage, Hangs, Machine, Slow, Unreachable
from testbed.bmc.emulator import Asked, Panel, emulate
from testbed.bmc.event_log import page_of, with_logs

HANG_SECONDS = 3600.0  # longer than anybody waits; our own end comes first
_END_WITHIN = 0.2
_OPEN_PATHS = ("", "redfish", "redfish/v1")  # the service root is for everybody, so that one can ask who is there
_NONSENSE = b'{"@odata.id": "/redfish/v1/Systems/\xff\xfe'


class RedfishAddress(msgspec.Struct, frozen=True):
    """Where a machine's BMC is, and the path of the machine there."""

    url: str
    system: str


@asynccontextmanager
async def redfish(
    machines: Iterable[Machine], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Mapping[str, RedfishAddress]]:
    """A BMC for each machine for as long as the context lasts; by the machine's name."""
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        bmcs = [await stack.enter_async_context(_serving(machine.bmc, tls)) for machine in machines]
        keepers = [tasks.create_task(bmc.keep_listening(), name=f"redfish {bmc.machine.name}") for bmc in bmcs]
        try:
            yield {bmc.machine.name: bmc.address for bmc in bmcs}
        finally:
            for keeper in keepers:
                keeper.cancel()


@asynccontextmanager
async def _serving(bmc: Bmc, tls: ssl.SSLContext | None) -> AsyncIterator["_RedfishBmc"]:
    served = _RedfishBmc(bmc, tls)
    bmc.subscribe(served.faults_changed)
    try:
        await served.follow_faults()
        yield served
    finally:
        await served.close()


class _RedfishBmc:
    def __init__(self, bmc: Bmc, tls: ssl.SSLContext | None) -> None:
        self.machine = bmc.machine
        self._bmc = bmc
        self._tls = tls
        self._port = _reserved_port()
        self._web = web.Server(self._answer)
        self._listener: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._closed = False
        self._uuid = str(uuid.uuid5(uuid.NAMESPACE_OID, bmc.machine.name))

    @property
    def address(self) -> RedfishAddress:
        scheme = "https" if self._tls else "http"
        return RedfishAddress(
            f"{scheme}://127.0.0.1:{self._port.getsockname()[1]}", f"/redfish/v1/Systems/{self._uuid}"
        )

    def faults_changed(self) -> None:
        """Refusing begins at once; listening again takes a turn of the loop."""
        if self._bmc.fault(Unreachable) and self._listener:
            self._listener.close()
            self._listener = None
        self._changed.set()

    async def keep_listening(self) -> NoReturn:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.follow_faults()

    async def follow_faults(self) -> None:
        if self._listener or self._closed or self._bmc.fault(Unreachable):
            return
        host, port = self._port.getsockname()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._web, host, port, reuse_port=True, ssl=self._tls)

    async def close(self) -> None:
        self._closed = True
        if self._listener:
            self._listener.close()
        await self._web.shutdown(_END_WITHIN)
        self._port.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The faults in the order in which they would be met on the way to an answer."""
        bmc = self._bmc
        if bmc.fault(Unreachable) and request.transport:
            request.transport.abort()  # a connection from before
        if bmc.fault(Hangs):
            await asyncio.sleep(HANG_SECONDS)
        if slow := bmc.fault(Slow):
            await asyncio.sleep(slow.seconds)
        if bmc.fault(Garbage):
            return web.Response(body=_NONSENSE, content_type="application/json")
        if bmc.fault(Fails):
            return _refusal(500, "Base.1.0.InternalError", "The request failed due to an internal service error.")
        if request.path.strip("/") not in _OPEN_PATHS and not self._admits(request.headers.get("Authorization", "")):
            refusal = _refusal(401, "Base.1.0.NoValidSession", "There is no valid session for these credentials.")
            refusal.headers["WWW-Authenticate"] = 'Basic realm="Redfish"'
            return refusal
        return await self._emulated(request)

    def _admits(self, header: str) -> bool:
        scheme, _, token = header.partition(" ")
        try:
            username, _, password = base64.b64decode(token, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return scheme.lower() == "basic" and self._bmc.admits(username, password)

    async def _emulated(self, request: web.BaseRequest) -> web.Response:
        asked = Asked(
            method=request.method,
            path=request.path_qs,
            body=await request.read(),
            content_type=request.headers.get("Content-Type", ""),
        )
        system = self.address.system
        if request.method == "GET" and (page := page_of(self._bmc, system, request.path)) is not None:
            return web.json_response(page)
        panel = Panel(self._uuid, self.machine.name, self._bmc.shows_on)
        answered = await asyncio.to_thread(emulate, asked, panel)
        if request.method == "GET" and request.path == system:
            answered = with_logs(answered, system)
        if panel.pressed:
            self._bmc.take(panel.pressed)
        return web.Response(status=answered.status, headers=answered.headers, body=answered.body)


def _refusal(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


def _reserved_port() -> socket.socket:
    """Bound and never listening: the port stays ours while the BMC cannot be reached."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved
