"""Faults on demand: each does what its name says, to whom it should, as often as it should."""

import asyncio
from typing import Any

import msgspec
import pytest

from defib.kube.errors import Unreachable
from defib.kube.transport import Request
from defib.simulate.faults import (
    CutWatch,
    DropEvents,
    DuplicateEvents,
    EndWatch,
    FailWatch,
    Fault,
    Garbage,
    Hang,
    LateEvents,
    LoseAnswer,
    LoseRequest,
    NoBookmarks,
    Refuse,
    ReorderEvents,
    SilenceWatch,
    Slow,
    StaleRead,
    WatchEffect,
)
from defib.simulate.server import ApiServer
from tests.unit.simulate.asking import NODES, Asker, Json, names, simulated

NODE: Json = {"metadata": {"name": "a"}}


@pytest.mark.parametrize("code", [401, 409, 410, 429, 500, 503])
def test_a_refusal_comes_as_often_as_told_and_then_no_more(code: int) -> None:
    async def story(server: ApiServer, asker: Asker) -> list[int]:
        server.faults.inject(Fault(effect=Refuse(code=code), verbs=("create",), times=2))
        return [(await asker.ask("POST", NODES, NODE))[0] for _ in range(3)]

    assert simulated(story) == [code, code, 201]


def test_a_throttling_says_when_to_come_back() -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[int, str]:
        server.faults.inject(Fault(effect=Refuse(code=429, reason="TooManyRequests", retry_after_seconds=7)))
        async with asker.transport.send(Request(method="GET", path=NODES)) as response:
            return response.status, response.headers["retry-after"]

    assert simulated(story) == (429, "7")


@pytest.mark.parametrize(
    "whom",
    [
        {"verbs": ("list",)},
        {"resource": "pods"},
        {"name": "b"},
        {"client": "somebody"},
        {"namespace": "x"},
        {"subresource": "status"},
        {"skip": 1},
        {"chance": 0.0},
    ],
)
def test_a_fault_meets_only_whom_it_is_meant_for(whom: dict[str, Any]) -> None:
    async def story(server: ApiServer, asker: Asker) -> int:
        server.faults.inject(Fault(effect=Refuse(code=500), **whom))
        return (await asker.ask("POST", NODES, NODE))[0]

    assert simulated(story) == 201


def test_a_removed_fault_strikes_no_more_and_says_how_often_it_did() -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[int, int]:
        fault = Fault(effect=Refuse(code=500))
        server.faults.inject(fault)
        await asker.ask("GET", NODES)
        struck = server.faults.struck(fault)
        server.faults.remove(fault)
        return struck, (await asker.ask("GET", NODES))[0]

    assert simulated(story) == (1, 200)


def test_chance_decides_the_same_way_for_the_same_seed() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[int]:
        server.faults.inject(Fault(effect=Refuse(code=500), chance=0.5))
        return [(await asker.ask("GET", NODES))[0] for _ in range(30)]

    assert simulated(story, seed=4) == simulated(story, seed=4)
    assert {200, 500} == set(simulated(story, seed=4))


def test_a_slow_answer_takes_its_time_though_the_write_is_done_at_once() -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[float, bool]:
        server.faults.inject(Fault(effect=Slow(seconds=9), verbs=("create",)))
        async with asyncio.TaskGroup() as group:
            group.create_task(asker.ask("POST", NODES, NODE))
            await asyncio.sleep(1)  # virtual
            done = await asker.exists(f"{NODES}/a")
        return server.clock.monotonic(), done

    assert simulated(story) == (9.0, True)


def test_an_answer_on_its_way_is_lost_when_the_server_goes_down() -> None:
    async def story(server: ApiServer, asker: Asker) -> bool:
        server.faults.inject(Fault(effect=Slow(seconds=9), verbs=("create",)))

        async def write() -> None:
            with pytest.raises(Unreachable, match="down"):
                await asker.ask("POST", NODES, NODE)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            await asyncio.sleep(1)  # virtual
            server.stop()
        server.start()
        return await asker.exists(f"{NODES}/a")

    assert simulated(story)


@pytest.mark.parametrize(("effect", "written"), [(LoseRequest(), False), (LoseAnswer(), True)])
def test_a_lost_connection_does_not_tell_whether_the_write_was_done(
    effect: LoseRequest | LoseAnswer, written: bool
) -> None:
    async def story(server: ApiServer, asker: Asker) -> bool:
        server.faults.inject(Fault(effect=effect, times=1))
        with pytest.raises(Unreachable):
            await asker.ask("POST", NODES, NODE)
        return await asker.exists(f"{NODES}/a")

    assert simulated(story) is written


