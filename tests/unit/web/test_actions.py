"""What a person does on the page: how a wish arrives, and that it is done with that person's own name."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from defib.clock import SystemClock
from defib.console.page import hands
from defib.kube.client import Client
from defib.kube.kinds import CONFIG_MAPS
from defib.model.secret import Secret
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.web.actions import Wish
from defib.web.dashboard import ACTS_AT_ONCE
from tests.dashboard_stage import RULES, Scene, a_site, nodes_of, pictured, showing
from tests.unit.console.desk import a_server, add_nodes
from tests.unit.web.test_dashboard import Answer, asked

ADA = {"Authorization": "Bearer ada"}
DEEDS = ("pause", "resume", "approve", "confirm-down")


@asynccontextmanager
async def acting(server: ApiServer | None = None) -> AsyncIterator[tuple[str, ApiServer]]:
    """On the embedded server, to which whoever shows a token is known by it."""
    clock = SystemClock()
    if server is None:
        server = ApiServer(clock)
        server.put("namespaces", {"metadata": {"name": RULES.namespace}})

    @asynccontextmanager
    async def as_user(token: Secret) -> AsyncIterator[Client]:
        yield Client(InProcess(server, client=token.reveal()), clock)

    scene = Scene(pictured(a_site(nodes_of(3))))
    async with showing(scene, carry_out=hands(as_user, clock, RULES)) as url:
        yield url, server


async def told(url: str, wish: str, body: Any = None, **headers: str) -> Answer:
    return await asked(url, f"/api/{wish}", "POST", json=body or {}, headers=ADA | headers)


def brake(server: ApiServer) -> dict[str, str]:
    stored = server.store.get(str(CONFIG_MAPS), f"{RULES.namespace}/defib-brake")
    return dict(stored.object["data"]) if stored is not None else {}


async def test_a_person_pauses_and_resumes_everything_by_their_own_hand() -> None:
    async with acting() as (url, server):
        paused = await told(url, "pause", {"reason": "storage maintenance"})
        assert (paused.status, paused.json["message"].startswith("Defib is paused")) == (200, True)
        assert (brake(server)["paused"], brake(server)["reason"]) == ("true", "storage maintenance")
        resumed = await told(url, "resume")
        assert resumed.json["message"].startswith("Defib goes on")
        assert brake(server)["paused"] == "false"
        assert len(server.audit.writes("ada")) >= 2
        assert server.audit.writes("operator") == []


async def test_the_page_knows_that_it_may_act() -> None:
    async with acting() as (url, _):
        board = await asked(url, headers={"Accept-Encoding": "identity"})
    assert board.json["can_act"] is True


async def test_a_node_that_waits_is_approved_and_one_that_does_not_is_told_why_not() -> None:
    clock = SystemClock()
    server = a_server(clock)
    add_nodes(server, 5, ill=["n0"])
    async with acting(server) as (url, _):
        refused = await told(url, "approve", {"node": "n1"})
        assert refused.status == 409
        assert refused.json["error"].startswith("nothing waits for approval on node n1")
        unknown = await told(url, "approve", {"node": "nx"})
        assert unknown.json["error"].startswith("there is no node nx")
        assert server.audit.writes("ada") == []


async def test_what_nobody_asks_about_cannot_be_confirmed() -> None:
    async with acting(a_server(SystemClock())) as (url, _):
        answer = await told(url, "confirm-down", {"node": "n1"})
    assert (answer.status, "there is no incident of node n1" in answer.json["error"]) == (409, True)


@pytest.mark.parametrize("code", [401, 403])
async def test_what_the_api_server_refuses_is_refused_with_its_words(code: int) -> None:
    async with acting() as (url, server):
        refusal = Refuse(code=code, message="you may not")
        server.faults.inject(Fault(effect=refusal, resource=str(CONFIG_MAPS)))
        answer = await told(url, "pause", {"reason": "x"})
        assert answer.status == code
        assert answer.json["error"]
        assert brake(server) == {}


async def test_whoever_sends_wishes_by_the_dozen_does_not_keep_the_operator_busy() -> None:
    begun, goes_on = asyncio.Semaphore(0), asyncio.Event()

    async def slowly(_: Secret, __: Wish) -> str:
        begun.release()
        await goes_on.wait()
        return "done"

    scene = Scene(pictured(a_site(nodes_of(3))))
    async with asyncio.timeout(10), showing(scene, carry_out=slowly) as url, asyncio.TaskGroup() as group:
        first = [group.create_task(told(url, "approve", {"node": "n1"})) for _ in range(ACTS_AT_ONCE)]
        for _ in first:
            await begun.acquire()
        assert (await told(url, "approve", {"node": "n1"})).status == 503
        goes_on.set()
        assert {(await one).status for one in first} == {200}
        assert (await told(url, "pause")).status == 200


@pytest.mark.parametrize("wish", DEEDS)
async def test_nothing_is_done_by_a_get(wish: str) -> None:
    async with acting() as (url, server):
        for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
            answer = await asked(url, f"/api/{wish}", method, headers=ADA)
            assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert server.audit.writes("ada") == []


@pytest.mark.parametrize("wish", DEEDS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Authorization": "Basic YTpi"}, 401),
    ],
)
async def test_what_a_foreign_page_could_send_is_refused(wish: str, headers: dict[str, str], status: int) -> None:
    async with acting() as (url, server):
        everything = ADA | {"Content-Type": "application/json"} | headers
        answer = await asked(url, f"/api/{wish}", "POST", data=b"{}", headers=everything)
        assert answer.status == status
        assert server.audit.writes() == []


@pytest.mark.parametrize("wish", DEEDS)
async def test_nothing_is_done_without_a_token_and_not_by_a_cookie(wish: str) -> None:
    async with acting() as (url, server):
        cookie = {"Cookie": "Authorization=Bearer ada"}
        assert (await asked(url, f"/api/{wish}", "POST", json={}, headers=cookie)).status == 401
        assert server.audit.writes() == []


async def test_our_own_page_may_act() -> None:
    async with acting() as (url, _):
        own = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
        assert (await told(url, "pause", **own)).status == 200


@pytest.mark.parametrize(
    ("wish", "body"),
    [
        ("pause", b"["),
        ("pause", b"[]"),
        ("pause", b'{"reason":1}'),
        ("pause", b'{"reason":"a\\nb"}'),
        ("pause", b'{"reason":"' + b"x" * 501 + b'"}'),
        ("pause", b'{"why":"typo"}'),
        ("pause", b"\xff"),
        ("pause", b'{"reason":' + b"[" * 2000),
        ("resume", b'{"reason":"none is needed"}'),
        ("approve", b"{}"),
        ("approve", b'{"node":"../../configmaps/x"}'),
        ("approve", b'{"node":"n1/status"}'),
        ("approve", b'{"node":"N1"}'),
        ("approve", b'{"node":""}'),
        ("approve", b'{"node":"n1","seconds":1}'),
        ("approve", b'{"node":"n1","seconds":1e9}'),
        ("approve", b'{"node":"n1","seconds":NaN}'),
        ("confirm-down", b'{"node":"n1?dryRun=All"}'),
        ("confirm-down", b'{"node":"' + b"n" * 300 + b'"}'),
    ],
)
async def test_a_wish_that_makes_no_sense_is_not_guessed_at(wish: str, body: bytes) -> None:
    async with acting() as (url, server):
        headers = ADA | {"Content-Type": "application/json"}
        answer = await asked(url, f"/api/{wish}", "POST", data=body, headers=headers)
        assert (answer.status, answer.json["error"].startswith("the body makes no sense")) == (400, True)
        assert server.audit.writes() == []


async def test_a_huge_body_is_not_read() -> None:
    async with acting() as (url, server):
        body = io.BytesIO(b'{"reason":"' + b" " * 2**20 + b'"}')
        answer = await asked(url, "/api/pause", "POST", data=body, headers=ADA | {"Content-Type": "application/json"})
        assert answer.status == 413
        assert server.audit.writes() == []
