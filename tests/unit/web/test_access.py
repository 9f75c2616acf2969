"""Who may look at a dashboard that others can reach, over real HTTP; the API server decides."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from defib.clock import SystemClock
from defib.model.secret import Secret
from defib.web.access import (
    NEW_AT_ONCE,
    NEW_PER_SECOND,
    OUTAGE_SECONDS,
    REMEMBERED_MAX,
    REMEMBERED_SECONDS,
    REVIEWS_AT_ONCE,
    Access,
    NotAllowed,
    is_loopback,
)
from defib.web.dashboard import PING_SECONDS
from tests.dashboard_stage import Scene, a_site, nodes_of, pictured, showing
from tests.unit.web.test_dashboard import Answer, asked, listening
from tests.unit.web.token_server import AsUser, TokenServer

EVERYWHERE = "0.0.0.0"  # on every address of this machine; the tests come by loopback
API = ("/api/board", "/api/live", "/api/node/worker-0000", "/api/incident/x", "/api/me", "/api/nothing")


@asynccontextmanager
async def reachable() -> AsyncIterator[tuple[str, TokenServer]]:
    server = TokenServer()
    async with server.run() as address:
        scene = Scene(pictured(a_site(nodes_of(3))))
        async with showing(scene, as_user=AsUser(address), host=EVERYWHERE) as url:
            yield url, server


async def with_token(url: str, token: str, path: str = "/api/board") -> Answer:
    return await asked(url, path, headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"})


@pytest.mark.parametrize("path", API)
async def test_beyond_loopback_nothing_is_told_without_a_token(path: str) -> None:
    async with reachable() as (url, server):
        answer = await asked(url, path)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json == {"error": "show a token of the cluster: kubectl create token NAME"}
        assert not server.asked


async def test_the_page_itself_holds_no_secrets_and_needs_no_token() -> None:
    async with reachable() as (url, _):
        assert (await asked(url, "/")).status == 200
        assert (await asked(url, "/live.js")).status == 200


@pytest.mark.parametrize(
    ("token", "status", "why"),
    [
        ("looker", 200, ""),
        ("stranger", 403, "stranger may not list nodehealthchecks.remediation.medik8s.io"),
        ("expired", 401, "the API server does not accept this token; it may have expired"),
    ],
)
async def test_whether_somebody_may_look_is_what_the_api_server_says(token: str, status: int, why: str) -> None:
    async with reachable() as (url, _):
        answer = await with_token(url, token)
    assert (answer.status, answer.json.get("error", "")) == (status, why)


async def test_whoever_may_look_may_listen() -> None:
    async with reachable() as (url, _), listening(url, Authorization="Bearer looker") as stream:
        assert (await stream.next())[0] == "board"


async def test_the_api_server_is_asked_once_in_a_while_also_about_those_who_may_not() -> None:
    async with reachable() as (url, server):
        for _ in range(5):
            assert (await with_token(url, "looker")).status == 200
            assert (await with_token(url, "expired")).status == 401
        assert server.asked == {"looker": 2, "expired": 1}, "who it is, and what it may"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "looker", f"Bearer {'x' * 20000}", "Bearer é"],
)
async def test_what_is_no_token_is_not_passed_on(header: str) -> None:
    async with reachable() as (url, server):
        answer = await asked(url, headers={"Authorization": header})
        assert answer.status in (400, 401)
        assert not server.asked


async def test_who_the_token_belongs_to_and_what_it_may_do_is_told() -> None:
    async with reachable() as (url, _):
        looker = (await with_token(url, "looker", "/api/me")).json
        chief = (await with_token(url, "chief", "/api/me")).json
    wishes = ("pause", "resume", "approve", "confirm-down")
    assert looker == {"user": "looker", "can": {"look": True} | dict.fromkeys(wishes, False)}
    assert chief == {"user": "chief", "can": {"look": True} | dict.fromkeys(wishes, True)}


async def test_an_api_server_that_fails_makes_nobody_forbidden() -> None:
    async with reachable() as (url, server):
        server.fails = True
        assert (await with_token(url, "looker")).status == 503
        server.fails = False
        assert (await with_token(url, "looker")).status == 200, "and it is not remembered"


async def test_whoever_tries_tokens_by_the_dozen_does_not_keep_the_api_server_busy() -> None:
    async with reachable() as (url, server):
        server.goes_on.clear()
        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(with_token(url, f"guess-{n}")) for n in range(3 * REVIEWS_AT_ONCE)}
            first: list[int] = []
            while len(first) < 2 * REVIEWS_AT_ONCE:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                first += [task.result().status for task in done]
            assert sum(server.asked.values()) <= REVIEWS_AT_ONCE
            server.goes_on.set()
        assert first == [503] * 2 * REVIEWS_AT_ONCE
        assert [task.result().status for task in tasks] == [401] * REVIEWS_AT_ONCE


async def test_of_a_token_that_was_refused_nothing_is_kept_that_leads_to_it() -> None:
    async with TokenServer().run() as address:
        access = Access(AsUser(address), SystemClock(), "defib-system")
        with pytest.raises(NotAllowed):
            await access.check(Secret("lost-and-found"))
        gc.collect()
        kept = [one for one in gc.get_objects() if isinstance(one, Secret) and one.reveal() == "lost-and-found"]
        assert len(kept) == 0


async def test_whoever_goes_through_tokens_is_stopped_and_those_who_are_known_are_not() -> None:
    server, clock = TokenServer(), Hours()
    async with server.run() as address:
        access = Access(AsUser(address), clock, "defib-system")
        await access.check(Secret("looker"))
        refused = 0
        for number in range(2 * int(NEW_AT_ONCE)):
            with pytest.raises(NotAllowed) as raised:
                await access.check(Secret(f"guess-{number}"))
            refused += raised.value.status == 503
        assert refused >= NEW_AT_ONCE / 2
        for number in range(REMEMBERED_MAX):
            clock.ahead += 1 / NEW_PER_SECOND
            with pytest.raises(NotAllowed):
                await access.check(Secret(f"another-{number}"))
            await access.check(Secret("looker"))
        clock.ahead += 1.0
        await access.check(Secret("chief"))


class Hours(SystemClock):
    """A clock that can be put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def test_a_right_that_was_taken_away_is_gone_after_a_minute() -> None:
    server, clock = TokenServer(), Hours()
    async with server.run() as address:
        access = Access(AsUser(address), clock, "defib-system")
        await access.check(Secret("looker"))
        server.revoked.add("looker")
        await access.check(Secret("looker"))
        clock.ahead = REMEMBERED_SECONDS + 1
        with pytest.raises(NotAllowed, match="does not accept this token"):
            await access.check(Secret("looker"))


