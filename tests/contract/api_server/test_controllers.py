"""What the cluster's own controllers do after a deletion: collect what was owned, empty a namespace."""

import pytest

from defib.kube.client import Client, Deletion, Merge, Scope
from defib.kube.errors import Conflict, Forbidden
from defib.kube.kinds import Kind
from defib.model.meta import Resource
from tests.contract.api_server.conftest import fresh_namespace
from tests.contract.api_server.objects import CONFIG_MAPS, NAMESPACES, Body, ConfigMap, a_config_map
from tests.contract.api_server.servers import Server
from tests.contract.api_server.steps import eventually, is_gone, raw, watching


def owned_by(*owners: Resource, blocks: bool = False) -> list[Body]:
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner.name,
            "uid": owner.uid,
            "blockOwnerDeletion": blocks,
        }
        for owner in owners
    ]


async def make(client: Client, namespace: str, name: str, owners: list[Body] | None = None) -> ConfigMap:
    body = a_config_map(name)
    body["metadata"]["ownerReferences"] = owners or []
    return await client.create(CONFIG_MAPS, body, namespace=namespace)


async def vanishes(client: Client, item: ConfigMap, kind: Kind[ConfigMap] = CONFIG_MAPS) -> None:
    async def gone() -> bool:
        return await is_gone(client, kind.of(item))

    await eventually(gone, within=30)


@pytest.fixture
def client(cluster: Server) -> Client:
    return cluster.client


@pytest.fixture
async def namespace(cluster: Server) -> str:
    return await fresh_namespace(cluster)


async def test_what_is_owned_goes_after_its_owner(client: Client, namespace: str) -> None:
    owner = await make(client, namespace, "owner")
    child = await make(client, namespace, "child", owned_by(owner))
    grandchild = await make(client, namespace, "grandchild", owned_by(child))
    await client.delete(CONFIG_MAPS.of(owner), Deletion(uid=owner.uid, propagation="Background"))
    assert await is_gone(client, CONFIG_MAPS.of(owner)), "in the background means: the owner does not wait"
    await vanishes(client, child)
    await vanishes(client, grandchild)


async def test_without_a_policy_what_is_owned_goes_too(client: Client, namespace: str) -> None:
    owner = await make(client, namespace, "owner")
    child = await make(client, namespace, "child", owned_by(owner))
    await client.delete(CONFIG_MAPS.of(owner), Deletion(uid=owner.uid))
    await vanishes(client, child)


async def test_orphaned_objects_stay_and_forget_their_owner(client: Client, namespace: str) -> None:
    owner = await make(client, namespace, "owner")
    child = await make(client, namespace, "child", owned_by(owner))
    await client.delete(CONFIG_MAPS.of(owner), Deletion(uid=owner.uid, propagation="Orphan"))
    await vanishes(client, owner)
    assert not (await client.get(CONFIG_MAPS.of(child))).metadata.owner_references


async def test_in_the_foreground_the_owner_goes_last(client: Client, namespace: str) -> None:
    owner = await make(client, namespace, "owner")
    child = await make(client, namespace, "child", owned_by(owner, blocks=True))
    since = child.metadata.resource_version
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=since) as changes:
        await client.delete(CONFIG_MAPS.of(owner), Deletion(uid=owner.uid, propagation="Foreground"))
        marked = await changes.next()
        ends: list[str] = []
        while len(ends) < 2:
            event = await changes.next()
            if event.type == "DELETED" and event.object.name in {"owner", "child"}:
                ends.append(event.object.name)
    assert marked.object.metadata.finalizers == ["foregroundDeletion"]
    assert marked.object.metadata.deletion_timestamp is not None
    assert ends == ["child", "owner"]


async def test_an_object_with_another_living_owner_stays(client: Client, namespace: str) -> None:
    first, second = await make(client, namespace, "first"), await make(client, namespace, "second")
    child = await make(client, namespace, "child", owned_by(first, second))
    await client.delete(CONFIG_MAPS.of(first), Deletion(uid=first.uid))

    async def one_owner_left() -> bool:
        owners = (await client.get(CONFIG_MAPS.of(child))).metadata.owner_references or []
        return [owner.uid for owner in owners] == [second.uid]

    await eventually(one_owner_left, within=30)


async def test_an_owner_that_never_was_means_the_end(client: Client, namespace: str) -> None:
    owner = await make(client, namespace, "owner")
    lost = [owned_by(owner)[0] | {"uid": "00000000-0000-0000-0000-000000000000"}]
    child = await make(client, namespace, "child", lost)
    await vanishes(client, child)
    assert not await is_gone(client, CONFIG_MAPS.of(owner))


async def test_a_finalizer_holds_what_is_collected(client: Client, namespace: str) -> None:
    owner = await make(client, namespace, "owner")
    body = a_config_map("child")
    body["metadata"] |= {"ownerReferences": owned_by(owner), "finalizers": ["example.com/hold"]}
    child = await client.create(CONFIG_MAPS, body, namespace=namespace)
    await client.delete(CONFIG_MAPS.of(owner), Deletion(uid=owner.uid))

    async def marked() -> bool:
        return (await client.get(CONFIG_MAPS.of(child))).metadata.deletion_timestamp is not None

    await eventually(marked, within=30)
    await client.patch(CONFIG_MAPS.of(child), Merge({"metadata": {"finalizers": None}}))
    assert await is_gone(client, CONFIG_MAPS.of(child))


async def test_a_deleted_namespace_takes_its_content_along(client: Client, namespace: str) -> None:
    await make(client, namespace, "a")
    await raw(client, "DELETE", NAMESPACES.at(namespace).path())

    async def gone() -> bool:
        return await is_gone(client, NAMESPACES.at(namespace))

    await eventually(gone, within=30)
    assert (await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))).items == []


async def test_a_namespace_ends_only_when_its_last_object_does(client: Client, namespace: str) -> None:
    body = a_config_map("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    item = await client.create(CONFIG_MAPS, body, namespace=namespace)
    await raw(client, "DELETE", NAMESPACES.at(namespace).path())

    async def marked() -> bool:
        return (await client.get(CONFIG_MAPS.of(item))).metadata.deletion_timestamp is not None

    await eventually(marked, within=30)
    assert ((await client.get(NAMESPACES.at(namespace))).status or {})["phase"] == "Terminating"
    with pytest.raises((Forbidden, Conflict)):
        await client.create(CONFIG_MAPS, a_config_map("late"), namespace=namespace)
    await client.patch(CONFIG_MAPS.of(item), Merge({"metadata": {"finalizers": None}}))

    async def gone() -> bool:
        return await is_gone(client, NAMESPACES.at(namespace))

    await eventually(gone, within=30)