@pytest.mark.parametrize("applied", [False, True])
def test_a_hanging_request_is_ended_only_by_its_deadline(applied: bool) -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[float, bool]:
        server.faults.inject(Fault(effect=Hang(applied=applied), times=1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asker.ask("POST", NODES, NODE)
        return server.clock.monotonic(), await asker.exists(f"{NODES}/a")

    assert simulated(story) == (30.0, applied)


def test_a_stale_read_shows_the_past_but_only_to_those_who_allow_it() -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[int, int, int]:
        await asker.create(NODES, NODE)
        server.faults.inject(Fault(effect=StaleRead(revisions=1)))
        allowed = await asker.get(NODES, resourceVersion="0")
        strict = await asker.get(NODES)
        single = (await asker.ask("GET", f"{NODES}/a", resourceVersion="0"))[0]
        return len(allowed["items"]), len(strict["items"]), single

    assert simulated(story) == (0, 1, 404)


async def watched(server: ApiServer, asker: Asker, effect: WatchEffect) -> list[Json]:
    """What a watch with a fault brings of three nodes that are made one second apart."""
    server.faults.inject(Fault(effect=effect))
    found: list[Json] = []

    async def watch() -> None:
        query = {"watch": "1", "timeoutSeconds": "120", "allowWatchBookmarks": "true"}
        async with asker.transport.send(Request(method="GET", path=NODES, query=query)) as response:
            async for chunk in response.chunks():
                for line in chunk.splitlines():
                    try:
                        found.append({**msgspec.json.decode(line), "at": server.clock.monotonic()})
                    except msgspec.DecodeError:
                        found.append({"type": "UNREADABLE", "object": {"metadata": {}}})

    async with asyncio.TaskGroup() as group:
        task = group.create_task(watch())
        for name in "abc":
            await asyncio.sleep(1)  # virtual
            await asker.create(NODES, {"metadata": {"name": name}})
        await asyncio.sleep(200)  # virtual
        task.cancel()
    return found


BOOKMARKS = [("BOOKMARK", ""), ("BOOKMARK", "")]
ALL = [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


@pytest.mark.parametrize(
    ("effect", "brings"),
    [
        (EndWatch(after=2), ALL[:2]),
        (SilenceWatch(after=1), ALL[:1]),
        (DropEvents(chance=1.0), []),
        (NoBookmarks(), ALL),
        (LateEvents(seconds=5), ALL + BOOKMARKS),
        (DuplicateEvents(), [e for event in ALL + BOOKMARKS for e in (event, event)]),
        (Garbage(after=1), [ALL[0], ("UNREADABLE", ""), *ALL[1:], *BOOKMARKS]),
    ],
)
def test_a_watch_can_go_wrong_in_many_ways(effect: WatchEffect, brings: list[tuple[str, str]]) -> None:
    async def story(server: ApiServer, asker: Asker) -> list[Json]:
        return await watched(server, asker, effect)

    assert names(simulated(story)) == brings


def test_a_watch_can_fail_with_an_event() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[Json]:
        return await watched(server, asker, FailWatch(code=410, reason="Expired", after=1))

    first, error = simulated(story)
    assert (first["type"], error["type"], error["object"]["code"]) == ("ADDED", "ERROR", 410)


@pytest.mark.parametrize("mid_event", [False, True])
def test_a_watch_can_be_cut_also_within_an_event(mid_event: bool) -> None:
    async def story(server: ApiServer, asker: Asker) -> None:
        await watched(server, asker, CutWatch(after=1, mid_event=mid_event))

    with pytest.raises(ExceptionGroup) as broken:
        simulated(story)
    assert broken.group_contains(Unreachable)


def test_late_events_are_late() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[Json]:
        return await watched(server, asker, LateEvents(seconds=5))

    assert next(event["at"] for event in simulated(story)) == 6.0


def test_reordered_events_of_one_object_keep_their_order() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[tuple[str, str]]:
        for name in "abcdef":
            await asker.create(NODES, {"metadata": {"name": name}})
            await asker.merge(f"{NODES}/{name}", {"spec": {"unschedulable": True}})
        server.faults.inject(Fault(effect=ReorderEvents(window_seconds=0.5)))
        return names(await asker.events(NODES, resourceVersion="5"))

    events = simulated(story)
    assert sorted(events) == sorted((kind, name) for name in "abcdef" for kind in ("ADDED", "MODIFIED"))
    assert [name for _, name in events] != sorted(name for _, name in events)
    assert all(events.index(("ADDED", name)) < events.index(("MODIFIED", name)) for name in "abcdef")


@pytest.mark.parametrize(
    "effect",
    [CutWatch(after=9), CutWatch(after=5, mid_event=True), SilenceWatch(after=9), FailWatch(code=500, after=9)],
)
def test_a_watch_that_ended_before_its_fault_ends_in_order(effect: WatchEffect) -> None:
    async def story(server: ApiServer, asker: Asker) -> list[Json]:
        return await watched(server, asker, effect)

    assert names(simulated(story)) == ALL + BOOKMARKS


def test_faults_add_up() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[Json]:
        server.faults.inject(Fault(effect=Garbage(after=1)), Fault(effect=DuplicateEvents()))
        return await watched(server, asker, ReorderEvents(window_seconds=3))

    kinds = [kind for kind, _ in names(simulated(story))]
    assert (kinds.count("UNREADABLE"), kinds.count("ADDED"), kinds.count("BOOKMARK")) == (2, 6, 4)
