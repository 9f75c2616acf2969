"""Deletion: finalizers hold it, preconditions aim it, a pod's grace delays it."""

from datetime import timedelta

import pytest

from defib.kube.client import Client, Deletion, JsonPatch, Merge, Scope
from defib.kube.errors import Conflict, Forbidden, Invalid
from defib.kube.kinds import NODES, Kind
from defib.model.meta import Unstructured
from tests.contract.api_server.objects import CONFIG_MAPS, PODS, a_config_map, a_gadget, a_pod
from tests.contract.api_server.steps import delete, is_gone, raw, watching

HOLD = "example.com/hold"


async def a_held_config_map(client: Client, namespace: str, *finalizers: str) -> Deletion:
    body = a_config_map("a", k="v")
    body["metadata"]["finalizers"] = list(finalizers or (HOLD,))
    item = await client.create(CONFIG_MAPS, body, namespace=namespace)
    return Deletion(uid=item.uid)


async def test_a_finalizer_turns_deletion_into_a_mark(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace)
    ref = CONFIG_MAPS.at("a", namespace)
    before = await client.get(ref)
    await client.delete(ref, how)
    after = await client.get(ref)
    assert before.metadata.deletion_timestamp is None
    assert after.metadata.deletion_timestamp is not None
    assert int(after.metadata.resource_version) > int(before.metadata.resource_version)
    assert (after.uid, after.data) == (before.uid, before.data)


async def test_taking_the_last_finalizer_away_ends_the_object(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace, HOLD, "example.com/other")
    ref = CONFIG_MAPS.at("a", namespace)
    await client.delete(ref, how)
    await client.patch(ref, Merge({"metadata": {"finalizers": ["example.com/other"]}}))
    assert not await is_gone(client, ref)
    await client.patch(ref, JsonPatch([{"op": "remove", "path": "/metadata/finalizers/0"}]))
    assert await is_gone(client, ref)


async def test_a_held_deletion_is_seen_as_a_change_and_then_as_an_end(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace)
    ref = CONFIG_MAPS.at("a", namespace)
    since = (await client.get(ref)).metadata.resource_version
    async with watching(client, CONFIG_MAPS, Scope(namespace=namespace), since=since) as changes:
        await client.delete(ref, how)
        await client.patch(ref, Merge({"metadata": {"finalizers": None}}))
        marked, ended = await changes.next(), await changes.next()
    assert (marked.type, ended.type) == ("MODIFIED", "DELETED")
    assert marked.object.metadata.deletion_timestamp is not None
    assert int(ended.object.metadata.resource_version) > int(marked.object.metadata.resource_version)


async def test_deleting_twice_keeps_the_first_mark(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace)
    ref = CONFIG_MAPS.at("a", namespace)
    await client.delete(ref, how)
    first = await client.get(ref)
    await client.delete(ref, how)
    assert await client.get(ref) == first


async def test_no_finalizer_can_be_added_to_a_dying_object(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace)
    ref = CONFIG_MAPS.at("a", namespace)
    await client.delete(ref, how)
    with pytest.raises(Invalid, match=r"metadata\.finalizers: Forbidden"):
        await client.patch(ref, Merge({"metadata": {"finalizers": [HOLD, "example.com/late"]}}))


async def test_a_dying_object_can_still_be_changed(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace)
    ref = CONFIG_MAPS.at("a", namespace)
    await client.delete(ref, how)
    assert (await client.patch(ref, Merge({"data": {"k": "last words"}}))).data == {"k": "last words"}


async def test_a_dying_object_cannot_be_brought_back(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace)
    ref = CONFIG_MAPS.at("a", namespace)
    await client.delete(ref, how)
    await client.patch(ref, Merge({"metadata": {"deletionTimestamp": None}}))
    assert (await client.get(ref)).metadata.deletion_timestamp is not None


async def test_the_name_of_a_dying_object_is_still_taken(client: Client, namespace: str) -> None:
    how = await a_held_config_map(client, namespace)
    await client.delete(CONFIG_MAPS.at("a", namespace), how)
    with pytest.raises(Conflict, match="object is being deleted"):
        await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)


async def test_taking_finalizers_from_a_living_object_does_not_end_it(client: Client, namespace: str) -> None:
    await a_held_config_map(client, namespace)
    ref = CONFIG_MAPS.at("a", namespace)
    await client.patch(ref, Merge({"metadata": {"finalizers": None}}))
    assert not await is_gone(client, ref)


async def test_deletion_marks_a_custom_object_and_moves_its_generation(
    client: Client, namespace: str, gadgets: Kind[Unstructured]
) -> None:
    body = a_gadget("a")
    body["metadata"]["finalizers"] = [HOLD]
    item = await client.create(gadgets, body, namespace=namespace)
    await client.delete(gadgets.of(item), Deletion(uid=item.uid))
    marked = await client.get(gadgets.of(item))
    assert marked.metadata.deletion_timestamp is not None
    assert marked.metadata.generation == 2
    await client.patch(gadgets.of(item), Merge({"metadata": {"finalizers": []}}))
    assert await is_gone(client, gadgets.of(item))


