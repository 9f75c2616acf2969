"""The dashboard as a browser meets it, over real HTTP on loopback."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest

from defib.clock import SystemClock
from defib.decide.answers.node import answer_about
from defib.web.dashboard import FLAG
from defib.web.door import CannotListen
from defib.web.live import BEHIND_MAX, LISTENERS_MAX
from tests.builders import a_node
from tests.dashboard_stage import LOOPBACK, RULES, Scene, a_site, ill, nodes_of, pictured, showing, worker
from tests.unit.web.test_board import KEYS, an_incident, with_incidents

READ = ("/", "/index.html", "/api/board", "/api/node/worker-0000", "/api/incident/worker-0000", "/api/me")


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def asked(url: str, path: str = "/api/board", method: str = "GET", **more: Any) -> Answer:
    """As it came: nothing is unpacked."""
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.request(method, f"{url}{path}", allow_redirects=False, **more) as response,
    ):
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, headers, await response.read())


class Stream:
    """What a listener hears."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> tuple[str, Any]:
        async with asyncio.timeout(5):
            text = (await self.response.content.readuntil(b"\n\n")).decode()
        if not text:
            raise ConnectionResetError
        kind, body = text.rstrip("\n").split("\n")
        return kind.removeprefix("event: "), msgspec.json.decode(body.removeprefix("data: "))


@asynccontextmanager
async def listening(url: str, **headers: str) -> AsyncIterator[Stream]:
    async with (
        aiohttp.ClientSession(read_bufsize=2**22) as session,
        session.get(f"{url}/api/live", headers=headers) as response,
    ):
        assert response.status == 200
        yield Stream(response)


def a_scene(count: int = 9) -> Scene:
    picture = pictured(a_site(nodes_of(count)))
    return Scene(with_incidents(picture, an_incident(worker(0))))


async def test_the_board_is_complete() -> None:
    async with showing(a_scene()) as url:
        answer = await asked(url, headers={"Accept-Encoding": "identity"})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json.keys() == KEYS | {"version", "now", "nodes"}
    assert (answer.json["version"], answer.json["defib"], answer.json["can_act"]) == (1, "9.9.9", False)
    assert answer.json["nodes"][0] == [worker(0), 0, 0, 16]


async def test_whoever_has_the_board_already_is_not_sent_it_again() -> None:
    scene = a_scene()
    async with showing(scene) as url:
        first = await asked(url)
        tag = {"If-None-Match": first.headers["etag"]}
        again = await asked(url, headers=tag)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
        scene.change(one=a_node(worker(1), cordoned=True))
        await asyncio.sleep(0.06)  # the least time between two looks
        other = await asked(url, headers=tag)
    assert other.status == 200
    assert msgspec.json.decode(gzip.decompress(other.body))["version"] == 2


async def test_two_processes_never_have_the_same_tag() -> None:
    tags = set()
    for _ in range(2):
        async with showing(a_scene()) as url:
            tags.add((await asked(url)).headers["etag"])
    assert len(tags) == 2


@pytest.mark.parametrize("offer", ["identity", "br", "gzip;q=0", ""])
async def test_only_who_can_unpack_gets_it_packed(offer: str) -> None:
    async with showing(a_scene()) as url:
        for path in ("/api/board", "/"):
            answer = await asked(url, path, headers={"Accept-Encoding": offer})
            assert "content-encoding" not in answer.headers
            assert answer.headers["vary"] == "Accept-Encoding"


async def test_at_5000_nodes_the_board_stays_far_below_300_kb() -> None:
    clock = SystemClock()
    async with showing(a_scene(5000)) as url:
        began = clock.monotonic()
        answer = await asked(url)
        seconds = clock.monotonic() - began
        page = await asked(url, "/")
    assert len(msgspec.json.decode(gzip.decompress(answer.body))["nodes"]) == 5000
    assert len(answer.body) < 100_000
    assert seconds < 1.0
    assert len(page.body) < 100_000


