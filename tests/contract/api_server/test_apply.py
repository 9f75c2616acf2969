"""Server-side apply: each manager owns the fields it applied, and nobody else's."""

from typing import Any

import pytest

from defib.kube.client import Apply, Client, Merge
from defib.kube.errors import Conflict, Invalid
from defib.kube.kinds import NODES, Kind
from defib.kube.transport import APPLY_PATCH
from defib.model.meta import Unstructured
from tests.contract.api_server.objects import CONFIG_MAPS, PODS, a_config_map, a_pod, pod_status
from tests.contract.api_server.steps import delete, raw


def applied(manager: str, *, force: bool = False, **data: str) -> Apply:
    return Apply(body={"data": data}, manager=manager, force=force)


async def managers(client: Client, path: str) -> dict[str, str]:
    """Who is on record for the object, and by which operation."""
    whole = await raw(client, "GET", path)
    return {entry["manager"]: entry["operation"] for entry in whole["metadata"]["managedFields"]}


async def test_applying_what_is_not_there_creates_it(client: Client, namespace: str) -> None:
    item = await client.patch(CONFIG_MAPS.at("a", namespace), applied("one", k="v"))
    assert (item.name, item.data) == ("a", {"k": "v"})
    assert await managers(client, CONFIG_MAPS.of(item).path()) == {"one": "Apply"}


