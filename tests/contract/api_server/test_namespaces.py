"""Namespaces as far as the API server alone is concerned; test_controllers.py has how they are emptied."""

import pytest

from defib.kube.client import Apply, Client, Merge
from defib.kube.errors import Conflict, Forbidden, NotFound
from tests.contract.api_server.objects import CONFIG_MAPS, NAMESPACES, PODS, a_config_map, a_pod
from tests.contract.api_server.steps import is_gone, raw


async def test_a_new_namespace_is_active_and_labelled_with_its_name(client: Client, namespace: str) -> None:
    found = await client.get(NAMESPACES.at(namespace))
    assert (found.status or {})["phase"] == "Active"
    assert found.labels == {"kubernetes.io/metadata.name": namespace}
    assert (found.spec or {})["finalizers"] == ["kubernetes"]


async def test_nothing_can_be_created_in_a_namespace_that_is_not_there(client: Client, namespace: str) -> None:
    missing = f"{namespace}-missing"
    with pytest.raises(NotFound, match=f'namespaces "{missing}" not found'):
        await client.create(CONFIG_MAPS, a_config_map("a"), namespace=missing)
    with pytest.raises(NotFound, match=f'namespaces "{missing}" not found'):
        await client.patch(CONFIG_MAPS.at("a", missing), Apply(body={"data": {"k": "v"}}))


async def test_an_object_in_a_missing_namespace_is_itself_what_is_missing(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await client.get(CONFIG_MAPS.at("a", f"{namespace}-missing"))


async def test_a_deleted_namespace_is_terminating_until_it_is_finalized(client: Client, namespace: str) -> None:
    answer = await raw(client, "DELETE", NAMESPACES.at(namespace).path())
    assert answer["status"]["phase"] == "Terminating"
    found = await client.get(NAMESPACES.at(namespace))
    assert found.metadata.deletion_timestamp is not None
    whole = await raw(client, "GET", NAMESPACES.at(namespace).path())
    whole["spec"]["finalizers"] = []
    await raw(client, "PUT", NAMESPACES.at(namespace).path("finalize"), whole)
    assert await is_gone(client, NAMESPACES.at(namespace))


async def test_nothing_new_can_be_created_in_a_terminating_namespace(client: Client, namespace: str) -> None:
    await raw(client, "DELETE", NAMESPACES.at(namespace).path())
    for kind, body in ((CONFIG_MAPS, a_config_map("late")), (PODS, a_pod("late"))):
        with pytest.raises(Forbidden, match="because it is being terminated") as refused:
            await raw(client, "POST", kind.collection(namespace), body)
        assert [cause.reason for cause in refused.value.status.causes] == ["NamespaceTerminating"]


async def test_what_lives_in_a_terminating_namespace_can_still_be_changed(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    await raw(client, "DELETE", NAMESPACES.at(namespace).path())
    changed = await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": "v"}}))
    assert changed.data == {"k": "v"}


async def test_a_terminating_namespace_keeps_its_name(client: Client, namespace: str) -> None:
    await raw(client, "DELETE", NAMESPACES.at(namespace).path())
    with pytest.raises(Conflict, match="object is being deleted"):
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})


async def test_deleting_a_terminating_namespace_again_changes_nothing(client: Client, namespace: str) -> None:
    await raw(client, "DELETE", NAMESPACES.at(namespace).path())
    before = await client.get(NAMESPACES.at(namespace))
    await raw(client, "DELETE", NAMESPACES.at(namespace).path())
    assert await client.get(NAMESPACES.at(namespace)) == before
