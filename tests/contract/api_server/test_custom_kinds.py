"""Custom kinds: what their schema does to an object, and how a kind comes, changes and goes."""

import asyncio
from typing import Any

import pytest

from defib.kube.client import Client, Merge, Scope
from defib.kube.errors import Gone, Invalid, KubeError, NotFound, ServerFailed
from defib.kube.kinds import Kind
from defib.kube.transport import JSON
from defib.model.meta import Unstructured
from tests.contract.api_server.objects import CRDS, a_gadget, gadget_crd, gadget_version
from tests.contract.api_server.steps import (
    STRATEGIC_MERGE_PATCH,
    delete,
    eventually,
    install,
    is_gone,
    raw,
    watching,
)

Gadgets = Kind[Unstructured]


async def test_defaults_fill_what_was_left_out(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    assert item.spec == {"size": 1, "color": "red", "nested": {"depth": 3}}
    assert await client.get(gadgets.of(item)) == item


async def test_defaults_do_not_touch_what_was_given(client: Client, namespace: str, gadgets: Gadgets) -> None:
    body = a_gadget("a", color="green", nested={"depth": 9})
    item = await client.create(gadgets, body, namespace=namespace)
    assert item.spec == {"size": 1, "color": "green", "nested": {"depth": 9}}


async def test_a_removed_field_gets_its_default_again(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a", color="green"), namespace=namespace)
    item = await client.patch(gadgets.of(item), Merge({"spec": {"color": None}}))
    assert (item.spec or {})["color"] == "red"


async def test_unknown_fields_are_pruned(client: Client, namespace: str, gadgets: Gadgets) -> None:
    body = a_gadget("a", unknown=1, nested={"unknown": 2}) | {"top": "unknown"}
    await client.create(gadgets, body, namespace=namespace)
    whole = await raw(client, "GET", gadgets.at("a", namespace).path())
    assert whole["spec"] == {"size": 1, "color": "red", "nested": {"depth": 3}}
    assert "top" not in whole


async def test_unknown_fields_stay_where_the_schema_says_so(client: Client, namespace: str, gadgets: Gadgets) -> None:
    free = {"any": {"thing": [1, "two", None]}}
    item = await client.create(gadgets, a_gadget("a", free=free), namespace=namespace)
    assert (item.spec or {})["free"] == free


async def test_a_strict_write_refuses_unknown_fields(client: Client, namespace: str, gadgets: Gadgets) -> None:
    body = a_gadget("a", unknown=1) | {"apiVersion": gadgets.api_version, "kind": "Gadget"}
    with pytest.raises(Invalid, match=r'strict decoding error: unknown field "spec\.unknown"'):
        await raw(client, "POST", gadgets.collection(namespace), body, fieldValidation="Strict")


@pytest.mark.parametrize("share", [3, "30%"])
async def test_a_number_or_a_text_is_kept_as_it_is(
    client: Client, namespace: str, gadgets: Gadgets, share: int | str
) -> None:
    item = await client.create(gadgets, a_gadget("a", share=share), namespace=namespace)
    assert (item.spec or {})["share"] == share


async def test_null_is_kept_only_where_it_is_allowed(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a", owner=None, color=None, code=None), namespace=namespace)
    assert (item.spec or {})["owner"] is None
    assert (item.spec or {})["color"] == "red", "elsewhere null counts as absent, so the default holds"
    assert "code" not in (item.spec or {})


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"size": None}, "spec.size", "Required value"),
        ({"size": "big"}, "spec.size", "must be of type integer"),
        ({"size": 1.5}, "spec.size", "must be of type integer"),
        ({"size": 0}, "spec.size", "should be greater than or equal to 1"),
        ({"size": 11}, "spec.size", "should be less than or equal to 10"),
        ({"color": "blue"}, "spec.color", 'supported values: "red", "green"'),
        ({"code": "ABC"}, "spec.code", "should match"),
        ({"code": "toolong"}, "spec.code", "Too long"),
        ({"share": 1.5}, "spec.share", "Invalid value"),
        ({"share": True}, "spec.share", "Invalid value"),
        ({"since": "yesterday"}, "spec.since", "date-time"),
        ({"tags": []}, "spec.tags", "should have at least 1 items"),
        ({"tags": ["x", "x"]}, "spec.tags[1]", "Duplicate value"),
        ({"tags": "x"}, "spec.tags", "must be of type array"),
        ({"limits": {"a": "many"}}, "spec.limits.a", "must be of type integer"),
        ({"nested": 1}, "spec.nested", "must be of type object"),
        ({"ports": [{"number": 1}]}, "spec.ports[0].name", "Required value"),
        ({"ports": [{"name": "a"}, {"name": "a"}]}, "spec.ports[1]", "Duplicate value"),
    ],
)
async def test_a_value_that_breaks_the_schema_is_refused_with_its_field_named(
    client: Client, namespace: str, gadgets: Gadgets, *, spec: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(gadgets, a_gadget("a", **spec), namespace=namespace)
    assert refused.value.status.code == 422
    assert field in {cause.field for cause in refused.value.status.causes}
    assert field in str(refused.value)
    assert said in str(refused.value)


async def test_a_required_field_must_be_there(client: Client, namespace: str, gadgets: Gadgets) -> None:
    with pytest.raises(Invalid, match=r'Gadget.* "a" is invalid: spec\.size: Required value'):
        await client.create(gadgets, {"metadata": {"name": "a"}, "spec": {}}, namespace=namespace)


async def test_all_faults_are_told_at_once(client: Client, namespace: str, gadgets: Gadgets) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(gadgets, a_gadget("a", size=99, color="blue", code="ABC"), namespace=namespace)
    assert {cause.field for cause in refused.value.status.causes} == {"spec.size", "spec.color", "spec.code"}


async def test_a_patch_is_validated_as_a_whole_object(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    with pytest.raises(Invalid, match=r"spec\.size: Required value"):
        await client.patch(gadgets.of(item), Merge({"spec": {"size": None}}))
    assert await client.get(gadgets.of(item)) == item


async def test_custom_objects_have_no_strategic_merge(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    with pytest.raises(Invalid) as refused:
        await raw(client, "PATCH", gadgets.of(item).path(), {"spec": {}}, content_type=STRATEGIC_MERGE_PATCH)
    assert refused.value.status.code == 415


async def test_replacing_a_custom_object_needs_its_version(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    body = a_gadget("a", size=2) | {"apiVersion": gadgets.api_version, "kind": "Gadget"}
    with pytest.raises(Invalid, match=r"metadata\.resourceVersion"):
        await raw(client, "PUT", gadgets.of(item).path(), body)


async def test_a_custom_object_of_a_megabyte_is_kept_and_a_much_larger_one_refused(
    client: Client, namespace: str, gadgets: Gadgets
) -> None:
    item = await client.create(gadgets, a_gadget("a", free={"blob": "x" * 2**20}), namespace=namespace)
    found = await client.get(gadgets.of(item))
    assert len((found.spec or {})["free"]["blob"]) == 2**20
    with pytest.raises(ServerFailed, match="request is too large"):
        await client.create(gadgets, a_gadget("b", free={"blob": "x" * 1_700_000}), namespace=namespace)


async def test_a_table_has_the_columns_of_the_kind(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a", size=7), namespace=namespace)
    await client.patch(gadgets.of(item), Merge({"status": {"phase": "Up"}}), subresource="status")
    table = await raw(client, "GET", gadgets.collection(namespace), accept=f"{JSON};as=Table;v=v1;g=meta.k8s.io")
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Phase"]
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 0, 1]
    assert [row["cells"] for row in table["rows"]] == [["a", 7, "Up"]]
    assert table["rows"][0]["object"]["metadata"]["name"] == "a"


async def test_an_installed_kind_says_so_in_its_conditions(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    await install(client, gadget_crd(group))

    async def established() -> bool:
        status = (await client.get(CRDS.at(f"gadgets.{group}"))).status or {}
        conditions = {condition["type"]: condition["status"] for condition in status["conditions"]}
        return conditions == {"NamesAccepted": "True", "Established": "True"}

    await eventually(established)


async def test_a_crd_is_named_plural_dot_group(client: Client, namespace: str) -> None:
    crd = gadget_crd(f"{namespace}.example.com")
    crd["metadata"]["name"] = f"wrong.{namespace}.example.com"
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await client.create(CRDS, crd)


async def test_a_crd_has_exactly_one_storage_version(client: Client, namespace: str) -> None:
    versions = [gadget_version("v1", storage=True), gadget_version("v2", storage=True)]
    with pytest.raises(Invalid, match=r"spec\.versions"):
        await client.create(CRDS, gadget_crd(f"{namespace}.example.com", *versions))


async def test_an_object_is_the_same_in_every_version_of_its_kind(client: Client, namespace: str) -> None:
    versions = [gadget_version("v1", storage=True), gadget_version("v1beta1", storage=False)]
    group = f"{namespace}.example.com"
    gadgets = await install(client, gadget_crd(group, *versions))
    item = await client.create(gadgets, a_gadget("a", size=4), namespace=namespace)
    older = await raw(client, "GET", f"/apis/{group}/v1beta1/namespaces/{namespace}/gadgets/a")
    assert older["apiVersion"] == f"{group}/v1beta1"
    assert older["spec"]["size"] == 4
    assert older["metadata"]["uid"] == item.uid
    assert older["metadata"]["resourceVersion"] == item.metadata.resource_version


async def test_a_version_that_is_not_served_is_not_found(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    unserved = gadget_version("v1beta1", storage=False) | {"served": False}
    await install(client, gadget_crd(group, gadget_version("v1", storage=True), unserved))
    with pytest.raises(NotFound):
        await raw(client, "GET", f"/apis/{group}/v1beta1/namespaces/{namespace}/gadgets")


async def test_a_cluster_wide_kind_has_no_namespaces(client: Client, namespace: str) -> None:
    gadgets = await install(client, gadget_crd(f"{namespace}.example.com", scope="Cluster"))
    item = await client.create(gadgets, a_gadget("a"))
    assert (item.namespace, item.key) == ("", "a")
    with pytest.raises(NotFound):
        await client.create(gadgets, a_gadget("b"), namespace=namespace)


async def test_a_changed_schema_holds_from_then_on(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    gadgets = await install(client, gadget_crd(group))
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
    body = [{"op": "replace", "path": path, "value": 50}]
    content_type = "application/json-patch+json"
    await raw(client, "PATCH", CRDS.at(f"gadgets.{group}").path(), body, content_type=content_type)

    async def larger_is_accepted() -> bool:
        try:
            await client.create(gadgets, a_gadget("large", size=40), namespace=namespace)
        except (Invalid, ServerFailed):  # a real server refuses some requests while it changes over
            return False
        return True

    await eventually(larger_is_accepted)


async def test_the_end_of_a_kind_is_the_end_of_its_objects(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    gadgets = await install(client, gadget_crd(group))
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    since = item.metadata.resource_version
    async with watching(client, gadgets, Scope(namespace=namespace), since=since) as changes:
        await delete(client, CRDS.at(f"gadgets.{group}"))
        assert await changes.take(1) == [("DELETED", "a")]

    async def gone() -> bool:
        return await is_gone(client, CRDS.at(f"gadgets.{group}"))

    await eventually(gone)
    await eventually(lambda: is_unserved(client, gadgets))


async def test_the_end_of_a_kind_ends_its_watches(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    gadgets = await install(client, gadget_crd(group))
    since = (await client.list_all(gadgets)).version
    async with asyncio.timeout(15), watching(client, gadgets, since=since, seconds=300) as changes:
        await delete(client, CRDS.at(f"gadgets.{group}"))
        with pytest.raises((StopAsyncIteration, Gone, NotFound)):
            await changes.next(bookmarks=True)


async def test_a_kind_can_come_back_empty(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    gadgets = await install(client, gadget_crd(group))
    await client.create(gadgets, a_gadget("a"), namespace=namespace)
    await delete(client, CRDS.at(f"gadgets.{group}"))
    await eventually(lambda: is_gone(client, CRDS.at(f"gadgets.{group}")))
    await eventually(lambda: is_unserved(client, gadgets))
    await install(client, gadget_crd(group))
    assert (await client.list_all(gadgets)).items == []


async def is_unserved(client: Client, kind: Gadgets) -> bool:
    try:
        await client.list_all(kind)
    except NotFound:
        return True
    except KubeError:
        return False
    return False