async def test_whoever_listens_is_cut_off_once_they_may_not_look_any_more() -> None:
    server, clock = TokenServer(), Hours()
    async with server.run() as address:
        scene = Scene(pictured(a_site(nodes_of(3))))
        async with (
            showing(scene, as_user=AsUser(address), host=EVERYWHERE, clock=clock) as url,
            listening(url, Authorization="Bearer looker") as stream,
        ):
            assert (await stream.next())[0] == "board"
            clock.ahead += PING_SECONDS
            kind, told = await stream.next()
            assert (kind, told.keys()) == ("ping", {"now"})
            server.revoked.add("looker")
            clock.ahead += REMEMBERED_SECONDS
            with pytest.raises((ConnectionError, aiohttp.ClientError)):
                await stream.next()


async def test_while_the_api_server_is_out_whoever_could_look_still_can_for_a_while() -> None:
    server, clock = TokenServer(), Hours()
    async with server.run() as address:
        access = Access(AsUser(address), clock, "defib-system")
        await access.check(Secret("looker"))
        server.fails = True
        clock.ahead = OUTAGE_SECONDS - 1
        await access.check(Secret("looker"))
        with pytest.raises(NotAllowed, match="cannot be asked"):
            await access.check(Secret("chief"))
        clock.ahead = OUTAGE_SECONDS + REMEMBERED_SECONDS + 1
        with pytest.raises(NotAllowed, match="cannot be asked"):
            await access.check(Secret("looker"))


async def test_only_so_many_tokens_are_remembered() -> None:
    server, clock = TokenServer(), Hours()
    async with server.run() as address:
        access = Access(AsUser(address), clock, "defib-system")
        await access.check(Secret("looker"))
        for number in range(REMEMBERED_MAX):
            clock.ahead += 1 / NEW_PER_SECOND
            with pytest.raises(NotAllowed):
                await access.check(Secret(f"guess-{number}"))
        clock.ahead += 1.0
        await access.check(Secret("looker"))
        assert server.asked["looker"] == 4, "it was forgotten, and asked about again"


@pytest.mark.parametrize(
    ("host", "is_so"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("", False),
        ("localhost.example.org", False),
    ],
)
def test_only_what_nobody_else_can_reach_is_open_to_all(host: str, *, is_so: bool) -> None:
    assert is_loopback(host) is is_so
