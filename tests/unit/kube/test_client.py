"""When the client asks again, when it gives up, and what it tells."""

from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, Protocol

import pytest

from defib.kube.client import (
    Answer,
    Apply,
    Blocked,
    Client,
    Deletion,
    Evicted,
    JsonPatch,
    Merge,
    Scope,
)
from defib.kube.decode import Event, UnreadableEvent
from defib.kube.errors import (
    AlreadyExists,
    Conflict,
    DeadlineExceeded,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerFailed,
    Throttled,
    Unauthorized,
    Unreachable,
    Unreadable,
)
from defib.kube.kinds import NODES, metadata_only, unstructured
from defib.kube.limits import Limits
from defib.kube.transport import Request
from defib.simulate.virtual_time import run
from tests.unit.kube.scripted import Fails, Hangs, Line, Says, Scripted, status

PODS = unstructured("", "v1", "pods", "Pod", namespaced=True)
GET = Request(method="GET", path="/x")
WRITES = ("POST", "PUT", "PATCH", "DELETE")
BUSY = Says(status=429, body=status(429, "TooManyRequests", "please wait"), headers={"retry-after": "3"})
FAILED = Says(status=503, body=status(503, "ServiceUnavailable", "etcd is away"))
OK = Says(body={})
BUDGET = status(
    429,
    "TooManyRequests",
    "Cannot evict pod as it would violate the pod's disruption budget.",
    causes=[{"reason": "DisruptionBudget", "message": "The disruption budget guard needs 1 healthy pods"}],
    retryAfterSeconds=10,
)


class Story(Protocol):
    def __call__(self, client: Client, server: Scripted, /) -> Coroutine[Any, Any, None]: ...


def play(story: Story, *script: Line) -> Scripted:
    """Run a story against a scripted server, in virtual time; afterwards the server can be asked what it saw."""
    servers: list[Scripted] = []

    async def main(clock: Any) -> None:
        servers.append(Scripted(clock, script))
        await story(Client(servers[0], clock), servers[0])

    run(main)
    return servers[0]


def asking(request: Request = GET, *, deadline: float = 30.0, raises: type[KubeError] | None = None) -> Story:
    async def story(client: Client, _server: Scripted) -> None:
        if raises is None:
            await client.ask(request, deadline=deadline)
            return
        with pytest.raises(raises):
            await client.ask(request, deadline=deadline)

    return story


def test_a_throttled_read_is_repeated_after_the_time_the_server_asks_for() -> None:
    server = play(asking(), BUSY, OK)
    assert len(server.asked) == 2
    assert server.asked_at[1] - server.asked_at[0] >= 3


@pytest.mark.parametrize("method", WRITES)
def test_a_throttled_write_is_left_to_whoever_decided_it(method: str) -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(Throttled) as told:
            await client.ask(Request(method=method, path="/x"))
        assert told.value.retry_after == 3

    assert len(play(story, BUSY, OK).asked) == 1


@pytest.mark.parametrize("method", WRITES)
def test_a_throttled_write_of_a_person_is_repeated(method: str) -> None:
    async def main(clock: Any) -> None:
        server = Scripted(clock, [BUSY, OK])
        await Client(server, clock, repeats_throttled_writes=True).ask(Request(method=method, path="/x"))
        assert server.asked_at == [0.0, pytest.approx(3.0)]

    run(main)


@pytest.mark.parametrize("line", [FAILED, Fails(Unreachable("the connection broke"))])
def test_a_write_of_a_person_that_may_have_been_carried_out_is_not_repeated(line: Line) -> None:
    async def main(clock: Any) -> None:
        server = Scripted(clock, [line, OK])
        with pytest.raises(KubeError):
            await Client(server, clock, repeats_throttled_writes=True).ask(Request(method="POST", path="/x"))
        assert len(server.asked) == 1

    run(main)


def test_the_time_to_wait_may_stand_in_the_body() -> None:
    busy = Says(status=429, body=status(429, "TooManyRequests", retryAfterSeconds=7))
    server = play(asking(), busy, OK)
    assert server.asked_at[1] - server.asked_at[0] >= 7


def test_a_throttled_read_without_a_time_is_repeated_soon_but_not_at_once() -> None:
    server = play(asking(), Says(status=429), OK)
    assert 0 < server.asked_at[1] - server.asked_at[0] < 1


