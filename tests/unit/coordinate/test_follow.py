"""Following a sidecar over real HTTP: only a clear yes lets us lead, and it does not last."""

import asyncio
import gzip
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

import pytest
from aiohttp import web

from defib.clock import SystemClock
from defib.config import BadSettings, Settings
from defib.coordinate.election import Candidate, Terms
from defib.coordinate.follow import Follower
from defib.replica import candidate_of

RETRY_SECONDS = 0.1
ME = Candidate("me", Terms(lease_seconds=3.0, renew_seconds=2.0, retry_seconds=RETRY_SECONDS))

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Sidecar:
    """Answers as it is told to, and counts."""

    def __init__(self) -> None:
        self.answer: Answering = says('{"name":"me"}')
        self.asked = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        return await self.answer(request)


def says(text: str | bytes, status: int = 200, **headers: str) -> Answering:
    async def answer(_: web.Request) -> web.Response:
        body = text.encode() if isinstance(text, str) else text
        return web.Response(
            body=body, status=status, headers={name.replace("_", "-"): v for name, v in headers.items()}
        )

    return answer


async def never(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


async def in_pieces(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in (b'{"na', b'me":"m', b'e"}'):
        await response.write(piece)
        await asyncio.sleep(0.01)  # so that each is a piece of its own on the way
    return response


async def without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(1000):
        await response.write(b" " * 65536)
    return response


async def broken_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b'{"name":"me"}')
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.fixture
async def sidecar() -> AsyncIterator[Sidecar]:
    sidecar = Sidecar()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", sidecar.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sidecar.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield sidecar
    await runner.cleanup()


class Following:
    """A follower at work, and how often it has said that something changed."""

    def __init__(self, url: str, me: Candidate = ME) -> None:
        self.news = 0
        self._stirred = asyncio.Event()
        self.follower = Follower(url, me, SystemClock(), self._changed)

    def _changed(self) -> None:
        self.news += 1
        self._stirred.set()

    async def expect(self, *, leads: bool) -> None:
        """Soon, and as soon as it is so."""
        async with asyncio.timeout(5):
            while (self.follower.mandate is not None) is not leads:
                self._stirred.clear()
                await self._stirred.wait()


@asynccontextmanager
async def following(url: str, me: Candidate = ME) -> AsyncIterator[Following]:
    at_work = Following(url, me)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(at_work.follower.run())
        yield at_work
        running.cancel()


async def expect_asked_again(sidecar: Sidecar, times: int = 2) -> None:
    """So often that the answer to the first of them has been heard."""
    before = sidecar.asked
    async with asyncio.timeout(5):
        while sidecar.asked < before + times:  # noqa: ASYNC110  the other side of a socket wakes nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "answer",
    [says('{"name":"me"}'), says('{"name": "me", "more": [1, {"x": null}]}'), says(b'\n{"name":"me"}\n'), in_pieces],
    ids=["as the sidecar says it", "with more in it", "with white space", "in pieces"],
)
async def test_le_15_whoever_is_named_leads(sidecar: Sidecar, answer: Answering) -> None:
    sidecar.answer = answer
    async with following(sidecar.url) as at_work:
        await at_work.expect(leads=True)
        assert at_work.follower.leader == "me"


BAD = {
    "another name": says('{"name":"other"}'),
    "nobody": says('{"name":""}'),
    "a name that begins like ours": says('{"name":"me2"}'),
    "no JSON": says("me"),
    "nothing": says(""),
    "no object": says('["name","me"]'),
    "no name": says('{"leader":"me"}'),
    "a name that is no text": says('{"name":["me"]}'),
    "null": says('{"name":null}'),
    "broken UTF-8": says(b'{"name":"me","x":"\xff"}'),
    "nesting without end": says('{"name":"me","x":' + "[" * 5000 + "]" * 5000 + "}"),
    "an error": says('{"name":"me"}', 500),
    "not found": says('{"name":"me"}', 404),
    "another good status": says('{"name":"me"}', 202),
    "a huge answer": says('{"name":"me","x":"' + "x" * 70000 + '"}'),
    "an answer without end": without_end,
    "an answer that breaks off": broken_off,
    "no answer in time": never,
    "a packed answer": says(gzip.compress(b'{"name":"me"}'), Content_Encoding="gzip"),
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD.keys())
async def test_le_15_whatever_is_not_a_clear_yes_makes_us_step_down(sidecar: Sidecar, answer: Answering) -> None:
    async with following(sidecar.url) as at_work:
        await at_work.expect(leads=True)
        mandate = at_work.follower.mandate
        sidecar.answer = answer
        await at_work.expect(leads=False)
        assert mandate is not None
        assert mandate.is_taken_back
        sidecar.answer = says('{"name":"me"}')
        await at_work.expect(leads=True)
        assert at_work.follower.mandate is not mandate, "another term has another mandate"


