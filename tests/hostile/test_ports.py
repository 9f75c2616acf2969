"""Raw bytes to every port of the operator, as nobody's HTTP library would send them: it answers others as if nothing were."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from random import Random
from urllib.parse import urlsplit

import pytest

from defib.model.secret import Secret
from defib.web.actions import BODY_MAX, Wish
from defib.web.leader import serving_leader
from defib.web.server import Probes, serving
from tests.dashboard_stage import Scene, a_site, nodes_of, pictured, showing

LOOPBACK = "127.0.0.1"
EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "2000")) // 10
ANSWER_SECONDS, SILENCE_SECONDS = 5.0, 0.1
ANSWER_BYTES = 2**20
WISHES: list[Wish] = []  # that came through; it stays empty


async def carry_out(_: Secret, wish: Wish) -> str:
    WISHES.append(wish)
    return "done"


def nothing() -> None:
    pass


@asynccontextmanager
async def probes() -> AsyncIterator[int]:
    asked = Probes(not_alive=lambda: (), not_ready=lambda: (), before_scrape=nothing, scrape=lambda: b"defib 1\n")
    async with serving(asked, LOOPBACK, 0) as port:
        yield port


@asynccontextmanager
async def leader() -> AsyncIterator[int]:
    async with serving_leader(lambda: "r1", LOOPBACK, 0) as port:
        yield port


@asynccontextmanager
async def dashboard() -> AsyncIterator[int]:
    async with showing(Scene(pictured(a_site(nodes_of(3)))), carry_out=carry_out) as url:
        yield urlsplit(url).port or 0


Served = Callable[[], AbstractAsyncContextManager[int]]
PORTS: dict[str, tuple[Served, bytes]] = {
    "probes": (probes, b"/healthz"),
    "leader": (leader, b"/"),
    "dashboard": (dashboard, b"/api/board"),
}
EVERY_PORT = pytest.mark.parametrize(("served", "path"), PORTS.values(), ids=PORTS)


async def sent(port: int, request: bytes, silence: float = SILENCE_SECONDS) -> bytes:
    """What comes back until the other side hangs up, or says nothing more."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    heard = b""
    with suppress(ConnectionError, TimeoutError):
        writer.write(request)
        while len(heard) < ANSWER_BYTES:
            async with asyncio.timeout(silence):
                chunk = await reader.read(2**16)
            if not chunk:
                break
            heard += chunk
    await hang_up(writer)
    return heard


async def hang_up(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.transport.abort()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()


async def expect_an_answer(port: int, path: bytes) -> None:
    heard = await sent(
        port, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", ANSWER_SECONDS
    )
    assert heard.startswith(b"HTTP/1.1 200 OK"), heard[:300]


HEAD = b"POST /api/pause HTTP/1.1\r\nHost: localhost\r\n"
RAW: dict[str, bytes] = {
    "nothing": b"",
    "zeros": b"\0" * 10_000,
    "a TLS greeting": bytes.fromhex("16030100a1010000 9d0303") + b"\x42" * 160,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0",
    "no UTF-8 in a path": b"GET /\xff\xfe\xc0\xae HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no UTF-8, encoded": b"GET /api/node/%ff%fe%c0%ae HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no UTF-8 in a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX-\xff: \xfe\r\n\r\n",
    "a NUL in a header": b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n",
    "a long path": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 50_000 + b"\r\n",
    "many cookies": b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a=b; " * 1_500 + b"\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 5\r\nContent-Length: 50\r\n\r\n{}GET /healthz HTTP/1.1\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "a length with a sign": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "a huge length": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "length and chunks": HEAD
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "odd chunks": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a huge chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
    "a negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n",
    "a chunk extension": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n",
    "line feeds alone": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "no host": b"GET /api/board HTTP/1.1\r\n\r\n",
    "another version": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "a method of its own": b"DESTROY /api/pause HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a whole URL": b"GET http://169.254.169.254/latest/meta-data HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a tunnel": b"CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "out of the folder": b"GET /..%2f..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "out of it, plain": b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a wish to be told to go on": HEAD + b"Expect: 100-continue\r\nContent-Length: 9000000\r\n\r\n",
    "an upgrade": b"GET /api/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "a bad range": b'GET / HTTP/1.1\r\nHost: localhost\r\nRange: bytes=-1-0,9-\r\nIf-None-Match: W/"""\r\n\r\n',
    "packed without end": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n\x1f\x8b\x08" + b"\xff" * 17,
    "deep JSON": HEAD
    + b"Authorization: Bearer x\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n"
    + b"[" * 4000,
}


@EVERY_PORT
@pytest.mark.parametrize("request_", RAW.values(), ids=RAW)
async def test_whatever_is_sent_the_next_one_is_answered(served: Served, path: bytes, request_: bytes) -> None:
    async with served() as port:
        heard = await sent(port, request_)
        assert heard.count(b"HTTP/1.1 2") <= 1, "what is hidden in a request is no second one"
        assert b"HTTP/1.1 500" not in heard
        assert b"Traceback" not in heard
        assert b"root:" not in heard
        await expect_an_answer(port, path)
    assert WISHES == []


@EVERY_PORT
async def test_requests_that_are_spoilt_at_random_neither_end_it_nor_make_it_stumble(
    served: Served, path: bytes
) -> None:
    whole = (
        HEAD
        + b"Connection: close\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
    )
    asked = [
        whole,
        b"GET " + path + b"?a=b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept-Encoding: gzip;q=0\r\n\r\n",
    ]
    async with served() as port:
        for seed in range(EXAMPLES):
            chance = Random(seed)
            request = bytearray(chance.choice(asked))
            for _ in range(chance.randint(1, 8)):
                place = chance.randrange(len(request))
                request[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
            heard = await sent(port, bytes(request))
            assert b"HTTP/1.1 500" not in heard, f"seed {seed}: {bytes(request)!r}"
        await expect_an_answer(port, path)
    assert WISHES == []


@EVERY_PORT
async def test_nobody_can_fill_our_log_with_requests_that_are_none(
    served: Served, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as port:
        for request in RAW.values():
            await sent(port, request, silence=0.02)
        await expect_an_answer(port, path)
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_body_is_read_no_further_than_a_wish_is_long() -> None:
    head = HEAD + b"Authorization: Bearer x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with dashboard() as port:
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(head)
        with suppress(ConnectionError):
            for _ in range(2 * BODY_MAX // 1024):
                writer.write(b"400\r\n" + b" " * 1024 + b"\r\n")
                await writer.drain()
        async with asyncio.timeout(ANSWER_SECONDS):
            heard = await reader.read(2**16)
        assert heard.startswith(b"HTTP/1.1 413 ")
        await hang_up(writer)
        await expect_an_answer(port, b"/api/board")


@EVERY_PORT
async def test_a_crowd_that_sends_its_requests_byte_by_byte_keeps_nobody_else_waiting(
    served: Served, path: bytes
) -> None:
    async with served() as port:
        with ExitStack() as stack:
            crowd = [stack.enter_context(socket.create_connection((LOOPBACK, port))) for _ in range(100)]
            for byte in b"GET / HT":
                for one in crowd:
                    one.send(bytes([byte]))
                await asyncio.sleep(0)  # so that they are let in
            await expect_an_answer(port, path)
