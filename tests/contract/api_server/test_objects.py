"""Creating, reading and listing objects, and what the server itself writes into their metadata."""

import pytest

from defib.kube.client import Client, Deletion, Merge, Scope
from defib.kube.errors import AlreadyExists, Invalid, NotFound, ServerFailed
from tests.contract.api_server.objects import CONFIG_MAPS, EVENTS, NAMESPACES, a_config_map
from tests.contract.api_server.steps import delete, is_gone, raw


async def test_an_object_is_read_back_as_it_was_written(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"n": "2"}}, "data": {"k": "v"}}
    created = await client.create(CONFIG_MAPS, body, namespace=namespace)
    found = await client.get(CONFIG_MAPS.at("a", namespace))
    assert found == created
    assert (found.labels, found.annotations, found.data) == ({"l": "1"}, {"n": "2"}, {"k": "v"})


async def test_the_server_gives_identity_version_and_time_of_birth(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    assert len(item.uid) == 36
    assert int(item.metadata.resource_version) > 0
    assert item.namespace == namespace
    assert item.metadata.creation_timestamp is not None


async def test_identity_and_time_of_birth_cannot_be_chosen(client: Client, namespace: str) -> None:
    chosen = {"name": "a", "uid": "0" * 36, "creationTimestamp": "2001-01-01T00:00:00Z"}
    item = await client.create(CONFIG_MAPS, {"metadata": chosen}, namespace=namespace)
    assert item.uid != "0" * 36
    assert item.metadata.creation_timestamp is not None
    assert item.metadata.creation_timestamp.year > 2001


async def test_time_of_birth_is_written_in_whole_seconds_of_utc(client: Client, namespace: str) -> None:
    answer = await raw(client, "POST", CONFIG_MAPS.collection(namespace), a_config_map("a"))
    assert len(answer["metadata"]["creationTimestamp"]) == len("2030-01-01T00:00:00Z")
    assert answer["metadata"]["creationTimestamp"].endswith("Z")


async def test_an_answer_names_its_kind_but_a_list_item_does_not(client: Client, namespace: str) -> None:
    answer = await raw(client, "POST", CONFIG_MAPS.collection(namespace), a_config_map("a"))
    assert (answer["apiVersion"], answer["kind"]) == ("v1", "ConfigMap")
    listed = await raw(client, "GET", CONFIG_MAPS.collection(namespace))
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "ConfigMapList")
    assert "kind" not in listed["items"][0]


async def test_a_name_can_be_taken_only_once(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
        await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)


async def test_a_name_can_be_taken_once_in_every_namespace(client: Client, namespace: str) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": f"{namespace}-b"}})
    first = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    second = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=f"{namespace}-b")
    assert first.uid != second.uid


async def test_a_namesake_after_deletion_is_another_object(client: Client, namespace: str) -> None:
    first = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    await delete(client, CONFIG_MAPS.of(first))
    second = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    assert second.uid != first.uid
    assert int(second.metadata.resource_version) > int(first.metadata.resource_version)


async def test_a_generated_name_is_the_prefix_and_five_characters(client: Client, namespace: str) -> None:
    body = {"metadata": {"generateName": "made-"}}
    names = {(await client.create(CONFIG_MAPS, body, namespace=namespace)).name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("made-") and len(name) == len("made-") + 5 for name in names)


async def test_a_given_name_is_stronger_than_a_prefix(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "given", "generateName": "made-"}}
    assert (await client.create(CONFIG_MAPS, body, namespace=namespace)).name == "given"


async def test_an_object_needs_a_name(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match="name or generateName is required") as refused:
        await client.create(CONFIG_MAPS, {"metadata": {}}, namespace=namespace)
    assert refused.value.status.code == 422


async def test_an_object_to_be_created_must_have_no_version(client: Client, namespace: str) -> None:
    with pytest.raises(ServerFailed, match="resourceVersion should not be set on objects to be created"):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "resourceVersion": "1"}}, namespace=namespace)


async def test_body_and_path_must_name_the_same_namespace(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "a", "namespace": "elsewhere"}}
    with pytest.raises(Invalid, match="does not match the namespace"):
        await client.create(CONFIG_MAPS, body, namespace=namespace)