async def test_a_node_is_told_in_the_words_of_defib_why() -> None:
    scene = a_scene()
    async with showing(scene) as url:
        told = (await asked(url, f"/api/node/{worker(3)}")).json
        missing = await asked(url, "/api/node/worker-x")
    known = answer_about(worker(3), scene.picture.cluster, scene.picture.plan, RULES.namespace)
    expected = msgspec.json.decode(msgspec.json.encode(known))
    assert told.pop("basis") == "As the operator defib-0 saw the cluster then."
    assert told.pop("checks") == expected["checks"]
    assert told.items() <= expected.items()
    assert (missing.status, missing.json) == (404, {"error": "there is no node worker-x"})


async def test_an_incident_is_told_whole() -> None:
    async with showing(a_scene()) as url:
        told = await asked(url, f"/api/incident/{worker(0)}")
        missing = await asked(url, "/api/incident/none")
    assert (told.json["node"], told.json["open"], told.json["timeline"]) == (worker(0), True, [])
    assert (missing.status, missing.json) == (404, {"error": "there is no incident none"})


async def test_whoever_shows_no_token_on_loopback_may_look_and_nothing_else() -> None:
    async with showing(a_scene()) as url:
        told = (await asked(url, "/api/me")).json
    wishes = dict.fromkeys(("pause", "resume", "approve", "confirm-down"), False)
    assert told == {"user": "", "can": {"look": True} | wishes}


@pytest.mark.parametrize("path", [*READ, "/nothing", "/api/nothing", "/api/live/x", "/api/node/none"])
async def test_every_answer_has_the_headers_that_keep_a_browser_safe(path: str) -> None:
    async with showing(a_scene()) as url:
        for method in ("GET", "DELETE"):
            headers = (await asked(url, path, method)).headers
            assert headers["content-security-policy"] == (
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
                "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert "server" not in headers
            assert "access-control-allow-origin" not in headers
            if path.startswith("/api/"):
                assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", READ)
async def test_what_can_be_read_can_only_be_read(path: str, method: str) -> None:
    async with showing(a_scene()) as url:
        assert (await asked(url, path, method)).status == 405


@pytest.mark.parametrize("wish", ["pause", "resume", "approve", "confirm-down"])
async def test_where_nobody_may_act_there_is_nothing_to_act_with(wish: str) -> None:
    async with showing(a_scene()) as url:
        assert (await asked(url, f"/api/{wish}", "POST", json={})).status == 404


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "",
        "localhost:80@evil",
        "10.0.0.1",
        "[::2]",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/board", "/api/live"])
async def test_a_name_that_somebody_else_gave_us_is_not_answered(host: str, path: str) -> None:
    async with showing(a_scene()) as url:
        answer = await asked(url, path, headers={"Host": host})
    assert (answer.status, answer.json) == (403, {"error": "this is served to localhost only, by that name"})


@pytest.mark.parametrize("host", ["localhost", "localhost:3000", "127.0.0.1:80", "[::1]:8080", "LOCALHOST"])
async def test_our_own_names_are_answered_whichever_port_was_forwarded(host: str) -> None:
    async with showing(a_scene()) as url:
        assert (await asked(url, headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "/static/index.html", "/__init__.py", "//etc/passwd", "/%00"]
)
async def test_no_other_file_can_be_asked_for(path: str) -> None:
    async with showing(a_scene()) as url:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.split(b" ")[1] in (b"404", b"400")
    assert b"root:" not in answer


async def test_files_have_their_types_and_are_asked_for_again_only_when_they_change() -> None:
    async with showing(a_scene()) as url:
        page = await asked(url, "/")
        script = await asked(url, "/live.js")
        again = await asked(url, "/", headers={"If-None-Match": page.headers["etag"]})
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert page.headers["content-encoding"] == "gzip"
    assert again.status == 304


async def test_nothing_on_the_page_is_inline_or_from_elsewhere() -> None:
    async with showing(a_scene()) as url:
        page = gzip.decompress((await asked(url, "/")).body).decode()
    assert "<style" not in page
    assert " style=" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    assert all("src=" in script for script in page.split("<script")[1:])


async def test_a_listener_hears_the_whole_board_and_then_only_what_changes() -> None:
    scene = a_scene()
    async with showing(scene) as url, listening(url) as stream:
        kind, board = await stream.next()
        assert (kind, board["version"], len(board["nodes"])) == ("board", 1, 9)
        scene.change(one=a_node(worker(4), cordoned=True, labels=scene.picture.cluster.nodes[worker(4)].labels))
        kind, change = await stream.next()
        assert (kind, change.keys()) == ("change", {"version", "now", "nodes"})
        assert (change["version"], change["nodes"]) == (2, [[4, 1, 0, 2]])
        scene.change(one=ill(scene.picture.cluster.nodes[worker(5)]))
        kind, change = await stream.next()
        assert change.keys() == {"version", "now", "nodes", "checks"}
        scene.picture = with_incidents(scene.picture)
        kind, change = await stream.next()
        assert (change["incidents"], change["nodes"]) == ([], [[0, 0, 0, 0]])
        assert "history" not in change


async def test_a_change_reaches_every_listener_within_a_second() -> None:
    scene, clock = a_scene(5000), SystemClock()
    async with showing(scene) as url, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(listening(url)) for _ in range(5)]
        for stream in streams:
            await stream.next()
        scene.change(one=ill(scene.picture.cluster.nodes[worker(5)]))
        began = clock.monotonic()
        for stream in streams:
            assert (await stream.next())[0] == "change"
        assert clock.monotonic() - began < 1.0