async def test_applying_the_same_again_keeps_the_version(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    first = await client.patch(ref, applied("one", k="v"))
    assert await client.patch(ref, applied("one", k="v")) == first


async def test_a_field_no_longer_applied_is_removed(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, applied("one", k="v", dropped="d"))
    item = await client.patch(ref, applied("one", k="v"))
    assert item.data == {"k": "v"}


async def test_two_managers_live_side_by_side(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, applied("one", first="1"))
    await client.patch(ref, applied("two", second="2"))
    item = await client.patch(ref, applied("one"))
    assert item.data == {"second": "2"}
    item = await client.patch(ref, applied("one", first="again"))
    assert item.data == {"first": "again", "second": "2"}


async def test_another_managers_field_is_a_conflict_that_names_the_manager(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    before = await client.patch(ref, applied("one", k="v"))
    with pytest.raises(Conflict, match=r'conflict with "one".*\.data\.k') as refused:
        await client.patch(ref, applied("two", k="other"))
    cause = refused.value.status.causes[0]
    assert (cause.reason, cause.field) == ("FieldManagerConflict", ".data.k")
    assert '"one"' in cause.message
    assert await client.get(ref) == before


async def test_force_takes_the_field_over(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, applied("one", k="v"))
    item = await client.patch(ref, applied("two", k="taken", force=True))
    assert item.data == {"k": "taken"}
    with pytest.raises(Conflict, match='conflict with "two"'):
        await client.patch(ref, applied("one", k="v"))


async def test_a_field_with_two_owners_stays_until_both_let_go(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, applied("one", shared="s"))
    await client.patch(ref, applied("two", shared="s"))
    assert (await client.patch(ref, applied("one"))).data == {"shared": "s"}
    assert not (await client.patch(ref, applied("two"))).data


async def test_an_ordinary_write_takes_the_field_over_unasked(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, applied("one", k="v"))
    await client.patch(ref, Merge({"data": {"k": "edited"}}))
    with pytest.raises(Conflict, match='conflict with "defib"'):
        await client.patch(ref, applied("one", k="v"))


async def test_what_was_created_without_apply_is_owned_by_its_creator(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a", k="v"), namespace=namespace)
    assert await managers(client, CONFIG_MAPS.of(item).path()) == {"defib": "Update"}
    with pytest.raises(Conflict, match='conflict with "defib"'):
        await client.patch(CONFIG_MAPS.of(item), applied("one", k="other"))
    await client.patch(CONFIG_MAPS.of(item), applied("one", k="v", mine="m"))
    assert (await client.patch(CONFIG_MAPS.of(item), applied("one"))).data == {"k": "v"}


async def test_apply_and_update_of_one_manager_are_two_owners(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a", k="v"), namespace=namespace)
    with pytest.raises(Conflict, match='conflict with "defib" using v1'):
        await client.patch(CONFIG_MAPS.of(item), applied("defib", k="other"))


async def test_apply_needs_a_manager(client: Client, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    with pytest.raises(Invalid, match="fieldManager"):
        await raw(client, "PATCH", CONFIG_MAPS.at("a", namespace).path(), body, content_type=APPLY_PATCH)


async def test_apply_must_not_carry_managed_fields(client: Client, namespace: str) -> None:
    body = {"metadata": {"managedFields": [{"manager": "x", "operation": "Apply"}]}}
    with pytest.raises(Invalid, match="managedFields must be nil"):
        await client.patch(CONFIG_MAPS.at("a", namespace), Apply(body=body, manager="one"))


async def test_apply_with_a_stale_version_is_a_conflict(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    first = await client.patch(ref, applied("one", k="v"))
    await client.patch(ref, applied("one", k="newer"))
    body = {"metadata": {"resourceVersion": first.metadata.resource_version}, "data": {"k": "stale"}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.patch(ref, Apply(body=body, manager="one"))


async def test_apply_with_a_uid_never_creates_a_namesake(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    first = await client.patch(ref, applied("one", k="v"))
    await delete(client, ref)
    with pytest.raises(Conflict, match="uid mismatch"):
        await client.patch(ref, Apply(body={"metadata": {"uid": first.uid}, "data": {"k": "v"}}, manager="one"))


async def test_apply_for_another_incarnation_is_refused(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, applied("one", k="v"))
    with pytest.raises(Invalid, match=r"metadata\.uid: Invalid value.*field is immutable"):
        await client.patch(ref, Apply(body={"metadata": {"uid": "another"}, "data": {"k": "v"}}, manager="one"))


async def test_labels_and_annotations_are_owned_one_by_one(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, Apply(body={"metadata": {"labels": {"a": "1"}}}, manager="one"))
    await client.patch(ref, Apply(body={"metadata": {"labels": {"b": "2"}}}, manager="two"))
    item = await client.patch(ref, Apply(body={"metadata": {"annotations": {"c": "3"}}}, manager="one"))
    assert (item.labels, item.annotations) == ({"b": "2"}, {"c": "3"})


async def test_finalizers_are_owned_one_by_one(client: Client, namespace: str) -> None:
    ref = CONFIG_MAPS.at("a", namespace)
    for manager in ("one", "two"):
        body = {"metadata": {"finalizers": [f"example.com/{manager}"]}}
        await client.patch(ref, Apply(body=body, manager=manager))
    item = await client.patch(ref, Apply(body={}, manager="one"))
    assert item.metadata.finalizers == ["example.com/two"]


async def test_items_of_a_keyed_list_are_owned_one_by_one(
    client: Client, namespace: str, gadgets: Kind[Unstructured]
) -> None:
    ref = gadgets.at("a", namespace)

    async def apply(manager: str, *ports: dict[str, Any]) -> list[dict[str, Any]]:
        item = await client.patch(ref, Apply(body={"spec": {"size": 1, "ports": list(ports)}}, manager=manager))
        return list((item.spec or {}).get("ports") or [])

    await apply("one", {"name": "http", "number": 80})
    both = await apply("two", {"name": "https", "number": 443})
    assert both == [{"name": "http", "number": 80}, {"name": "https", "number": 443}]
    with pytest.raises(Conflict, match=r'\.spec\.ports\[name="http"\]\.number'):
        await apply("two", {"name": "http", "number": 8080})
    assert await apply("one") == [{"name": "https", "number": 443}]


async def test_members_of_a_set_are_owned_one_by_one(
    client: Client, namespace: str, gadgets: Kind[Unstructured]
) -> None:
    ref = gadgets.at("a", namespace)
    for manager, tag in (("one", "x"), ("two", "y")):
        await client.patch(ref, Apply(body={"spec": {"size": 1, "tags": [tag]}}, manager=manager))
    item = await client.patch(ref, Apply(body={"spec": {"size": 1}}, manager="one"))
    assert (item.spec or {})["tags"] == ["y"]


async def test_conditions_of_different_types_have_different_owners(
    client: Client, namespace: str, gadgets: Kind[Unstructured]
) -> None:
    ref = gadgets.at("a", namespace)
    await client.patch(ref, Apply(body={"spec": {"size": 1}}, manager="one"))
    for manager, kind in (("one", "Ready"), ("two", "Fenced")):
        body = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        item = await client.patch(ref, Apply(body=body, manager=manager), subresource="status")
    kinds = [condition["type"] for condition in (item.status or {})["conditions"]]
    assert kinds == ["Ready", "Fenced"]


async def test_conditions_of_a_node_are_merged_by_type(client: Client, namespace: str) -> None:
    ready = {"type": "Ready", "status": "True"}
    node = await client.create(NODES, {"metadata": {"name": f"{namespace}-n"}, "status": {"conditions": [ready]}})
    body = {"status": {"conditions": [{"type": "Fenced", "status": "True"}]}}
    node = await client.patch(NODES.of(node), Apply(body=body), subresource="status")
    assert [condition.type for condition in node.status.conditions or []] == ["Ready", "Fenced"]


async def test_taints_of_a_node_have_one_owner_all_together(client: Client, namespace: str) -> None:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    node = await client.create(NODES, {"metadata": {"name": f"{namespace}-n"}, "spec": {"taints": [taint]}})
    body = {"spec": {"taints": [taint | {"key": "other"}]}}
    with pytest.raises(Conflict, match=r"\.spec\.taints"):
        await client.patch(NODES.of(node), Apply(body=body, manager="one"))
    node = await client.patch(NODES.of(node), Apply(body=body, manager="one", force=True))
    assert [taint.key for taint in node.spec.taints or []] == ["other"]


async def test_a_pod_is_marked_failed_beside_its_other_conditions(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n"), namespace=namespace)
    await client.patch(PODS.of(pod), Merge(pod_status("Running", ready=True)), subresource="status")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "NodeFailed", "message": "its node is down"}
    body = {"status": {"phase": "Failed", "conditions": [target]}}
    marked = await client.patch(PODS.of(pod), Apply(body=body, manager="one", force=True), subresource="status")
    status = marked.status or {}
    assert status["phase"] == "Failed"
    assert {condition["type"] for condition in status["conditions"]} == {"Ready", "DisruptionTarget"}


async def test_the_status_door_of_apply_leaves_the_spec(
    client: Client, namespace: str, gadgets: Kind[Unstructured]
) -> None:
    ref = gadgets.at("a", namespace)
    await client.patch(ref, Apply(body={"spec": {"size": 1}}, manager="one"))
    body = {"spec": {"size": 5}, "status": {"phase": "Up"}}
    item = await client.patch(ref, Apply(body=body, manager="one", force=True), subresource="status")
    assert (item.status, (item.spec or {})["size"]) == ({"phase": "Up"}, 1)


async def test_an_applied_object_is_validated(client: Client, namespace: str, gadgets: Kind[Unstructured]) -> None:
    with pytest.raises(Invalid, match=r"spec\.size"):
        await client.patch(gadgets.at("a", namespace), Apply(body={"spec": {"size": 99}}, manager="one"))
