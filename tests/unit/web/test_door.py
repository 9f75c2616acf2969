"""What whoever reaches a port can take from us, over real connections: so much and no more."""

import asyncio
import threading

import aiohttp
import pytest
from aiohttp import web

from defib.web.door import Door, open_door
from defib.web.server import CONNECTIONS_MAX, Probes, serving

LOOPBACK = "127.0.0.1"
MOST = 4
ANSWERED = b"HTTP/1.1 200 OK"
MEGABYTES = b"x" * 2**23
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def nothing_new() -> None:
    pass


def a_runner(body: bytes = b"ok", idle_seconds: float = 30.0) -> web.AppRunner:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    app = web.Application()
    app.router.add_get("/", answer)
    return web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=idle_seconds)


def a_door(most: int = MOST) -> Door:
    return Door(host=LOOPBACK, port=0, flag="--flag", most=most)


async def is_hung_up_on(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(5):
        try:
            while await reader.read(2**20):
                pass
        except ConnectionError:
            pass
    return True


async def test_for_a_connection_too_many_the_oldest_one_goes() -> None:
    async with open_door(a_runner(), a_door()) as port:
        guests = [await asyncio.open_connection(LOOPBACK, port) for _ in range(MOST)]
        for reader, writer in guests:
            writer.write(ASK)
            assert (await reader.readuntil(b"ok")).startswith(ANSWERED)
        late_reader, late = await asyncio.open_connection(LOOPBACK, port)
        late.write(ASK)
        assert (await late_reader.readuntil(b"ok")).startswith(ANSWERED)
        assert await is_hung_up_on(guests[0][0])
        guests[1][1].write(ASK)
        assert (await guests[1][0].readuntil(b"ok")).startswith(ANSWERED), "and only that one"
        for _, writer in (*guests, (late_reader, late)):
            writer.close()


async def test_whoever_never_reads_what_they_asked_for_is_sent_away_too() -> None:
    async with open_door(a_runner(MEGABYTES), a_door(most=1)) as port:
        reader, idle = await asyncio.open_connection(LOOPBACK, port)
        idle.write(ASK)
        assert await reader.readline() == ANSWERED + b"\r\n"
        async with aiohttp.ClientSession() as session, session.get(f"http://{LOOPBACK}:{port}/") as response:
            assert await response.read() == MEGABYTES
        assert await is_hung_up_on(reader)
        idle.close()


@pytest.mark.parametrize("half", [b"", ASK[:7], ASK[:-2]], ids=["nothing", "half a line", "half a head"])
async def test_whoever_does_not_end_what_they_began_to_ask_is_sent_away(half: bytes) -> None:
    async with open_door(a_runner(idle_seconds=0.1), a_door()) as port:
        reader, slow = await asyncio.open_connection(LOOPBACK, port)
        slow.write(half)
        assert await is_hung_up_on(reader)
        slow.close()


async def test_a_probe_is_answered_however_many_hold_a_connection_open_and_say_nothing() -> None:
    probes = Probes(not_alive=tuple, not_ready=tuple, before_scrape=nothing_new, scrape=lambda: b"")
    async with serving(probes, LOOPBACK, 0) as port:
        silent = [await asyncio.open_connection(LOOPBACK, port) for _ in range(2 * CONNECTIONS_MAX)]
        async with aiohttp.ClientSession() as session, session.get(f"http://{LOOPBACK}:{port}/healthz") as response:
            assert response.status == 200
        assert await is_hung_up_on(silent[0][0])
        for _, writer in silent:
            writer.close()


async def test_however_many_ask_for_metrics_at_once_they_take_one_thread() -> None:
    many, begun, released, scraping = 40, threading.Event(), threading.Event(), threading.Lock()
    scrapes: list[bool] = []

    def slowly() -> bytes:
        scrapes.append(is_alone := scraping.acquire(blocking=False))
        begun.set()
        assert released.wait(timeout=10)
        if is_alone:
            scraping.release()
        return b"%d\n" % len(scrapes)

    probes = Probes(not_alive=tuple, not_ready=tuple, before_scrape=nothing_new, scrape=slowly)
    async with serving(probes, LOOPBACK, 0) as port, aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:

        async def ask() -> bytes:
            async with session.get(f"http://{LOOPBACK}:{port}/metrics") as response:
                return await response.read()

        first = group.create_task(ask())
        assert await asyncio.to_thread(begun.wait, 10)
        others = [group.create_task(ask()) for _ in range(many)]
        async with session.get(f"http://{LOOPBACK}:{port}/healthz") as response:
            assert response.status == 200
        released.set()
        assert await first == b"1\n"
        assert b"1\n" not in [await other for other in others], "each is newer than when it was asked for"
    assert all(scrapes)
    assert len(scrapes) < many / 4