async def test_body_and_path_must_be_of_the_same_kind(client: Client, namespace: str) -> None:
    body = {"kind": "Secret", "metadata": {"name": "a"}}
    with pytest.raises(Invalid) as refused:
        await client.create(CONFIG_MAPS, body, namespace=namespace)
    assert refused.value.status.code == 400


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 254, "sp ace", "dot.", "a..b"])
async def test_a_bad_name_is_refused_with_the_field_named(client: Client, namespace: str, name: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.name: Invalid value") as refused:
        await client.create(CONFIG_MAPS, a_config_map(name), namespace=namespace)
    assert refused.value.status.code == 422
    assert {cause.field for cause in refused.value.status.causes} == {"metadata.name"}


async def test_a_namespace_needs_a_dns_label_as_name(client: Client, namespace: str) -> None:
    for name in (f"{namespace}.dot", "a" * 64):
        with pytest.raises(Invalid, match=r"metadata\.name"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})


@pytest.mark.parametrize("labels", [{"bad key": "x"}, {"k": "bad value!"}, {"k": "v" * 64}, {"a/b/c": "x"}])
async def test_bad_labels_are_refused_with_the_field_named(
    client: Client, namespace: str, labels: dict[str, str]
) -> None:
    with pytest.raises(Invalid, match=r"metadata\.labels"):
        await client.create(CONFIG_MAPS, a_config_map("a", labels=labels), namespace=namespace)


async def test_a_label_must_be_a_string(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"n": 1}}}, namespace=namespace)
    assert refused.value.status.code == 400


async def test_annotations_may_hold_any_text_under_a_good_key(client: Client, namespace: str) -> None:
    text = 'any {"text"}\nof many lines ✓'
    body = {"metadata": {"name": "a", "annotations": {"example.com/note": text}}}
    item = await client.create(CONFIG_MAPS, body, namespace=namespace)
    assert item.annotations == {"example.com/note": text}
    with pytest.raises(Invalid, match=r"metadata\.annotations"):
        await client.patch(CONFIG_MAPS.of(item), Merge({"metadata": {"annotations": {"bad key": ""}}}))


async def test_a_finalizer_needs_a_qualified_name(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match=r"metadata\.finalizers"):
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["x y"]}}, namespace=namespace)


async def test_reading_what_is_not_there_says_what_is_missing(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound, match='configmaps "nobody" not found') as refused:
        await client.get(CONFIG_MAPS.at("nobody", namespace))
    assert refused.value.status.details is not None
    assert refused.value.status.details.name == "nobody"


async def test_a_deleted_object_is_not_found(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    await delete(client, CONFIG_MAPS.of(item))
    assert await is_gone(client, CONFIG_MAPS.of(item))
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS.of(item), Deletion(uid=item.uid))


async def test_a_deletion_is_answered_with_success_and_the_uid(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    answer = await raw(client, "DELETE", CONFIG_MAPS.of(item).path())
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": item.uid}


async def test_a_list_is_in_the_order_of_names(client: Client, namespace: str) -> None:
    for name in ("b", "a", "a-1", "c"):
        await client.create(CONFIG_MAPS, a_config_map(name), namespace=namespace)
    page = await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))
    assert [item.name for item in page.items] == ["a", "a-1", "b", "c"]


async def test_a_list_is_at_least_as_new_as_every_finished_write(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    page = await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))
    assert page.items == [item]
    assert int(page.version) >= int(item.metadata.resource_version)


async def test_a_list_without_namespace_spans_all_in_the_order_of_keys(client: Client, namespace: str) -> None:
    others = [f"{namespace}-b", f"{namespace}0"]
    for other in others:
        await client.create(NAMESPACES, {"metadata": {"name": other}})
    for where in (namespace, *others):
        await client.create(CONFIG_MAPS, a_config_map("a", labels={"suite": namespace}), namespace=where)
    page = await client.list_all(CONFIG_MAPS, Scope(labels=f"suite={namespace}"))
    assert [item.key for item in page.items] == [f"{namespace}-b/a", f"{namespace}/a", f"{namespace}0/a"]


