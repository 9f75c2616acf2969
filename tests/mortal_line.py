"""A connection that breaks for good with a write: as if whoever speaks over it died before sending that."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from defib.kube.errors import Unreachable
from defib.kube.transport import Request, Response
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer


class Line:
    """`writes` get through."""

    def __init__(self, server: ApiServer, writes: float) -> None:
        self._transport = InProcess(server, client="operator")
        self._left = writes

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if request.method != "GET":
            self._left -= 1
        if self._left < 0:
            raise Unreachable(f"{request}: the operator is dead")
        async with self._transport.send(request) as response:
            yield response

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()
