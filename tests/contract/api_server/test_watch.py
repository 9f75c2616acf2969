"""Watching: every change once, in order, from any version that the server still remembers."""

import asyncio

import pytest

from defib.kube.client import Apply, Client, Deletion, Merge, Scope
from defib.kube.errors import Gone
from defib.kube.kinds import Kind, metadata_only
from defib.model.meta import Resource, Unstructured
from tests.contract.api_server.objects import CONFIG_MAPS, PODS, a_config_map, a_gadget, a_pod
from tests.contract.api_server.servers import Server
from tests.contract.api_server.steps import delete, raw, watching


async def version_now(client: Client, namespace: str) -> str:
    return (await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))).version


async def test_changes_come_in_the_order_in_which_they_happened(client: Client, namespace: str) -> None:
    since = await version_now(client, namespace)
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=since) as changes:
        first = await client.create(CONFIG_MAPS, a_config_map("a", k="1"), namespace=namespace)
        second = await client.patch(CONFIG_MAPS.of(first), Merge({"data": {"k": "2"}}))
        await client.create(CONFIG_MAPS, a_config_map("b"), namespace=namespace)
        await delete(client, CONFIG_MAPS.of(first))
        events = [await changes.next() for _ in range(4)]
    assert [(event.type, event.object.name) for event in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]
    assert [events[0].object, events[1].object] == [first, second]


async def test_a_watch_from_a_version_begins_right_after_it(client: Client, namespace: str) -> None:
    first = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    second = await client.create(CONFIG_MAPS, a_config_map("b"), namespace=namespace)
    await client.create(CONFIG_MAPS, a_config_map("c"), namespace=namespace)
    scope = Scope(namespace=namespace)
    async with watching(client, CONFIG_MAPS, scope, since=first.metadata.resource_version) as changes:
        assert await changes.take(2) == [("ADDED", "b"), ("ADDED", "c")]
    async with watching(client, CONFIG_MAPS, scope, since=second.metadata.resource_version) as changes:
        assert await changes.take(1) == [("ADDED", "c")]


async def test_a_list_and_a_watch_from_its_version_miss_nothing(client: Client, namespace: str) -> None:
    async def write() -> None:
        for number in range(20):
            await client.create(CONFIG_MAPS, a_config_map(f"m{number:02}"), namespace=namespace)

    async with asyncio.TaskGroup() as writers:
        writers.create_task(write())
        page = await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))
        async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=page.version) as changes:
            later = await changes.take(20 - len(page.items))
    names = [item.name for item in page.items] + [name for _, name in later]
    assert names == [f"m{number:02}" for number in range(20)]


async def test_versions_of_a_watch_only_grow(client: Client, namespace: str) -> None:
    since = await version_now(client, namespace)
    item = await client.create(CONFIG_MAPS, a_config_map("a", k="0"), namespace=namespace)
    for number in range(5):
        await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": f"{number + 1}"}}))
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=since) as changes:
        events = [await changes.next() for _ in range(6)]
    versions = [int(event.object.metadata.resource_version) for event in events]
    assert versions == sorted(set(versions))
    assert [(event.object.data or {})["k"] for event in events] == list("012345")