async def test_a_packed_stream_can_be_read_up_to_each_event() -> None:
    scene = a_scene()
    async with (
        showing(scene) as url,
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(f"{url}/api/live", headers={"Accept-Encoding": "gzip"}) as response,
    ):
        assert response.headers["content-encoding"] == "gzip"
        unpack = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        text = b""
        async with asyncio.timeout(5):
            while not text.endswith(b"\n\n"):
                text += unpack.decompress(await response.content.readany())
            scene.change(one=ill(scene.picture.cluster.nodes[worker(1)]))
            text = b""
            while not text.endswith(b"\n\n"):
                text += unpack.decompress(await response.content.readany())
    assert text.startswith(b"event: change\n")


async def test_a_stream_is_not_kept_and_not_packed_for_who_cannot_unpack() -> None:
    async with showing(a_scene()) as url, listening(url, **{"Accept-Encoding": "identity"}) as stream:
        headers = stream.response.headers
        assert (headers["Content-Type"], headers["Cache-Control"]) == ("text/event-stream", "no-store")
        assert "Content-Encoding" not in headers
        assert (await stream.next())[0] == "board"


async def test_nothing_is_computed_while_nobody_looks() -> None:
    scene = a_scene()
    async with showing(scene) as url:
        await asked(url, "/")
        assert scene.looks == 0
        async with listening(url) as stream:
            await stream.next()
        await asyncio.sleep(0.3)  # real: more than the pause between two looks of a listener
        looks = scene.looks
        await asyncio.sleep(0.5)  # real: twice as long, and nothing happens
        assert scene.looks == looks


async def test_one_listener_more_than_there_is_room_for_is_told_when_to_come_again() -> None:
    async with showing(a_scene()) as url, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async with AsyncExitStack() as stack:
            for _ in range(LISTENERS_MAX):
                response = await stack.enter_async_context(session.get(f"{url}/api/live"))
                assert response.status == 200
            refused = await asked(url, "/api/live")
            assert (refused.status, refused.headers["retry-after"]) == (503, "10")
            assert refused.json == {"error": "too many people listen already"}
            assert (await asked(url)).status == 200, "whoever only asks is answered all the same"
        assert await has_room(session, url), "once others have gone"


async def has_room(session: aiohttp.ClientSession, url: str) -> bool:
    """Sooner or later."""
    for _ in range(100):
        async with session.get(f"{url}/api/live") as response:
            if response.status == 200:
                return True
        await asyncio.sleep(0.05)
    return False


