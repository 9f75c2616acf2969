"""The embedded server on a socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from defib.clock import SystemClock
from defib.simulate.faults import CutWatch, Fault, LoseAnswer
from defib.simulate.http import HttpFront, serving
from defib.simulate.server import ApiServer


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(SystemClock())


@pytest.fixture
async def front(server: ApiServer) -> AsyncIterator[HttpFront]:
    async with serving(server) as front:
        yield front


@pytest.fixture
async def http(front: HttpFront) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(front.url, headers={"User-Agent": "tester/1.0 (linux)"}) as session:
        yield session


async def test_objects_can_be_written_and_read(http: aiohttp.ClientSession, server: ApiServer) -> None:
    async with http.post("/api/v1/nodes", json={"metadata": {"name": "a"}}) as answer:
        assert answer.status == 201
    async with http.get("/api/v1/nodes/a") as answer:
        assert (await answer.json())["kind"] == "Node"
    assert [(asked.client, asked.verb) for asked in server.audit] == [("tester", "create"), ("tester", "get")]


async def test_a_watch_streams_as_things_happen(http: aiohttp.ClientSession, server: ApiServer) -> None:
    async with asyncio.timeout(5), http.get("/api/v1/nodes?watch=1") as answer:
        server.put("nodes", {"metadata": {"name": "a"}})
        assert b'"ADDED"' in await answer.content.readline()


async def test_open_watches_do_not_hold_up_the_end(server: ApiServer) -> None:
    clock = SystemClock()
    async with aiohttp.ClientSession() as session:
        async with serving(server) as front:
            watches = [await session.get(f"{front.url}/api/v1/nodes?watch=1") for _ in range(5)]
            began = clock.monotonic()
        assert clock.monotonic() - began < 1
        for watch in watches:
            watch.close()
    assert len(server.watches) == 0


async def test_a_client_that_goes_away_ends_its_watch(http: aiohttp.ClientSession, server: ApiServer) -> None:
    async with http.get("/api/v1/nodes?watch=1"):
        assert len(server.watches) == 1
    async with asyncio.timeout(5):
        while len(server.watches):  # noqa: ASYNC110 - the server's end of a connection has no event to wait for
            await asyncio.sleep(0)


async def test_a_lost_answer_is_a_broken_connection(http: aiohttp.ClientSession, server: ApiServer) -> None:
    server.faults.inject(Fault(effect=LoseAnswer(), verbs=("create",)))
    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post("/api/v1/nodes", json={"metadata": {"name": "a"}})
    assert server.store.get("nodes", "a")


async def test_a_cut_watch_is_a_broken_connection(http: aiohttp.ClientSession, server: ApiServer) -> None:
    server.put("nodes", {"metadata": {"name": "a"}})
    server.faults.inject(Fault(effect=CutWatch(after=0, mid_event=True)))
    async with http.get("/api/v1/nodes?watch=1") as answer:
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_with_a_token_only_its_bearer_gets_in(server: ApiServer) -> None:
    async with serving(server, token="secret") as front, aiohttp.ClientSession() as session:
        async with session.get(f"{front.url}/version") as answer:
            assert answer.status == 401
        async with session.get(f"{front.url}/version", headers={"Authorization": "Bearer secret"}) as answer:
            assert answer.status == 200


async def test_the_kubeconfig_points_at_the_server_and_is_private(front: HttpFront, tmp_path: Path) -> None:
    path = front.write_kubeconfig(tmp_path / "kubeconfig")
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == front.url
    assert path.stat().st_mode & 0o077 == 0
