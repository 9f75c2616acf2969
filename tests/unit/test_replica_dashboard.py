"""The dashboard of a replica as a process: served beside its probes, and never a reason to end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import aiohttp
import msgspec
import pytest
import structlog

from defib.config import Settings
from defib.coordinate.leadership import Alone
from defib.forms import Address
from defib.replica import run, seats_of
from defib.simulate.http import serving
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock
from defib.simulate.virtual_time import run as run_virtually
from tests.sharded_replicas import HOME, replicas_on
from tests.unit.test_replica_start import LOOK_SECONDS, LOOPBACK, PATIENCE_SECONDS, Start, free_port

Mode = Literal["off", "read", "act"]


@asynccontextmanager
async def running(start: Start, port: int, mode: Mode = "read", **more: Any) -> AsyncIterator[None]:
    """On the embedded server over HTTP; it serves its dashboard at this port."""
    settings = msgspec.structs.replace(
        start.settings(start.kubeconfig), dashboard=mode, dashboard_address=Address(LOOPBACK, port), **more
    )
    start.server.put("namespaces", {"metadata": {"name": "defib-system"}})
    start.server.put("nodes", {"metadata": {"name": "n1"}})
    async with serving(start.server, port=start.port), asyncio.TaskGroup() as group:
        task = group.create_task(run(settings))
        await start.answers("/readyz", 200)
        yield
        task.cancel()


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


async def board(port: int) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"http://{LOOPBACK}:{port}/api/board") as response:
        assert response.status == 200
        return await response.json()


async def until(port: int, is_so: Callable[[Any], bool]) -> Any:
    """The board, as soon as this is so of it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with suppress(aiohttp.ClientConnectorError):
                told = await board(port)
                if told["nodes"] and is_so(told):
                    return told
            await asyncio.sleep(LOOK_SECONDS)


async def test_a_replica_shows_what_it_sees(start: Start) -> None:
    port = free_port()
    async with running(start, port):
        told = await until(port, lambda board: board["nodes"][0][0] == "n1")
    assert (told["can_act"], told["leads"], told["shards"]["mode"]) == (False, True, "off")
    assert told["leader"] == told["replica"] == socket.gethostname()


async def test_a_replica_that_is_elected_is_shown_by_the_name_that_stands_in_the_lock(start: Start) -> None:
    port = free_port()
    async with running(start, port, election="lease"):
        told = await until(port, lambda board: bool(board["leads"]))
    assert told["leader"] == told["replica"]
    assert told["shards"]["holders"] == [{"name": told["replica"], "buckets": 32, "nodes": 1, "is_me": True}]


async def test_where_it_may_act_a_wish_is_sent_with_the_token_that_was_shown(start: Start) -> None:
    port = free_port()
    async with running(start, port, "act"), aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer somebody"}
        async with session.post(f"http://{LOOPBACK}:{port}/api/pause", json={"reason": "x"}, headers=headers) as answer:
            assert (answer.status, "Defib is paused" in await answer.text()) == (200, True)
        told = await until(port, lambda board: bool(board["brake"]["on"]))
    assert told["brake"]["reason"] == "x"


async def test_a_port_that_is_taken_is_a_warning_and_nothing_more(start: Start) -> None:
    with socket.socket() as taken, structlog.testing.capture_logs() as logs:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        async with running(start, taken.getsockname()[1]):
            await start.answers("/healthz", 200)
    told = [log for log in logs if log["event"] == "dashboard is not served"]
    assert [log["log_level"] for log in told] == ["warning"]
    assert told[0]["why"].endswith("is already in use; choose another with --dashboard-address")


async def test_it_can_be_switched_off(start: Start) -> None:
    port = free_port()
    async with running(start, port, "off"):
        with pytest.raises(aiohttp.ClientConnectorError):
            await board(port)


def test_whoever_is_alone_is_in_no_election() -> None:
    seats = seats_of(Settings(election="off"), Alone())
    assert (seats.mode, seats.leads, seats.holders) == ("off", True, {})


def test_replicas_that_share_the_work_all_show_who_has_what() -> None:
    names = ("defib-a", "defib-b", "defib-c")

    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("namespaces", {"metadata": {"name": HOME}})
        async with replicas_on(server, clock) as replicas:
            replicas.start(*names)
            holders = (await replicas.settle()).of
            for name in names:
                seats = seats_of(Settings(election="shards"), replicas[name].leadership)
                assert {number: who for who, held in seats.holders.items() for number in held} == holders
                assert (seats.mode, seats.unowned, seats.leader in names) == ("shards", 0, True)

    run_virtually(main, limit=timedelta(hours=1))
