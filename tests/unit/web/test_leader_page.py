"""Who leads, asked over real HTTP."""

import asyncio
from datetime import datetime

import aiohttp
import pytest

from defib.clock import SystemClock
from defib.coordinate.election import Candidate, Terms
from defib.coordinate.elector import Elector
from defib.coordinate.lock import LeaseLock
from defib.kube.client import Client
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.web.door import CannotListen
from defib.web.leader import serving_leader

LOOPBACK = "127.0.0.1"


async def asked(port: int, path: str = "/", method: str = "GET", body: bytes = b"") -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{LOOPBACK}:{port}{path}", data=body or None) as response,
    ):
        return response.status, await response.read()


@pytest.mark.parametrize("path", ["/", "/leader", "/any/path?with=more", "/%2e%2e/etc"])
async def test_le_14_the_leader_is_told_on_every_path(path: str) -> None:
    async with serving_leader(lambda: "replica-1", LOOPBACK, 0) as port:
        assert await asked(port, path) == (200, b'{"name":"replica-1"}')


async def test_le_14_it_is_an_empty_name_when_nobody_can_say() -> None:
    async with serving_leader(lambda: "", LOOPBACK, 0) as port:
        assert await asked(port) == (200, b'{"name":""}')


async def test_it_is_json_that_nobody_keeps() -> None:
    async with (
        serving_leader(lambda: "a", LOOPBACK, 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{LOOPBACK}:{port}/") as response,
    ):
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Cache-Control"] == "no-store"
        assert await response.json() == {"name": "a"}


@pytest.mark.parametrize("name", ['"}{"', "\n\x1b[2J", "é\U0001f600"])
async def test_a_hostile_name_is_quoted(name: str) -> None:
    async with (
        serving_leader(lambda: name, LOOPBACK, 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{LOOPBACK}:{port}/") as response,
    ):
        assert await response.json() == {"name": name}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_only_reading_is_possible_and_what_is_sent_along_is_not_kept(method: str) -> None:
    async with serving_leader(lambda: "a", LOOPBACK, 0) as port:
        assert (await asked(port, method=method, body=b"x" * 2**20))[0] == 405
        assert await asked(port, method="HEAD") == (200, b"")


async def test_a_request_whose_body_never_ends_is_answered_all_the_same() -> None:
    async with serving_leader(lambda: "a", LOOPBACK, 0) as port, asyncio.timeout(5):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nx")
        await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


async def test_a_port_in_use_is_told_with_its_flag() -> None:
    async with serving_leader(lambda: "", LOOPBACK, 0) as port:
        with pytest.raises(CannotListen, match="already in use; choose another with --leader-address"):
            async with serving_leader(lambda: "", LOOPBACK, port):
                pass


class Hand:
    """A clock that is moved on by hand."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> datetime:
        return SystemClock().now()

    def monotonic(self) -> float:
        return SystemClock().monotonic() + self.ahead

    def jitter(self, span: float) -> float:
        return span / 2


async def test_le_14_what_was_seen_longer_ago_than_the_lease_is_no_longer_told() -> None:
    hand, leads = Hand(), asyncio.Event()
    client = Client(InProcess(ApiServer(hand), client="a"), hand)
    me = Candidate("a", Terms(lease_seconds=15.0))
    elector = Elector(LeaseLock(client, "default", "x"), me, hand, leads.set)
    async with serving_leader(lambda: elector.leader, LOOPBACK, 0) as port, asyncio.TaskGroup() as group:
        assert await asked(port) == (200, b'{"name":""}')
        electing = group.create_task(elector.run())
        while elector.mandate is None:
            leads.clear()
            await leads.wait()
        electing.cancel()
        hand.ahead = 14.0
        assert await asked(port) == (200, b'{"name":"a"}')
        hand.ahead = 15.0
        assert await asked(port) == (200, b'{"name":""}')