async def test_nothing_to_list_is_an_empty_list(client: Client, namespace: str) -> None:
    page = await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))
    assert page.items == []
    assert (await client.list_all(CONFIG_MAPS, Scope(namespace=f"{namespace}-unknown"))).items == []


async def test_a_dry_run_answers_as_if_and_writes_nothing(client: Client, namespace: str) -> None:
    path = CONFIG_MAPS.collection(namespace)
    answer = await raw(client, "POST", path, a_config_map("a", k="v"), dryRun="All")
    assert answer["metadata"]["uid"]
    assert await is_gone(client, CONFIG_MAPS.at("a", namespace))

    item = await client.create(CONFIG_MAPS, a_config_map("a", k="v"), namespace=namespace)
    body = {"data": {"k": "changed"}}
    content_type = "application/merge-patch+json"
    patched = await raw(client, "PATCH", f"{path}/a", body, content_type=content_type, dryRun="All")
    assert patched["data"] == {"k": "changed"}
    await raw(client, "DELETE", f"{path}/a", dryRun="All")
    assert await client.get(CONFIG_MAPS.of(item)) == item


async def test_a_dry_run_is_refused_for_the_same_reasons(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    with pytest.raises(AlreadyExists):
        await raw(client, "POST", CONFIG_MAPS.collection(namespace), a_config_map("a"), dryRun="All")
    with pytest.raises(Invalid):
        await raw(client, "POST", CONFIG_MAPS.collection(namespace), a_config_map("Bad"), dryRun="All")


async def test_an_event_about_an_object_can_be_recorded(client: Client, namespace: str) -> None:
    about = {"kind": "ConfigMap", "name": "a", "namespace": namespace, "uid": "u"}
    body = {
        "metadata": {"generateName": "a."},
        "involvedObject": about,
        "reason": "Tried",
        "message": "It was tried",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
    }
    event = await client.create(EVENTS, body, namespace=namespace)
    found = await raw(client, "GET", EVENTS.of(event).path())
    assert (found["reason"], found["message"], found["count"]) == ("Tried", "It was tried", 1)
    assert found["involvedObject"] == about


async def test_an_event_must_lie_in_the_namespace_of_its_object(client: Client, namespace: str) -> None:
    about = {"kind": "ConfigMap", "name": "a", "namespace": "elsewhere"}
    body = {"metadata": {"generateName": "a."}, "involvedObject": about, "reason": "Tried", "type": "Normal"}
    with pytest.raises(Invalid, match=r"involvedObject\.namespace"):
        await client.create(EVENTS, body, namespace=namespace)


async def test_an_event_about_a_node_lies_in_the_default_namespace(client: Client, namespace: str) -> None:
    about = {"kind": "Node", "name": f"{namespace}-n"}
    body = {"metadata": {"generateName": "n."}, "involvedObject": about, "reason": "Tried", "type": "Normal"}
    event = await client.create(EVENTS, body, namespace="default")
    assert event.namespace == "default"


async def test_a_config_map_may_hold_nearly_a_megabyte(client: Client, namespace: str) -> None:
    size = 1024 * 1024 - 100
    item = await client.create(CONFIG_MAPS, a_config_map("big", blob="x" * size), namespace=namespace)
    found = await client.get(CONFIG_MAPS.of(item))
    assert found.data is not None
    assert len(found.data["blob"]) == size


async def test_a_config_map_of_more_than_a_megabyte_is_refused(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match="Too long"):
        await client.create(CONFIG_MAPS, a_config_map("big", blob="x" * (1024 * 1024 + 1)), namespace=namespace)


async def test_a_request_of_more_than_three_megabytes_is_refused(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid, match="too large") as refused:
        await client.create(CONFIG_MAPS, a_config_map("big", blob="x" * (4 * 1024 * 1024)), namespace=namespace)
    assert refused.value.status.code == 413


async def test_annotations_of_more_than_256_kilobytes_are_refused(client: Client, namespace: str) -> None:
    body = {"metadata": {"name": "a", "annotations": {"note": "x" * (256 * 1024)}}}
    with pytest.raises(Invalid, match=r"metadata\.annotations: Too long"):
        await client.create(CONFIG_MAPS, body, namespace=namespace)