def test_a_failed_read_is_repeated() -> None:
    assert len(play(asking(), FAILED, FAILED, OK).asked) == 3


def test_pauses_grow() -> None:
    server = play(asking(raises=ServerFailed), FAILED)
    pauses = [later - earlier for earlier, later in pairwise(server.asked_at)]
    assert pauses == sorted(pauses)


@pytest.mark.parametrize("method", WRITES)
def test_a_failed_write_is_not_repeated(method: str) -> None:
    assert len(play(asking(Request(method=method, path="/x"), raises=ServerFailed), FAILED, OK).asked) == 1


@pytest.mark.parametrize("method", WRITES)
def test_a_write_whose_answer_was_lost_is_not_repeated(method: str) -> None:
    lost = Fails(Unreachable("the connection broke"))
    assert len(play(asking(Request(method=method, path="/x"), raises=Unreachable), lost, OK).asked) == 1


def test_a_read_whose_answer_was_lost_is_repeated() -> None:
    assert len(play(asking(), Fails(Unreachable("the connection broke")), OK).asked) == 2


@pytest.mark.parametrize(("line", "error"), [(BUSY, Throttled), (FAILED, ServerFailed)])
def test_after_five_attempts_the_error_is_told(line: Says, error: type[KubeError]) -> None:
    assert len(play(asking(raises=error), line).asked) == 5


def test_a_request_is_not_repeated_past_its_deadline() -> None:
    server = play(asking(deadline=5.0, raises=Throttled), BUSY)
    assert len(server.asked) == 2
    assert server.asked_at[-1] < 5


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 415, 422])
def test_what_would_be_refused_again_is_not_repeated(code: int) -> None:
    assert len(play(asking(raises=KubeError), Says(status=code, body=status(code))).asked) == 1


def test_a_silent_server_is_given_up_at_the_deadline() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(DeadlineExceeded, match="GET /x: no answer from the script within 4 s; is it up, "):
            await client.ask(GET, deadline=4.0)

    server = play(story, Hangs())
    assert server.in_flight == 0


def test_a_slow_answer_within_the_deadline_is_taken() -> None:
    assert len(play(asking(deadline=10.0), Says(body={}, after=9.0)).asked) == 1


def test_a_watch_that_does_not_open_is_given_up() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(DeadlineExceeded, match="GET /api/v1/nodes"):
            async with client.watch(NODES, since="1", seconds=60):
                raise AssertionError("it did not open")

    play(story, Hangs())


def test_a_timeout_of_the_watcher_itself_passes_through() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(TimeoutError, match="mine"):
            async with client.watch(NODES, since="1", seconds=60):
                raise TimeoutError("mine")

    play(story, OK)


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", Invalid),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (405, "MethodNotAllowed", Invalid),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (413, "RequestEntityTooLarge", Invalid),
        (415, "UnsupportedMediaType", Invalid),
        (422, "Invalid", Invalid),
        (500, "InternalError", ServerFailed),
    ],
)
def test_a_refusal_is_told_by_its_kind_in_the_servers_own_words(code: int, reason: str, error: type[KubeError]) -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(KubeError, match="POST /x: the server's own words") as told:
            await client.ask(Request(method="POST", path="/x"))
        assert type(told.value) is error

    play(story, Says(status=code, body=status(code, reason, "the server's own words")))


def test_a_page_of_a_proxy_never_enters_an_error() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(ServerFailed) as told:
            await client.ask(Request(method="POST", path="/x"))
        assert str(told.value) == "POST /x: HTTP 502"

    play(story, Says(status=502, body=b"<html>Bad gateway, token=hunter2</html>"))


def test_a_request_body_never_enters_an_error() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(Forbidden) as told:
            await client.create(PODS, {"metadata": {"name": "p"}, "spec": {"secret": "hunter2"}}, namespace="n")
        assert "hunter2" not in str(told.value)
        assert str(told.value) == "POST /api/v1/namespaces/n/pods: not for you"

    play(story, Says(status=403, body=status(403, "Forbidden", "not for you")))


def test_a_blocked_eviction_is_a_value_and_is_not_repeated() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        answer = await client.evict(PODS.at("p", "n"), Deletion(uid="u"))
        assert answer == Blocked("The disruption budget guard needs 1 healthy pods")

    assert len(play(story, Says(status=429, body=BUDGET, headers={"retry-after": "10"})).asked) == 1


