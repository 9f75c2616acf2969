"""What each door changes: the object itself, its status, its scale; and when the generation moves."""

import pytest

from defib.kube.client import Client, JsonPatch, Merge
from defib.kube.errors import Conflict, Invalid, NotFound
from defib.kube.kinds import NODES, Kind
from defib.model.meta import Unstructured
from tests.contract.api_server.objects import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PODS,
    a_config_map,
    a_deployment,
    a_gadget,
    a_pod,
    gadget_crd,
    gadget_version,
)
from tests.contract.api_server.steps import install, raw

Gadgets = Kind[Unstructured]


async def test_the_generation_counts_changes_of_the_spec(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    assert item.metadata.generation == 1
    item = await client.patch(gadgets.of(item), Merge({"spec": {"size": 2}}))
    assert item.metadata.generation == 2
    item = await client.patch(gadgets.of(item), Merge({"spec": {"size": 2}}))
    assert item.metadata.generation == 2


async def test_the_generation_ignores_metadata_and_status(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    labelled = await client.patch(gadgets.of(item), Merge({"metadata": {"labels": {"l": "1"}}}))
    reported = await client.patch(gadgets.of(item), Merge({"status": {"phase": "Up"}}), subresource="status")
    assert (labelled.metadata.generation, reported.metadata.generation) == (1, 1)
    versions = [int(one.metadata.resource_version) for one in (item, labelled, reported)]
    assert versions == sorted(set(versions))


async def test_the_generation_cannot_be_set(client: Client, namespace: str, gadgets: Gadgets) -> None:
    body = a_gadget("a")
    body["metadata"]["generation"] = 7
    item = await client.create(gadgets, body, namespace=namespace)
    assert item.metadata.generation == 1
    item = await client.patch(gadgets.of(item), Merge({"metadata": {"generation": 9}}))
    assert item.metadata.generation == 1


async def test_a_kind_without_spec_has_no_generation(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    item = await client.patch(CONFIG_MAPS.of(item), Merge({"data": {"k": "v"}}))
    assert item.metadata.generation == 0


async def test_status_is_dropped_when_an_object_is_created(client: Client, namespace: str, gadgets: Gadgets) -> None:
    body = a_gadget("a") | {"status": {"phase": "Up"}}
    item = await client.create(gadgets, body, namespace=namespace)
    assert item.status is None


async def test_the_main_door_does_not_change_the_status(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    patched = await client.patch(gadgets.of(item), Merge({"status": {"phase": "Up"}}))
    assert patched == item
    whole = await raw(client, "GET", gadgets.of(item).path())
    replaced = await raw(client, "PUT", gadgets.of(item).path(), whole | {"status": {"phase": "Up"}})
    assert "status" not in replaced


async def test_the_status_door_changes_only_the_status(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    patch = Merge({"metadata": {"labels": {"l": "1"}}, "spec": {"size": 9}, "status": {"phase": "Up"}})
    changed = await client.patch(gadgets.of(item), patch, subresource="status")
    assert changed.status == {"phase": "Up"}
    assert changed.spec == item.spec
    assert changed.labels == {}


async def test_replacing_the_status_changes_only_the_status(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    whole = await raw(client, "GET", gadgets.of(item).path())
    whole |= {"spec": {"size": 9}, "status": {"phase": "Up"}}
    replaced = await raw(client, "PUT", gadgets.of(item).path("status"), whole)
    assert (replaced["spec"]["size"], replaced["status"]) == (1, {"phase": "Up"})


async def test_a_json_patch_reaches_the_status(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    patch = JsonPatch([{"op": "add", "path": "/status", "value": {"phase": "Down"}}])
    assert (await client.patch(gadgets.of(item), patch, subresource="status")).status == {"phase": "Down"}


async def test_the_status_is_validated_too(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    with pytest.raises(Invalid, match=r"status\.phase"):
        await client.patch(gadgets.of(item), Merge({"status": {"phase": "Sideways"}}), subresource="status")


async def test_a_status_write_of_a_stale_version_is_a_conflict(
    client: Client, namespace: str, gadgets: Gadgets
) -> None:
    item = await client.create(gadgets, a_gadget("a"), namespace=namespace)
    await client.patch(gadgets.of(item), Merge({"spec": {"size": 2}}))
    stale = {"metadata": {"resourceVersion": item.metadata.resource_version}, "status": {"phase": "Up"}}
    with pytest.raises(Conflict):
        await client.patch(gadgets.of(item), Merge(stale), subresource="status")


async def test_without_a_status_door_the_status_is_an_ordinary_field(client: Client, namespace: str) -> None:
    version = gadget_version("v1", storage=True, subresources=False)
    gadgets = await install(client, gadget_crd(f"{namespace}.example.com", version))
    item = await client.create(gadgets, a_gadget("a") | {"status": {"phase": "Up"}}, namespace=namespace)
    assert item.status == {"phase": "Up"}
    item = await client.patch(gadgets.of(item), Merge({"status": {"phase": "Down"}}))
    assert (item.status, item.metadata.generation) == ({"phase": "Down"}, 2)
    with pytest.raises(NotFound):
        await client.patch(gadgets.of(item), Merge({"status": {}}), subresource="status")


async def test_a_kind_without_subresource_answers_not_found(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    with pytest.raises(NotFound):
        await client.patch(CONFIG_MAPS.of(item), Merge({"status": {}}), subresource="status")


async def test_a_node_keeps_the_status_it_is_created_with(client: Client, namespace: str) -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    body = {"metadata": {"name": f"{namespace}-n"}, "status": {"conditions": conditions}}
    assert (await client.create(NODES, body)).ready == "True"


async def test_a_new_pod_is_pending_whatever_it_says(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p") | {"status": {"phase": "Running"}}, namespace=namespace)
    assert (pod.status or {})["phase"] == "Pending"


async def test_the_status_door_of_a_node_leaves_its_spec(client: Client, namespace: str) -> None:
    node = await client.create(NODES, {"metadata": {"name": f"{namespace}-n"}})
    ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    patch = Merge({"spec": {"unschedulable": True}, "status": {"conditions": [ready]}})
    changed = await client.patch(NODES.of(node), patch, subresource="status")
    assert changed.ready == "False"
    assert not changed.spec.unschedulable


async def test_the_main_door_of_a_node_leaves_its_status(client: Client, namespace: str) -> None:
    node = await client.create(NODES, {"metadata": {"name": f"{namespace}-n"}})
    ready = {"type": "Ready", "status": "True"}
    patch = Merge({"spec": {"unschedulable": True}, "status": {"conditions": [ready]}})
    changed = await client.patch(NODES.of(node), patch)
    assert changed.ready == "Unknown"
    assert changed.spec.unschedulable


async def test_a_scale_shows_wanted_and_present_replicas(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a", replicas=3), namespace=namespace)
    await client.patch(gadgets.of(item), Merge({"status": {"replicas": 2}}), subresource="status")
    scale = await raw(client, "GET", gadgets.of(item).path("scale"))
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 2)
    assert scale["metadata"]["name"] == "a"


async def test_scaling_changes_the_wanted_replicas(client: Client, namespace: str, gadgets: Gadgets) -> None:
    item = await client.create(gadgets, a_gadget("a", replicas=3), namespace=namespace)
    answer = await client.patch(gadgets.of(item), Merge({"spec": {"replicas": 5}}), subresource="scale")
    assert (answer.kind, answer.spec) == ("Scale", {"replicas": 5})
    found = await client.get(gadgets.of(item))
    assert found.spec == (item.spec or {}) | {"replicas": 5}
    assert found.metadata.generation == 2


async def test_a_deployment_is_scaled_by_the_same_door(client: Client, namespace: str) -> None:
    item = await client.create(DEPLOYMENTS, a_deployment("d", replicas=1), namespace=namespace)
    await client.patch(DEPLOYMENTS.of(item), Merge({"spec": {"replicas": 0}}), subresource="scale")
    found = await client.get(DEPLOYMENTS.of(item))
    assert (found.spec or {})["replicas"] == 0
    assert found.metadata.generation == 2
