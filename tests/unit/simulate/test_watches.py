"""Watches of the embedded server as far as only it can be asked: bookmarks over time, compaction, restarts."""

import asyncio
from typing import Any

import msgspec
import pytest

from defib.kube.errors import Unreachable
from defib.kube.transport import Request
from defib.simulate.server import ApiServer
from tests.unit.simulate.asking import NODES, Asker, names, simulated


def watch_request(**query: str) -> Request:
    return Request(method="GET", path=NODES, query={"watch": "1", **query})


def test_a_quiet_watch_gets_a_bookmark_every_minute_and_one_before_its_end() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[float]:
        times = []
        request = watch_request(timeoutSeconds="150", allowWatchBookmarks="true")
        async with asker.transport.send(request) as response:
            async for chunk in response.chunks():
                assert b'"BOOKMARK"' in chunk
                times.append(server.clock.monotonic())
        return [*times, server.clock.monotonic()]

    assert simulated(story) == [60, 120, 148, 150]


def test_without_asking_there_are_no_bookmarks() -> None:
    async def story(_server: ApiServer, asker: Asker) -> list[Any]:
        return await asker.events(NODES, timeoutSeconds="300")

    assert simulated(story) == []


def test_a_watch_without_a_time_of_its_own_ends_within_the_hour() -> None:
    async def story(server: ApiServer, asker: Asker) -> float:
        async with asker.transport.send(watch_request()) as response:
            await response.read()
        return server.clock.monotonic()

    assert 1800 <= simulated(story) <= 3600


def test_a_version_from_before_the_compaction_is_gone() -> None:
    async def story(server: ApiServer, asker: Asker) -> Any:
        await asker.create(NODES, {"metadata": {"name": "a"}})
        server.compact()
        return await asker.events(NODES, resourceVersion="1")

    [event] = simulated(story)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_history_is_bounded() -> None:
    async def story(_server: ApiServer, asker: Asker) -> tuple[Any, Any]:
        small = ApiServer(_server.clock, history=5)
        asker = Asker(small)
        for number in range(8):
            await asker.create(NODES, {"metadata": {"name": f"n{number}"}})
        oldest = small.store.collection("nodes").floor
        return await asker.events(NODES, resourceVersion="1"), await asker.events(NODES, resourceVersion=str(oldest))

    forgotten, remembered = simulated(story)
    assert forgotten[0]["type"] == "ERROR"
    assert len(remembered) == 5


def test_a_page_of_a_forgotten_list_is_gone_but_can_be_gone_on_from() -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[int, list[str]]:
        for name in "abc":
            await asker.create(NODES, {"metadata": {"name": name}})
        first = await asker.get(NODES, limit="1")
        server.compact()
        await asker.create(NODES, {"metadata": {"name": "d"}})
        server.compact()
        status, refused = await asker.ask("GET", NODES, **{"continue": first["metadata"]["continue"]})
        rest = await asker.get(NODES, **{"continue": refused["metadata"]["continue"]})
        return status, [item["metadata"]["name"] for item in rest["items"]]

    assert simulated(story) == (410, ["b", "c", "d"])


async def _lines(asker: Asker, request: Request, into: list[bytes]) -> None:
    async with asker.transport.send(request) as response:
        async for chunk in response.chunks():
            into += chunk.splitlines()


def test_a_restart_breaks_watches_and_only_newer_versions_can_be_watched() -> None:
    async def story(server: ApiServer, asker: Asker) -> tuple[Any, Any]:
        made = await asker.create(NODES, {"metadata": {"name": "a"}})

        async def watch_through_a_restart() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(_lines(asker, watch_request(), []))
                await asyncio.sleep(1)  # virtual
                server.restart()

        with pytest.raises(ExceptionGroup) as broken:
            await watch_through_a_restart()
        assert broken.group_contains(Unreachable)
        await asker.create(NODES, {"metadata": {"name": "b"}})
        older = await asker.events(NODES, resourceVersion=str(int(made["metadata"]["resourceVersion"]) - 1))
        since = await asker.events(NODES, resourceVersion=made["metadata"]["resourceVersion"])
        return older, since

    older, since = simulated(story)
    assert older[0]["object"]["reason"] == "Expired"
    assert names(since) == [("ADDED", "b")]


def test_a_server_that_is_down_refuses_and_comes_back_with_everything() -> None:
    async def story(server: ApiServer, asker: Asker) -> bool:
        await asker.create(NODES, {"metadata": {"name": "a"}})
        server.stop()
        with pytest.raises(Unreachable, match="the API server is down"):
            await asker.get(NODES)
        server.start()
        return await asker.exists(f"{NODES}/a")

    assert simulated(story)


def test_a_partitioned_client_hears_nothing_until_it_is_cut_off_by_the_healing() -> None:
    async def story(server: ApiServer, asker: Asker) -> list[bytes]:
        other, heard = Asker(server, "other"), list[bytes]()

        async def watch_through_a_partition() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(_lines(asker, watch_request(allowWatchBookmarks="true"), heard))
                await asyncio.sleep(1)  # virtual
                server.partition("tester")
                await other.create(NODES, {"metadata": {"name": "a"}})
                with pytest.raises(Unreachable, match="no route"):
                    await asker.get(NODES)
                await asyncio.sleep(300)  # virtual
                server.heal("tester")

        with pytest.raises(ExceptionGroup) as broken:
            await watch_through_a_partition()
        assert broken.group_contains(Unreachable)
        assert await asker.exists(f"{NODES}/a")
        return heard

    assert simulated(story) == []


def test_leaving_the_context_ends_the_watch() -> None:
    async def story(server: ApiServer, asker: Asker) -> int:
        async with asker.transport.send(watch_request()):
            assert len(server.watches) == 1
        return len(server.watches) + len(server.store.collection("nodes").listeners)

    assert simulated(story) == 0


def test_many_watchers_share_one_encoding() -> None:
    async def story(server: ApiServer, asker: Asker) -> bool:
        await asker.create(NODES, {"metadata": {"name": "a"}})
        version = server.store.get("nodes", "a")
        assert version
        return version.encoded is version.encoded and msgspec.json.decode(version.encoded) == version.object

    assert simulated(story)
