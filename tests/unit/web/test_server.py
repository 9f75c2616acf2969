"""The probes, asked over real HTTP."""

import asyncio
import threading
from collections.abc import Sequence

import aiohttp
import pytest

from defib.telemetry.metrics import Metrics
from defib.web.door import CannotListen
from defib.web.server import Probes, overdue, serving

LOOPBACK = "127.0.0.1"


def nothing_new() -> None:
    pass


def probes(*, not_alive: Sequence[str] = (), not_ready: Sequence[str] = (), scrape: bytes = b"") -> Probes:
    return Probes(
        not_alive=lambda: not_alive, not_ready=lambda: not_ready, before_scrape=nothing_new, scrape=lambda: scrape
    )


async def asked(what: Probes, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        serving(what, LOOPBACK, 0) as port,
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{LOOPBACK}:{port}{path}") as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_probe_without_reasons_against_it_is_ok(path: str) -> None:
    assert await asked(probes(), path) == (200, "ok\n")


async def test_not_alive_is_503_with_a_line_per_reason() -> None:
    assert await asked(probes(not_alive=["a", "b"]), "/healthz") == (503, "a\nb\n")


async def test_not_ready_is_503_with_a_line_per_reason_and_does_not_touch_health() -> None:
    blind = probes(not_ready=["nodes: not listed yet"])
    assert await asked(blind, "/readyz") == (503, "nodes: not listed yet\n")
    assert await asked(blind, "/healthz") == (200, "ok\n")


async def test_metrics_are_served_as_prometheus_text() -> None:
    what = probes(scrape=Metrics().render())
    async with (
        serving(what, LOOPBACK, 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{LOOPBACK}:{port}/metrics") as response,
    ):
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "defib_build_info" in await response.text()


async def test_a_slow_scrape_does_not_hold_up_the_probes() -> None:
    scraping, released = threading.Event(), threading.Event()

    def slowly() -> bytes:
        scraping.set()
        released.wait(timeout=10)
        return b"done\n"

    what = Probes(not_alive=tuple, not_ready=tuple, before_scrape=nothing_new, scrape=slowly)
    async with serving(what, LOOPBACK, 0) as port, aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
        scrape = tasks.create_task(text_of(session, f"http://{LOOPBACK}:{port}/metrics"))
        await asyncio.to_thread(scraping.wait, 10)
        assert await text_of(session, f"http://{LOOPBACK}:{port}/healthz") == "ok\n"
        assert not scrape.done()
        released.set()
        assert await scrape == "done\n"


async def text_of(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as response:
        return await response.text()


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics"])
async def test_only_reading_is_possible(path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        status, _ = await asked(probes(), path, method)
        assert status == 405
    assert await asked(probes(), path, "HEAD") == (200, "")


async def test_the_index_names_what_is_served() -> None:
    _, text = await asked(probes(), "/")
    assert all(path in text for path in ("/healthz", "/readyz", "/metrics"))


async def test_a_port_in_use_is_told_in_one_line_that_says_what_to_do() -> None:
    async with serving(probes(), LOOPBACK, 0) as port:
        with pytest.raises(CannotListen) as raised:
            async with serving(probes(), LOOPBACK, port):
                pass
    assert str(raised.value) == f"port {port} is already in use; choose another with --probes-address"


async def test_a_foreign_address_is_told_in_one_line() -> None:
    with pytest.raises(CannotListen, match=r"^192\.0\.2\.1 is not an address of this machine; choose another"):
        async with serving(probes(), "192.0.2.1", 0):
            pass


async def test_serving_ends_at_once_even_with_an_idle_connection_open() -> None:
    async with asyncio.timeout(5):
        async with serving(probes(), LOOPBACK, 0) as port:
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()
        await writer.wait_closed()


def test_a_pass_that_is_late_is_a_reason_and_one_in_time_is_none() -> None:
    assert overdue(last_pass=100.0, now=130.0, limit_seconds=60.0) == ()
    assert overdue(last_pass=100.0, now=170.0, limit_seconds=60.0) == ("the last pass was 70 s ago, allowed are 60 s",)
