"""Changing objects: merge patches, JSON patches, replacing, and who wins when two write at once."""

import asyncio

import pytest

from defib.kube.client import Client, JsonPatch, Merge
from defib.kube.errors import Conflict, Invalid, KubeError, NotFound
from tests.contract.api_server.objects import CONFIG_MAPS, ConfigMap, a_config_map
from tests.contract.api_server.steps import STRATEGIC_MERGE_PATCH, raw


@pytest.fixture
async def item(client: Client, namespace: str) -> ConfigMap:
    return await client.create(CONFIG_MAPS, a_config_map("a", k="v", other="o"), namespace=namespace)


async def test_a_merge_patch_changes_what_it_names_and_nothing_else(client: Client, item: ConfigMap) -> None:
    patch = Merge({"metadata": {"labels": {"l": "1"}}, "data": {"k": "new", "more": "m"}})
    changed = await client.patch(CONFIG_MAPS.of(item), patch)
    assert changed.data == {"k": "new", "more": "m", "other": "o"}
    assert changed.labels == {"l": "1"}
    assert int(changed.metadata.resource_version) > int(item.metadata.resource_version)
    assert changed.uid == item.uid


async def test_null_in_a_merge_patch_removes(client: Client, item: ConfigMap) -> None:
    changed = await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": None, "never-there": None}}))
    assert changed.data == {"other": "o"}


async def test_a_merge_patch_replaces_a_list_as_a_whole(client: Client, item: ConfigMap) -> None:
    ref = CONFIG_MAPS.of(item)
    await client.patch(ref, Merge({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}))
    changed = await client.patch(ref, Merge({"metadata": {"finalizers": ["example.com/b"]}}))
    assert changed.metadata.finalizers == ["example.com/b"]
    assert (await client.patch(ref, Merge({"metadata": {"finalizers": None}}))).metadata.finalizers is None


async def test_a_merge_patch_that_changes_nothing_keeps_the_version(client: Client, item: ConfigMap) -> None:
    for patch in (Merge({"data": {"k": "v"}}), Merge({}), JsonPatch([])):
        assert (await client.patch(CONFIG_MAPS.of(item), patch)) == item


async def test_a_patch_with_the_current_version_is_carried_out(client: Client, item: ConfigMap) -> None:
    patch = Merge({"metadata": {"resourceVersion": item.metadata.resource_version}, "data": {"k": "new"}})
    assert ((await client.patch(CONFIG_MAPS.of(item), patch)).data or {})["k"] == "new"


async def test_a_patch_with_a_stale_version_is_a_conflict(client: Client, item: ConfigMap) -> None:
    newer = await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": "newer"}}))
    stale = Merge({"metadata": {"resourceVersion": item.metadata.resource_version}, "data": {"k": "stale"}})
    with pytest.raises(Conflict, match="the object has been modified") as refused:
        await client.patch(CONFIG_MAPS.of(item), stale)
    assert refused.value.status.reason == "Conflict"
    assert await client.get(CONFIG_MAPS.of(item)) == newer


async def test_a_patch_for_another_incarnation_is_refused(client: Client, item: ConfigMap) -> None:
    with pytest.raises(Invalid, match=r"metadata\.uid: Invalid value.*field is immutable"):
        await client.patch(CONFIG_MAPS.of(item), Merge({"metadata": {"uid": "another"}, "data": {"k": "new"}}))


async def test_a_patch_cannot_rename(client: Client, item: ConfigMap) -> None:
    with pytest.raises(Invalid, match="name"):
        await client.patch(CONFIG_MAPS.of(item), Merge({"metadata": {"name": "b"}}))


async def test_a_patch_cannot_forge_birth_or_death(client: Client, item: ConfigMap) -> None:
    long_ago = "2001-01-01T00:00:00Z"
    with pytest.raises(Invalid, match=r"metadata\.deletionTimestamp: Invalid value.*field is immutable"):
        await client.patch(CONFIG_MAPS.of(item), Merge({"metadata": {"deletionTimestamp": long_ago}}))
    assert await client.patch(CONFIG_MAPS.of(item), Merge({"metadata": {"creationTimestamp": long_ago}})) == item


async def test_patching_what_is_not_there_is_not_found(client: Client, namespace: str) -> None:
    for patch in (Merge({"data": {"k": "v"}}), JsonPatch([{"op": "add", "path": "/data", "value": {}}])):
        with pytest.raises(NotFound, match='configmaps "nobody" not found'):
            await client.patch(CONFIG_MAPS.at("nobody", namespace), patch)


async def test_a_patch_that_breaks_a_rule_is_refused_and_changes_nothing(client: Client, item: ConfigMap) -> None:
    with pytest.raises(Invalid, match="data"):
        await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"bad key": "x"}}))
    with pytest.raises(Invalid):
        await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": 7}}))
    assert await client.get(CONFIG_MAPS.of(item)) == item


async def test_a_json_patch_carries_out_its_operations_in_order(client: Client, item: ConfigMap) -> None:
    patch = JsonPatch(
        [
            {"op": "test", "path": "/data/k", "value": "v"},
            {"op": "add", "path": "/data/added", "value": "1"},
            {"op": "copy", "from": "/data/added", "path": "/data/copied"},
            {"op": "move", "from": "/data/other", "path": "/data/moved"},
            {"op": "replace", "path": "/data/k", "value": "new"},
            {"op": "remove", "path": "/data/added"},
        ]
    )
    changed = await client.patch(CONFIG_MAPS.of(item), patch)
    assert changed.data == {"k": "new", "copied": "1", "moved": "o"}