async def test_a_deletion_shows_the_last_state_at_a_newer_version(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a", labels={"l": "1"}, k="v"), namespace=namespace)
    async with watching(
        client, CONFIG_MAPS, Scope(namespace=namespace), since=item.metadata.resource_version
    ) as changes:
        await delete(client, CONFIG_MAPS.of(item))
        event = await changes.next()
    assert event.type == "DELETED"
    assert (event.object.uid, event.object.data, event.object.labels) == (item.uid, {"k": "v"}, {"l": "1"})
    assert int(event.object.metadata.resource_version) > int(item.metadata.resource_version)


async def test_a_write_that_changes_nothing_is_no_event(client: Client, namespace: str) -> None:
    item = await client.patch(CONFIG_MAPS.at("a", namespace), Apply(body={"data": {"k": "v"}}))
    async with watching(
        client, CONFIG_MAPS, Scope(namespace=namespace), since=item.metadata.resource_version
    ) as changes:
        await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": "v"}}))
        await client.patch(CONFIG_MAPS.of(item), Apply(body={"data": {"k": "v"}}))
        await client.create(CONFIG_MAPS, a_config_map("fence"), namespace=namespace)
        assert await changes.take(1) == [("ADDED", "fence")]


async def test_entering_and_leaving_a_selection_looks_like_birth_and_death(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a", labels={"in": "no"}), namespace=namespace)
    ref = CONFIG_MAPS.of(item)
    scope = Scope(namespace=namespace, labels="in=yes")
    async with watching(client, CONFIG_MAPS, scope, since=item.metadata.resource_version) as changes:
        await client.patch(ref, Merge({"data": {"unseen": "1"}}))
        await client.patch(ref, Merge({"metadata": {"labels": {"in": "yes"}}}))
        await client.patch(ref, Merge({"data": {"seen": "1"}}))
        left = await client.patch(ref, Merge({"metadata": {"labels": {"in": "no"}}}))
        await client.patch(ref, Merge({"data": {"unseen": "2"}}))
        await client.patch(ref, Merge({"metadata": {"labels": {"in": "yes"}}}))
        await delete(client, ref)
        events = [await changes.next() for _ in range(5)]
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert events[2].object.labels == {"in": "yes"}, "a selection's DELETED shows the last state that was selected"
    assert events[2].object.metadata.resource_version == left.metadata.resource_version


async def test_a_field_selects_what_is_watched(client: Client, namespace: str) -> None:
    since = (await client.list_all(PODS, Scope(namespace=namespace))).version
    async with watching(client, PODS, Scope(fields=f"spec.nodeName={namespace}-n1"), since=since) as changes:
        await client.create(PODS, a_pod("elsewhere", node=f"{namespace}-n2"), namespace=namespace)
        await client.create(PODS, a_pod("here", node=f"{namespace}-n1"), namespace=namespace)
        assert await changes.take(1) == [("ADDED", "here")]


async def test_a_pod_enters_the_watch_of_its_node_when_it_is_bound(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p"), namespace=namespace)
    scope = Scope(namespace=namespace, fields=f"spec.nodeName={namespace}-n1")
    async with watching(client, PODS, scope, since=pod.metadata.resource_version) as changes:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"{namespace}-n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
        await raw(client, "POST", PODS.at("p", namespace).path("binding"), binding)
        assert await changes.take(1) == [("ADDED", "p")]


async def test_a_name_selects_what_is_watched(client: Client, namespace: str) -> None:
    since = await version_now(client, namespace)
    scope = Scope(namespace=namespace, fields="metadata.name=b")
    async with watching(client, CONFIG_MAPS, scope, since=since) as changes:
        for name in "abc":
            await client.create(CONFIG_MAPS, a_config_map(name), namespace=namespace)
        await client.patch(CONFIG_MAPS.at("b", namespace), Merge({"data": {"k": "v"}}))
        assert await changes.take(2) == [("ADDED", "b"), ("MODIFIED", "b")]


async def test_a_streamed_list_is_all_objects_then_a_marked_bookmark(client: Client, namespace: str) -> None:
    for name in "ab":
        await client.create(CONFIG_MAPS, a_config_map(name), namespace=namespace)
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since="") as changes:
        initial = [await changes.next(bookmarks=True) for _ in range(3)]
        await client.create(CONFIG_MAPS, a_config_map("c"), namespace=namespace)
        assert await changes.take(1) == [("ADDED", "c")]
    assert sorted((event.type, event.object.name) for event in initial[:2]) == [("ADDED", "a"), ("ADDED", "b")]
    assert initial[2].ends_initial_list
    assert not initial[0].ends_initial_list


async def test_a_streamed_list_can_be_resumed_from_its_bookmark(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    scope = Scope(namespace=namespace)
    async with watching(client, CONFIG_MAPS, scope, since="") as changes:
        await changes.next()
        bookmark = await changes.next(bookmarks=True)
    await client.create(CONFIG_MAPS, a_config_map("b"), namespace=namespace)
    async with watching(client, CONFIG_MAPS, scope, since=bookmark.object.metadata.resource_version) as changes:
        assert await changes.take(1) == [("ADDED", "b")]


async def test_a_streamed_list_is_at_least_as_new_as_every_finished_write(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a", k="1"), namespace=namespace)
    item = await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": "2"}}))
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since="") as changes:
        assert (await changes.next()).object == item
        bookmark = await changes.next(bookmarks=True)
    assert int(bookmark.object.metadata.resource_version) >= int(item.metadata.resource_version)


async def test_a_streamed_list_of_nothing_is_only_the_bookmark(client: Client, namespace: str) -> None:
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since="") as changes:
        assert (await changes.next(bookmarks=True)).ends_initial_list


async def test_a_watch_ends_by_itself_after_its_seconds(client: Client, namespace: str) -> None:
    since = await version_now(client, namespace)
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=since, seconds=1) as changes:
        events = await changes.rest()
    assert [event.object.name for event in events if event.type != "BOOKMARK"] == ["a"]


async def test_a_bookmark_comes_before_the_end_and_can_be_resumed_from(client: Client, namespace: str) -> None:
    since = await version_now(client, namespace)
    scope = Scope(namespace=namespace)
    async with watching(client, CONFIG_MAPS, scope, since=since, seconds=3) as changes:
        await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
        events = await changes.rest()
    bookmarks = [event for event in events if event.type == "BOOKMARK"]
    assert bookmarks
    assert not any(event.ends_initial_list for event in bookmarks)
    assert int(bookmarks[-1].object.metadata.resource_version) >= int(events[0].object.metadata.resource_version)
    await client.create(CONFIG_MAPS, a_config_map("b"), namespace=namespace)
    since = bookmarks[-1].object.metadata.resource_version
    async with watching(client, CONFIG_MAPS, scope, since=since) as changes:
        assert await changes.take(1) == [("ADDED", "b")]


async def test_a_watch_of_metadata_shows_only_metadata(client: Client, namespace: str) -> None:
    slim = metadata_only(CONFIG_MAPS)
    item = await client.create(CONFIG_MAPS, a_config_map("a", k="v"), namespace=namespace)
    async with watching(client, slim, Scope(namespace=namespace), since="") as changes:
        first = await changes.next()
        assert (await changes.next(bookmarks=True)).ends_initial_list
        await client.delete(CONFIG_MAPS.of(item), Deletion(uid=item.uid))
        last = await changes.next()
    assert type(first.object) is Resource
    assert (first.type, first.object.metadata) == ("ADDED", item.metadata)
    assert (last.type, last.object.uid) == ("DELETED", item.uid)


async def test_a_version_that_the_server_has_forgotten_is_gone(server: Server, namespace: str) -> None:
    client = server.client
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    for number in range(3):
        await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": str(number)}}))
    await server.forget_history()
    with pytest.raises(Gone) as refused:
        async with watching(
            client, CONFIG_MAPS, Scope(namespace=namespace), since=item.metadata.resource_version
        ) as changes:
            await changes.next()
    assert refused.value.status.code == 410


async def test_after_forgetting_a_fresh_list_can_be_watched_from(server: Server, namespace: str) -> None:
    client = server.client
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    await server.forget_history()
    page = await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))
    assert [item.name for item in page.items] == ["a"]
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=page.version) as changes:
        await client.create(CONFIG_MAPS, a_config_map("b"), namespace=namespace)
        assert await changes.take(1) == [("ADDED", "b")]