def test_an_accepted_eviction_is_a_value_too() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        assert await client.evict(PODS.at("p", "n"), Deletion(uid="u")) == Evicted()

    server = play(story, Says(status=201, body={}))
    assert [request.path for request in server.asked] == ["/api/v1/namespaces/n/pods/p/eviction"]


def test_a_busy_server_does_not_look_like_a_spent_budget() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(Throttled):
            await client.evict(PODS.at("p", "n"), Deletion(uid="u"))

    assert len(play(story, BUSY).asked) == 1


def test_a_list_is_fetched_page_by_page() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        page = await client.list_all(NODES, Scope(labels="a=b", fields="metadata.name!=z"))
        assert [node.name for node in page.items] == ["n1", "n2"]
        assert page.version == "9"

    first = {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": [{"metadata": {"name": "n1"}}]}
    second = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "n2"}}]}
    server = play(story, Says(body=first), Says(body=second))
    selection = {"labelSelector": "a=b", "fieldSelector": "metadata.name!=z", "limit": "500"}
    assert [request.query for request in server.asked] == [selection, selection | {"continue": "more"}]


def test_the_deadline_of_a_list_is_for_all_its_pages() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(DeadlineExceeded):
            await client.list_all(NODES, deadline=10.0)

    endless = {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": []}
    server = play(story, Says(body=endless, after=3.0))
    assert len(server.asked) == 4


def test_a_list_that_is_forgotten_on_the_way_is_gone() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(Gone):
            await client.list_all(NODES)

    first = {"metadata": {"resourceVersion": "9", "continue": "more"}, "items": []}
    play(story, Says(body=first), Says(status=410, body=status(410, "Expired", "too old")))


def test_an_object_that_cannot_be_read_is_set_aside_by_name() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        page = await client.list_all(NODES)
        assert [node.name for node in page.items] == ["good"]
        assert [item.key for item in page.set_aside] == ["bad"]

    items = [{"metadata": {"name": "good"}}, {"metadata": {"name": "bad"}, "spec": {"taints": "oops"}}]
    play(story, Says(body={"metadata": {"resourceVersion": "9"}, "items": items}))


def test_an_answer_that_cannot_be_read_is_told_as_such() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(Unreadable, match="as Node"):
            await client.get(NODES.at("n"))

    play(story, Says(body=b"<html>"))


def test_what_is_only_wanted_as_metadata_is_asked_for_as_metadata() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        slim = metadata_only(NODES)
        await client.get(slim.at("n"))
        await client.list_all(slim)
        async with client.watch(slim, since="1", seconds=60):
            pass
        await client.get(NODES.at("n"))

    body = {"metadata": {"name": "n"}, "items": []}
    server = play(story, Says(body=body))
    shapes = [request.accept.split(";")[1:2] for request in server.asked]
    assert shapes == [["as=PartialObjectMetadata"], ["as=PartialObjectMetadataList"], ["as=PartialObjectMetadata"], []]


def test_each_patch_goes_out_in_its_own_form() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        ref = NODES.at("n")
        await client.patch(ref, Merge({"spec": {}}))
        await client.patch(ref, JsonPatch([{"op": "remove", "path": "/spec"}]), subresource="status")
        await client.patch(ref, Apply(body={"spec": {}}, manager="me", force=True))

    server = play(story, Says(body={"metadata": {"name": "n"}}))
    assert [request.content_type for request in server.asked] == [
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ]
    assert [request.path for request in server.asked][1:] == ["/api/v1/nodes/n/status", "/api/v1/nodes/n"]
    assert server.asked[2].query == {"fieldManager": "me", "force": "true"}
    assert b'"name":"n"' in server.asked[2].body


def test_a_deletion_always_says_which_incarnation() -> None:
    assert Deletion(uid="u").options()["preconditions"] == {"uid": "u"}
    whole = Deletion(uid="u", version="7", grace_seconds=0, propagation="Foreground").options()
    assert whole["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert (whole["gracePeriodSeconds"], whole["propagationPolicy"]) == (0, "Foreground")


def test_a_watch_from_nowhere_asks_for_the_initial_state() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        for since in ("", "42"):
            async with client.watch(NODES, since=since, seconds=60):
                pass

    fresh, resumed = (request.query for request in play(story, OK).asked)
    assert fresh["sendInitialEvents"] == "true"
    assert "resourceVersion" not in fresh
    assert resumed["resourceVersion"] == "42"
    assert "sendInitialEvents" not in resumed
    assert all(query["allowWatchBookmarks"] == "true" for query in (fresh, resumed))
    assert all(query["timeoutSeconds"] == "60" for query in (fresh, resumed))


def test_a_refused_watch_is_told_before_anything_is_read() -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(Gone, match="too old"):
            async with client.watch(NODES, since="1", seconds=60):
                raise AssertionError("it did not open")

    play(story, Says(status=410, body=status(410, "Expired", "too old resource version")))


def test_events_come_in_batches_as_they_arrive() -> None:
    def event(kind: str, name: str) -> bytes:
        return b'{"type":"%s","object":{"metadata":{"name":"%s"}}}\n' % (kind.encode(), name.encode())

    batches: list[list[Event[Any] | UnreadableEvent]] = []

    async def story(client: Client, _server: Scripted) -> None:
        async with client.watch(NODES, since="1", seconds=60) as events:
            batches.extend([batch async for batch in events])

    late = event("DELETED", "b")
    pieces = (event("ADDED", "a") + event("ADDED", "b"), late[:10], late[10:-1], late[-1:])
    play(story, Says(pieces=pieces))
    read = [[(event.type, event.object.name) for event in batch if isinstance(event, Event)] for batch in batches]
    assert read == [[("ADDED", "a"), ("ADDED", "b")], [("DELETED", "b")]]


def test_every_finished_request_is_heard_of() -> None:
    answers: list[Answer] = []

    async def main(clock: Any) -> None:
        script: list[Line] = [Says(status=503, after=2.0), Says(body={}, after=1.0), Fails(Unreachable("gone"))]
        client = Client(Scripted(clock, script), clock, on_answer=answers.append)
        await client.ask(GET)
        with pytest.raises(Unreachable):
            await client.ask(Request(method="PATCH", path="/x"))

    run(main)
    assert [(answer.verb, answer.code) for answer in answers] == [("GET", "503"), ("GET", "200"), ("PATCH", "none")]
    assert [answer.seconds for answer in answers] == pytest.approx([2.0, 1.0, 0.0])


def test_watches_are_heard_of_too_also_those_that_never_open() -> None:
    answers: list[Answer] = []

    async def main(clock: Any) -> None:
        script: list[Line] = [Says(pieces=()), Says(status=500, after=1.0), Fails(Unreachable("gone"))]
        client = Client(Scripted(clock, script), clock, on_answer=answers.append)
        async with client.watch(NODES, since="1", seconds=5) as batches:
            assert [batch async for batch in batches] == []
        for error in (ServerFailed, Unreachable):
            with pytest.raises(error):
                async with client.watch(NODES, since="1", seconds=5):
                    pass

    run(main)
    assert [(answer.verb, answer.code) for answer in answers] == [("WATCH", "200"), ("WATCH", "500"), ("WATCH", "none")]


def test_watches_keep_to_the_rate_too() -> None:
    async def main(clock: Any) -> float:
        limits = Limits(per_second=1, burst=1)
        client = Client(Scripted(clock, [Says(pieces=())] * 4), clock, limits=limits)
        for _ in range(4):
            async with client.watch(NODES, since="1", seconds=5):
                pass
        elapsed: float = clock.monotonic()
        return elapsed

    assert run(main) == pytest.approx(3.0)


@pytest.mark.parametrize("code", [301, 302, 304, 307])
def test_an_answer_that_points_elsewhere_is_no_success(code: int) -> None:
    async def story(client: Client, _server: Scripted) -> None:
        with pytest.raises(Invalid, match="is the server address right"):
            await client.delete(NODES.at("n1"), Deletion(uid="u"))

    assert len(play(story, Says(status=code, body=b"<html>log in here</html>")).asked) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("Tue, 01 Jan 2030 00:00:20 GMT", 20.0), ("Mon, 31 Dec 2029 00:00:00 GMT", 0.05), ("²", 0.05), ("soon", 0.05)],
)
def test_the_time_to_wait_may_be_a_date_and_nonsense_is_none(header: str, seconds: float) -> None:
    async def main(clock: Any) -> float:
        busy = Says(status=429, body=status(429, "TooManyRequests"), headers={"retry-after": header})
        await Client(Scripted(clock, [busy, OK]), clock).ask(GET)
        elapsed: float = clock.monotonic()
        return elapsed

    assert seconds <= run(main) <= seconds + 0.1