async def test_another_incarnation_is_not_deleted(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    with pytest.raises(Conflict, match=r"the UID in the precondition \(another\) does not match"):
        await client.delete(CONFIG_MAPS.of(item), Deletion(uid="another"))
    assert not await is_gone(client, CONFIG_MAPS.of(item))


async def test_another_version_is_not_deleted(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    newer = await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": "v"}}))
    with pytest.raises(Conflict, match="the ResourceVersion in the precondition"):
        await client.delete(CONFIG_MAPS.of(item), Deletion(uid=item.uid, version=item.metadata.resource_version))
    await client.delete(CONFIG_MAPS.of(item), Deletion(uid=item.uid, version=newer.metadata.resource_version))
    assert await is_gone(client, CONFIG_MAPS.of(item))


async def test_an_unknown_propagation_policy_is_refused(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    with pytest.raises(Invalid, match="propagationPolicy"):
        await client.delete(CONFIG_MAPS.of(item), Deletion(uid=item.uid, propagation="Sideways"))


async def test_a_whole_selection_can_be_deleted_at_once(client: Client, namespace: str) -> None:
    for name, labels in (("a", {"go": "yes"}), ("b", {"go": "yes"}), ("c", {})):
        await client.create(CONFIG_MAPS, a_config_map(name, labels=labels), namespace=namespace)
    answer = await raw(client, "DELETE", CONFIG_MAPS.collection(namespace), labelSelector="go=yes")
    assert answer["kind"] == "ConfigMapList"
    page = await client.list_all(CONFIG_MAPS, Scope(namespace=namespace))
    assert [item.name for item in page.items] == ["c"]


async def test_deleting_a_selection_respects_finalizers(client: Client, namespace: str) -> None:
    await a_held_config_map(client, namespace)
    await raw(client, "DELETE", CONFIG_MAPS.collection(namespace))
    assert (await client.get(CONFIG_MAPS.at("a", namespace))).metadata.deletion_timestamp is not None


async def test_a_node_is_deleted_at_once(client: Client, namespace: str) -> None:
    node = await client.create(NODES, {"metadata": {"name": f"{namespace}-n"}})
    await client.delete(NODES.of(node), Deletion(uid=node.uid))
    assert await is_gone(client, NODES.of(node))


async def test_a_pod_without_node_is_deleted_at_once(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p"), namespace=namespace)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    assert await is_gone(client, PODS.of(pod))


async def test_a_pod_on_a_node_is_only_marked_until_its_node_confirms(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n", grace=40), namespace=namespace)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    marked = await raw(client, "GET", PODS.of(pod).path())
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 40
    confirmed = Deletion(uid=pod.uid, grace_seconds=0)
    await client.delete(PODS.of(pod), confirmed)
    assert await is_gone(client, PODS.of(pod))


async def test_the_mark_is_the_time_at_which_the_grace_ends(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n", grace=3600), namespace=namespace)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    marked = await client.get(PODS.of(pod))
    assert marked.metadata.deletion_timestamp is not None
    assert marked.metadata.creation_timestamp is not None
    lived = marked.metadata.deletion_timestamp - marked.metadata.creation_timestamp
    assert timedelta(seconds=3600) <= lived <= timedelta(seconds=3630)


async def test_a_deletion_may_ask_for_another_grace(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n", grace=30), namespace=namespace)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=100))
    marked = await raw(client, "GET", PODS.of(pod).path())
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 100


async def test_a_second_deletion_can_only_shorten_the_grace(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n", grace=100), namespace=namespace)

    async def grace_after(seconds: int) -> tuple[int, str]:
        await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=seconds))
        metadata = (await raw(client, "GET", PODS.of(pod).path()))["metadata"]
        return metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]

    first_grace, first_end = await grace_after(100)
    shorter_grace, shorter_end = await grace_after(10)
    longer_grace, longer_end = await grace_after(500)
    assert (first_grace, shorter_grace, longer_grace) == (100, 10, 10)
    assert shorter_end < first_end
    assert longer_end == shorter_end


async def test_force_deletes_a_pod_on_a_node_at_once(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n"), namespace=namespace)
    since = pod.metadata.resource_version
    async with watching(client, PODS, Scope(namespace=namespace), since=since) as changes:
        await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
        assert await changes.take(2) == [("MODIFIED", "p"), ("DELETED", "p")]
    assert await is_gone(client, PODS.of(pod))


async def test_force_does_not_pass_a_finalizer(client: Client, namespace: str) -> None:
    body = a_pod("p", node="n")
    body["metadata"]["finalizers"] = [HOLD]
    pod = await client.create(PODS, body, namespace=namespace)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
    marked = await client.get(PODS.of(pod))
    assert marked.metadata.deletion_timestamp is not None
    await client.patch(PODS.of(pod), Merge({"metadata": {"finalizers": None}}))
    assert await is_gone(client, PODS.of(pod))


async def test_losing_its_finalizer_does_not_end_a_pods_grace(client: Client, namespace: str) -> None:
    body = a_pod("p", node="n")
    body["metadata"]["finalizers"] = [HOLD]
    pod = await client.create(PODS, body, namespace=namespace)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    await client.patch(PODS.of(pod), Merge({"metadata": {"finalizers": None}}))
    assert not await is_gone(client, PODS.of(pod))
    await delete(client, PODS.of(pod), grace_seconds=0)
    assert await is_gone(client, PODS.of(pod))


async def test_a_finished_pod_is_deleted_at_once(client: Client, namespace: str) -> None:
    for phase in ("Succeeded", "Failed"):
        pod = await client.create(PODS, a_pod("p", node="n"), namespace=namespace)
        await client.patch(PODS.of(pod), Merge({"status": {"phase": phase}}), subresource="status")
        await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
        assert await is_gone(client, PODS.of(pod))


async def test_a_pods_end_is_seen_as_marks_and_one_end(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n"), namespace=namespace)
    since = pod.metadata.resource_version
    async with watching(client, PODS, Scope(namespace=namespace), since=since) as changes:
        await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
        marked = await changes.next()
        await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
        types = []
        while "DELETED" not in types:
            types.append((await changes.next()).type)
    assert marked.type == "MODIFIED"
    assert marked.object.metadata.deletion_timestamp is not None
    assert types.count("DELETED") == 1


async def test_a_protected_namespace_cannot_be_deleted(client: Client) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await raw(client, "DELETE", "/api/v1/namespaces/default")