async def test_custom_objects_are_watched_the_same_way(
    client: Client, namespace: str, gadgets: Kind[Unstructured]
) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    async with watching(client, gadgets, Scope(namespace=namespace), since=item.metadata.resource_version) as changes:
        await client.patch(gadgets.of(item), Merge({"status": {"phase": "Up"}}), subresource="status")
        await delete(client, gadgets.of(item))
        events = [await changes.next() for _ in range(2)]
    assert [event.type for event in events] == ["MODIFIED", "DELETED"]
    assert [event.object.status for event in events] == [{"phase": "Up"}, {"phase": "Up"}]


async def test_one_client_can_watch_many_things_at_once(client: Client, namespace: str) -> None:
    since = await version_now(client, namespace)
    seen: dict[int, list[tuple[str, str]]] = {}

    async def follow(number: int) -> None:
        async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=since) as changes:
            seen[number] = await changes.take(3)

    async with asyncio.TaskGroup() as watchers:
        for number in range(10):
            watchers.create_task(follow(number))
        for name in "abc":
            await client.create(CONFIG_MAPS, a_config_map(name), namespace=namespace)
    assert seen == {number: [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")] for number in range(10)}


async def test_a_watch_from_the_future_says_nothing_at_all(client: Client, namespace: str) -> None:
    """What a client sees after a server was restored from a backup: neither changes nor bookmarks, until the end."""
    future = str(int(await version_now(client, namespace)) + 1_000_000)
    async with client.watch(CONFIG_MAPS, Scope(namespace=namespace), since=future, seconds=2) as batches:
        await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
        assert [batch async for batch in batches] == []