async def test_le_15_a_redirect_is_not_followed(sidecar: Sidecar) -> None:
    async def elsewhere(request: web.Request) -> web.StreamResponse:
        if request.path == "/":
            raise web.HTTPFound("/else")
        return await says('{"name":"me"}')(request)

    sidecar.answer = elsewhere
    async with following(sidecar.url) as at_work:
        await expect_asked_again(sidecar)
        assert at_work.follower.mandate is None


async def test_le_15_a_sidecar_that_is_gone_makes_us_step_down() -> None:
    async with following("http://127.0.0.1:1/") as at_work:
        await asyncio.sleep(3 * RETRY_SECONDS)  # so that it has been tried
        assert at_work.follower.mandate is None
        assert at_work.follower.leader == ""


async def test_nobody_is_not_our_name_even_if_we_had_none(sidecar: Sidecar) -> None:
    sidecar.answer = says('{"name":""}')
    async with following(sidecar.url, Candidate("", ME.terms)) as at_work:
        await expect_asked_again(sidecar)
        assert at_work.follower.mandate is None


async def test_a_mandate_ends_by_itself_two_retry_periods_after_it_was_asked_for(sidecar: Sidecar) -> None:
    async with following(sidecar.url) as at_work:
        await at_work.expect(leads=True)
        mandate = at_work.follower.mandate
        assert mandate is not None
        assert 0 < mandate.ends - SystemClock().monotonic() <= 2 * RETRY_SECONDS
        sidecar.answer = never
        await expect_asked_again(sidecar, 1)
        assert mandate.ends - SystemClock().monotonic() <= 2 * RETRY_SECONDS
        assert mandate.ends < math.inf


async def test_one_term_is_one_mandate_and_no_news(sidecar: Sidecar) -> None:
    async with following(sidecar.url) as at_work:
        await at_work.expect(leads=True)
        mandate = at_work.follower.mandate
        await expect_asked_again(sidecar, 5)
        assert at_work.follower.mandate is mandate
        assert at_work.news == 1


async def test_that_another_one_leads_is_news_too(sidecar: Sidecar) -> None:
    sidecar.answer = says('{"name":"other"}')
    async with following(sidecar.url) as at_work:
        await expect_asked_again(sidecar)
        assert (at_work.follower.leader, at_work.news) == ("other", 1)


def test_a_sidecar_knows_us_by_the_name_of_our_host_and_elsewhere_each_process_has_its_own() -> None:
    follows, leads = Settings(election="follow"), Settings(election="lease")
    assert candidate_of(follows).name == socket.gethostname()
    assert candidate_of(leads).name != candidate_of(leads).name
    assert candidate_of(Settings(election="follow", replica_name="named")).name == "named"


def terms_of(election: Literal["follow", "lease"], lease: float, renew: float, retry: float) -> Settings:
    return Settings(
        election=election,
        lease_duration_seconds=lease,
        renew_deadline_seconds=renew,
        retry_period_seconds=retry,
    )


@pytest.mark.parametrize(("lease", "renew", "most"), [(15.0, 10.0, 2.5), (12.0, 9.0, 1.5)])
def test_what_a_sidecar_says_must_be_over_before_another_one_can_lead(lease: float, renew: float, most: float) -> None:
    """It counts for two retry periods, which must fit between the end of a mandate and that of the lease."""
    assert candidate_of(terms_of("follow", lease, renew, most)).terms.retry_seconds == most
    with pytest.raises(BadSettings) as caught:
        candidate_of(terms_of("follow", lease, renew, most + 0.5))
    (problem,) = caught.value.problems
    assert problem == (
        f"--retry-period: what a sidecar says counts for {2 * most + 1:g} s, two retry periods, and must be over "
        f"before another one can lead: choose {most:g} s or less"
    )
    assert candidate_of(terms_of("lease", lease, renew, most + 0.5)), "whoever has a lock of its own stops by that"
