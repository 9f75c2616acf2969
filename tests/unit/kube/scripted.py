"""A server that answers from a script: one line of it for each request, in order."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from defib.clock import Clock
from defib.kube.errors import KubeError
from defib.kube.transport import Request, Response


class Says(msgspec.Struct, frozen=True, kw_only=True):
    """One answer: after some time, with this head and these pieces of body."""

    status: int = 200
    body: Any = None
    pieces: tuple[bytes, ...] = ()
    headers: dict[str, str] = {}
    after: float = 0.0

    @property
    def chunks(self) -> tuple[bytes, ...]:
        if self.pieces or self.body is None:
            return self.pieces
        return (self.body if isinstance(self.body, bytes) else msgspec.json.encode(self.body),)


class Fails(msgspec.Struct, frozen=True):
    """No answer comes, and the transport knows it."""

    error: KubeError


class Hangs(msgspec.Struct, frozen=True):
    """No answer comes, and nobody knows it."""


Line = Says | Fails | Hangs


def status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


class _Answer:
    def __init__(self, said: Says) -> None:
        self._said = said

    @property
    def status(self) -> int:
        return self._said.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._said.headers

    async def read(self) -> bytes:
        return b"".join(self._said.chunks)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for chunk in self._said.chunks:
            yield chunk


class Scripted:
    """The Transport. Remembers what it was asked, and when; the last line of the script holds for all that follows."""

    def __init__(self, clock: Clock, lines: Iterable[Line]) -> None:
        self._clock = clock
        self._lines = list(lines)
        self.asked: list[Request] = []
        self.asked_at: list[float] = []
        self.in_flight = 0
        self.in_flight_max = 0

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        line = self._lines[min(len(self.asked), len(self._lines) - 1)]
        self.asked.append(request)
        self.asked_at.append(self._clock.monotonic())
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            yield _Answer(await self._act(line))
        finally:
            self.in_flight -= 1

    async def _act(self, line: Line) -> Says:
        match line:
            case Says():
                await asyncio.sleep(line.after)  # in virtual time: the script's server is slow, the test is not
                return line
            case Fails(error):
                raise error
            case Hangs():
                await asyncio.Event().wait()
                raise AssertionError("nothing sets that event")

    def describe(self) -> str:
        return "the script"

    async def close(self) -> None:
        self._lines = []
