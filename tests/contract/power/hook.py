"""A service that switches machines and takes questions by webhook, as somebody who reads docs/power.md would write it."""

import asyncio
import hashlib
import hmac
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from defib.clock import SystemClock
from defib.hollow.machine import Command, Fails, Garbage, Hangs, Machine, Slow, Unreachable, WrongPassword

OLDEST_SECONDS = 60
_END_WITHIN = 0.2
_HANG_SECONDS = 3600.0


class Hook:
    """One service for all its machines. Their BMCs' faults are its own when it is asked about them."""

    def __init__(self, machines: Iterable[Machine], key: str) -> None:
        self._machines = {machine.name: machine for machine in machines}
        self._key = key.encode()
        self._seen: set[str] = set()
        self._clock = SystemClock()
        self.asked: list[tuple[Mapping[str, str], bytes]] = []

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.asked.append((dict(request.headers), body))
        if not self._is_genuine(request.headers, body):
            return web.json_response({"why": "bad signature"}, status=401)
        question = json.loads(body)
        bmc = self._machines[question["node"]].bmc
        if bmc.fault(WrongPassword):
            return web.json_response({"why": "our key is another now"}, status=403)
        if bmc.fault(Hangs):
            await asyncio.sleep(_HANG_SECONDS)  # the fault, not a wait of the test
        if slow := bmc.fault(Slow):
            await asyncio.sleep(slow.seconds)  # the same
        if bmc.fault(Unreachable) and request.transport:
            request.transport.abort()
            return web.Response()
        if bmc.fault(Garbage):
            return web.Response(body=b'{"nonce": "\xff', content_type="application/json")
        if bmc.fault(Fails):
            return web.Response(status=500)
        return web.json_response(self._carry_out(question) | {"nonce": question["nonce"]})

    def _is_genuine(self, headers: Mapping[str, str], body: bytes) -> bool:
        at, nonce = headers["X-Defib-Timestamp"], headers["X-Defib-Nonce"]
        signed = hmac.new(self._key, f"{at}.{nonce}.".encode() + body, hashlib.sha256).hexdigest()
        is_new = nonce not in self._seen and abs(self._clock.now().timestamp() - int(at)) < OLDEST_SECONDS
        self._seen.add(nonce)
        return is_new and hmac.compare_digest(headers["X-Defib-Signature"], f"sha256={signed}")

    def _carry_out(self, question: dict[str, str]) -> dict[str, Any]:
        bmc = self._machines[question["node"]].bmc
        match question["action"]:
            case "state":
                return {"state": "on" if bmc.shows_on else "off"}
            case "off":
                bmc.take(Command.OFF)
            case "on":
                bmc.take(Command.ON)
        return {"outcome": "accepted"}


@asynccontextmanager
async def serving(hook: Hook, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Its URL."""
    served = web.Server(hook.answer)
    listener = await asyncio.get_running_loop().create_server(
        served, "127.0.0.1", 0, ssl=tls, family=socket.AddressFamily.AF_INET
    )
    port = listener.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/power"
    finally:
        listener.close()
        await served.shutdown(_END_WITHIN)