async def test_a_listener_that_does_not_read_is_dropped() -> None:
    """Its board is far larger than what fits between us, and it never reads it."""
    scene = a_scene(20_000)
    async with showing(scene) as url, listening(url) as other:
        parts = urlsplit(url)
        with socket.socket() as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.setblocking(False)
            await asyncio.get_running_loop().sock_connect(wire, (parts.hostname, parts.port))
            asking = b"GET /api/live HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(wire, asking)
            await other.next()
            for number in range(BEHIND_MAX + 5):
                node = scene.picture.cluster.nodes[worker(number)]
                scene.picture = with_cordon(scene, node.name)
                assert (await other.next())[0] == "change", "others hear of everything meanwhile"
            heard = 0
            async with asyncio.timeout(5):
                while piece := await asyncio.get_running_loop().sock_recv(wire, 2**16):
                    heard += len(piece)
            assert 0 < heard < 300_000, "it ends in the middle of the board"


def with_cordon(scene: Scene, name: str) -> Any:
    """Only the node is another one: to decide anew each time would take longer than the test has."""
    picture = scene.picture
    node = picture.cluster.nodes[name]
    cordoned = a_node(name, cordoned=True, labels=node.labels)
    cluster = msgspec.structs.replace(picture.cluster, nodes={**picture.cluster.nodes, name: cordoned})
    return msgspec.structs.replace(picture, cluster=cluster)


async def test_listeners_do_not_hold_up_the_end() -> None:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        async with showing(a_scene()) as url:
            stream = await stack.enter_async_context(listening(url))
            await stream.next()
            began = clock.monotonic()
        assert clock.monotonic() - began < 2.0
        with pytest.raises((ConnectionResetError, aiohttp.ClientError)):
            await stream.next()


async def test_a_port_in_use_is_told_with_its_flag() -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        with pytest.raises(CannotListen, match=f"already in use; choose another with {FLAG}"):
            async with showing(a_scene(), port=taken.getsockname()[1]):
                raise AssertionError


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
async def test_a_page_of_another_site_can_neither_ask_nor_take_the_place_of_a_listener(headers: dict[str, str]) -> None:
    scene = a_scene()
    async with showing(scene) as url:
        for path in ("/api/board", "/api/live", "/api/node/worker-0000", "/api/me"):
            answer = await asked(url, path, headers=headers)
            assert (answer.status, answer.json) == (403, {"error": "this was sent by a page of another site"})
        assert scene.looks == 0
        assert (await asked(url, "/", headers=headers)).status == 200, "a link may lead here"


async def test_more_can_be_asked_and_told_at_the_same_address_but_not_by_a_foreign_page() -> None:
    told: list[str] = []

    async def kill() -> dict[str, str]:
        told.append("kill")
        return {"message": "worker-1 dies"}

    async with showing(a_scene(), tells={"demo/kill": kill}) as url:
        assert (await asked(url, "/api/demo/kill", "POST", json={})).json == {"message": "worker-1 dies"}
        assert (await asked(url, "/api/demo/kill")).status == 405
        foreign = {"Origin": "https://evil.example"}
        assert (await asked(url, "/api/demo/kill", "POST", json={}, headers=foreign)).status == 403
        assert (await asked(url, "/api/demo/kill", "POST", data=b"{}")).status == 415
    assert told == ["kill"]


async def test_hostile_names_of_nodes_and_reasons_stay_what_they_are() -> None:
    name, words = "</script><img src=x>", 'a"\n\n\u2028data: x\nevent: board'
    picture = pictured(a_site({name: a_node(name)}))
    scene = Scene(with_incidents(picture, an_incident("n", message=words)))
    async with showing(scene) as url, listening(url) as stream:
        kind, board = await stream.next()
        assert (kind, board["nodes"][0][0], board["incidents"][0]["message"]) == ("board", name, words)