async def test_a_json_patch_escapes_slashes_and_appends_to_lists(client: Client, item: ConfigMap) -> None:
    ref = CONFIG_MAPS.of(item)
    await client.patch(ref, Merge({"metadata": {"finalizers": ["example.com/a"], "labels": {"example.com/l": "1"}}}))
    patch = JsonPatch(
        [
            {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"},
            {"op": "add", "path": "/metadata/finalizers/1", "value": "example.com/b"},
            {"op": "replace", "path": "/metadata/labels/example.com~1l", "value": "2"},
        ]
    )
    changed = await client.patch(ref, patch)
    assert changed.metadata.finalizers == ["example.com/a", "example.com/b", "example.com/c"]
    assert changed.labels == {"example.com/l": "2"}


async def test_a_failed_test_of_a_json_patch_changes_nothing(client: Client, item: ConfigMap) -> None:
    patch = JsonPatch(
        [
            {"op": "replace", "path": "/data/other", "value": "changed"},
            {"op": "test", "path": "/data/k", "value": "something else"},
        ]
    )
    with pytest.raises(Invalid) as refused:
        await client.patch(CONFIG_MAPS.of(item), patch)
    assert refused.value.status.code == 422
    assert await client.get(CONFIG_MAPS.of(item)) == item


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/data/never"},
        {"op": "add", "path": "/never/there", "value": "x"},
        {"op": "test", "path": "/data/never", "value": "x"},
    ],
)
async def test_a_json_patch_of_a_missing_path_is_invalid(
    client: Client, item: ConfigMap, operation: dict[str, str]
) -> None:
    with pytest.raises(Invalid) as refused:
        await client.patch(CONFIG_MAPS.of(item), JsonPatch([operation]))
    assert refused.value.status.code == 422


async def test_a_json_patch_may_test_the_version(client: Client, item: ConfigMap) -> None:
    ref = CONFIG_MAPS.of(item)
    patch = JsonPatch(
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": item.metadata.resource_version},
            {"op": "replace", "path": "/data/k", "value": "new"},
        ]
    )
    await client.patch(ref, patch)
    with pytest.raises(Invalid):
        await client.patch(ref, patch)


async def test_a_strategic_merge_patch_merges_owners_by_uid(client: Client, item: ConfigMap) -> None:
    path = CONFIG_MAPS.of(item).path()
    for uid in ("u1", "u2"):
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"owner-{uid}", "uid": uid}
        body = {"metadata": {"ownerReferences": [owner]}}
        answer = await raw(client, "PATCH", path, body, content_type=STRATEGIC_MERGE_PATCH)
    assert sorted(owner["uid"] for owner in answer["metadata"]["ownerReferences"]) == ["u1", "u2"]


async def test_replacing_drops_what_is_not_repeated(client: Client, item: ConfigMap) -> None:
    answer = await raw(client, "PUT", CONFIG_MAPS.of(item).path(), a_config_map("a", only="this"))
    assert answer["data"] == {"only": "this"}
    assert answer["metadata"]["uid"] == item.uid
    assert int(answer["metadata"]["resourceVersion"]) > int(item.metadata.resource_version)


async def test_replacing_by_the_same_keeps_the_version(client: Client, item: ConfigMap) -> None:
    path = CONFIG_MAPS.of(item).path()
    whole = await raw(client, "GET", path)
    assert await raw(client, "PUT", path, whole) == whole


async def test_replacing_a_stale_version_is_a_conflict(client: Client, item: ConfigMap) -> None:
    path = CONFIG_MAPS.of(item).path()
    old = await raw(client, "GET", path)
    await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": "newer"}}))
    with pytest.raises(Conflict, match="the object has been modified"):
        await raw(client, "PUT", path, old)


async def test_replacing_needs_the_same_name_in_body_and_path(client: Client, item: ConfigMap) -> None:
    with pytest.raises(Invalid, match="does not match the name on the URL"):
        await raw(client, "PUT", CONFIG_MAPS.of(item).path(), a_config_map("b"))


async def test_replacing_another_incarnation_is_a_conflict(client: Client, item: ConfigMap) -> None:
    body = {"metadata": {"name": "a", "uid": "another"}}
    with pytest.raises(Conflict, match="UID"):
        await raw(client, "PUT", CONFIG_MAPS.of(item).path(), body)


async def test_replacing_what_is_not_there_is_not_found(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound):
        await raw(client, "PUT", CONFIG_MAPS.at("nobody", namespace).path(), a_config_map("nobody"))


async def test_of_many_writers_with_one_version_exactly_one_wins(client: Client, item: ConfigMap) -> None:
    winners: list[str] = []

    async def write(name: str) -> None:
        patch = Merge({"metadata": {"resourceVersion": item.metadata.resource_version}, "data": {"k": name}})
        try:
            await client.patch(CONFIG_MAPS.of(item), patch)
        except Conflict:
            return
        winners.append(name)

    async with asyncio.TaskGroup() as writers:
        for number in range(8):
            writers.create_task(write(f"writer-{number}"))
    assert len(winners) == 1
    assert ((await client.get(CONFIG_MAPS.of(item))).data or {})["k"] == winners[0]


async def test_writers_of_different_fields_without_version_all_win(client: Client, item: ConfigMap) -> None:
    failures: list[KubeError] = []

    async def write(number: int) -> None:
        try:
            await client.patch(CONFIG_MAPS.of(item), Merge({"data": {f"k{number}": "x"}}))
        except KubeError as error:
            failures.append(error)

    async with asyncio.TaskGroup() as writers:
        for number in range(8):
            writers.create_task(write(number))
    assert failures == []
    data = (await client.get(CONFIG_MAPS.of(item))).data or {}
    assert {f"k{number}" for number in range(8)} <= set(data)
