"""What an API server, or whoever stands between it and us, might answer: what we raise is always one of our own errors."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from defib.kube.client import Client, Merge
from defib.kube.decode import LINE_BYTES_MAX, LineBuffer
from defib.kube.errors import KubeError, Unreadable
from defib.kube.kinds import NODE_INCIDENTS, NODES, Kind
from defib.kube.transport import Request, Response
from defib.simulate.virtual_time import VirtualClock, run
from tests.hostile.spoiling import spoil
from tests.hostile.town import VICTIM, looks

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "2000")) // 4
LONG = 600
PIECE = 1000
CODES = (200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 409, 410, 422, 429, 500, 503, 999)
RETRIES = ("", "1", "-1", "1e9", "soon", "²", "9" * 400, "Wed, 21 Oct 2015 07:28:00 GMT")


class Said:
    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self._body = status, headers, body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        for place in range(0, len(self._body), PIECE):
            yield self._body[place : place + PIECE]


class Odd:
    """Answers everything with the same."""

    def __init__(self, said: Said) -> None:
        self._said = said

    @asynccontextmanager
    async def send(self, _: Request) -> AsyncIterator[Response]:
        yield self._said

    def describe(self) -> str:
        return "odd"

    async def close(self) -> None:
        """Nothing is open."""


def an_answer(chance: Random) -> Said:
    node = msgspec.to_builtins(looks()[0].nodes[VICTIM])
    status = {"kind": "Status", "code": 409, "reason": "Expired", "message": "no", "details": {"retryAfterSeconds": 3}}
    page = {"metadata": {"resourceVersion": "7", "continue": ""}, "items": [node, node]}
    event = {"type": chance.choice(("ADDED", "BOOKMARK", "ERROR", "DELETED")), "object": chance.choice((node, status))}
    whole = msgspec.json.decode(msgspec.json.encode(chance.choice((node, status, page, event))))
    spoil(whole, chance)
    body = bytearray(msgspec.json.encode(whole) + b"\n")
    for _ in range(chance.choice((0, 0, 1, 5))):
        body[chance.randrange(len(body))] = chance.randrange(256)
    return Said(chance.choice(CODES), {"retry-after": chance.choice(RETRIES)}, bytes(body))


async def ask_everything(client: Client) -> None:
    kinds: tuple[Kind[Any], ...] = (NODES, NODE_INCIDENTS)
    for kind in kinds:
        for asked in (
            client.get(kind.at("n1"), deadline=60),
            client.list_all(kind, deadline=60),
            client.patch(kind.at("n1"), Merge({}), deadline=60),
        ):
            with suppress(KubeError):
                await asked
        with suppress(KubeError):
            async with client.watch(kind, since="1", seconds=10) as batches:
                async for _ in batches:
                    pass


@pytest.mark.timeout(LONG)
def test_whatever_is_answered_ends_as_an_answer_or_as_one_of_our_errors() -> None:
    looks()
    broken = {seed: why for seed in range(EXAMPLES) if (why := _how_it_breaks(an_answer(Random(seed))))}
    assert broken == {}


def _how_it_breaks(said: Said) -> str:
    async def main(clock: VirtualClock) -> None:
        await ask_everything(Client(Odd(said), clock))

    try:
        run(main, limit=timedelta(days=1))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is none of ours
        return repr(error)
    return ""


def test_a_watch_whose_line_never_ends_is_given_up_before_the_memory_is() -> None:
    buffer, chunk = LineBuffer(), b"x" * 2**20
    for _ in range(LINE_BYTES_MAX // len(chunk)):
        assert buffer.feed(chunk) == b""
    with pytest.raises(Unreadable, match="a watch sent a line of more than"):
        buffer.feed(chunk)
