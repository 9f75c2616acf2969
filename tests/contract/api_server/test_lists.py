"""Which objects a list holds: selectors of labels and fields, pages, and only metadata."""

import pytest

from defib.kube.client import Client, Merge, Scope
from defib.kube.errors import Gone, Invalid
from defib.kube.kinds import NODES, Kind, metadata_only
from defib.kube.transport import JSON
from defib.model.meta import Resource, Unstructured
from tests.contract.api_server.objects import CONFIG_MAPS, EVENTS, PODS, a_config_map, a_gadget, a_pod, pod_status
from tests.contract.api_server.servers import Server
from tests.contract.api_server.steps import delete, raw


@pytest.fixture
async def three(client: Client, namespace: str) -> Scope:
    """Config maps a (tier=web, n=1), b (tier=db, n=2) and c (no labels)."""
    for name, labels in (("a", {"tier": "web", "n": "1"}), ("b", {"tier": "db", "n": "2"}), ("c", {})):
        await client.create(CONFIG_MAPS, a_config_map(name, labels=labels), namespace=namespace)
    return Scope(namespace=namespace)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=web", "a"),
        ("tier==web", "a"),
        ("tier!=web", "bc"),
        ("tier in (web,db)", "ab"),
        ("tier in (web)", "a"),
        ("tier notin (web)", "bc"),
        ("tier", "ab"),
        ("!tier", "c"),
        ("tier=web,n=1", "a"),
        ("tier=web,n=2", ""),
        ("tier,n notin (1)", "b"),
        ("n>1", "b"),
        ("n<2", "a"),
        ("tier=", ""),
        ("", "abc"),
    ],
)
async def test_labels_select(client: Client, three: Scope, selector: str, names: str) -> None:
    page = await client.list_all(CONFIG_MAPS, Scope(namespace=three.namespace, labels=selector))
    assert "".join(item.name for item in page.items) == names


@pytest.mark.parametrize("selector", ["tier in web", "=x", "tier in (", "bad key=x", "tier=bad value!"])
async def test_a_label_selector_that_cannot_be_read_is_refused(client: Client, three: Scope, selector: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.list_all(CONFIG_MAPS, Scope(namespace=three.namespace, labels=selector))
    assert refused.value.status.code == 400


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "bc"),
        ("metadata.name!=a,metadata.name!=b", "c"),
        ("metadata.name=nobody", ""),
    ],
)
async def test_names_select(client: Client, three: Scope, selector: str, names: str) -> None:
    page = await client.list_all(CONFIG_MAPS, Scope(namespace=three.namespace, fields=selector))
    assert "".join(item.name for item in page.items) == names


async def test_labels_and_fields_must_both_fit(client: Client, three: Scope) -> None:
    scope = Scope(namespace=three.namespace, labels="tier", fields="metadata.name!=a")
    assert [item.name for item in (await client.list_all(CONFIG_MAPS, scope)).items] == ["b"]


async def test_a_namespace_selects_too(client: Client, three: Scope) -> None:
    scope = Scope(fields=f"metadata.namespace={three.namespace},metadata.name=a")
    assert [item.name for item in (await client.list_all(CONFIG_MAPS, scope)).items] == ["a"]


async def test_a_field_that_cannot_select_is_refused(client: Client, three: Scope) -> None:
    with pytest.raises(Invalid, match=r"data\.k") as refused:
        await client.list_all(CONFIG_MAPS, Scope(namespace=three.namespace, fields="data.k=v"))
    assert refused.value.status.code == 400


async def test_the_node_selects_pods(client: Client, namespace: str) -> None:
    for name, node in (("on-n1", f"{namespace}-n1"), ("on-n2", f"{namespace}-n2"), ("waiting", "")):
        await client.create(PODS, a_pod(name, node=node), namespace=namespace)

    async def names(fields: str) -> list[str]:
        return [pod.name for pod in (await client.list_all(PODS, Scope(namespace=namespace, fields=fields))).items]

    assert await names(f"spec.nodeName={namespace}-n1") == ["on-n1"]
    assert await names("spec.nodeName=") == ["waiting"]
    assert await names("spec.nodeName!=") == ["on-n1", "on-n2"]
    everywhere = await client.list_all(PODS, Scope(fields=f"spec.nodeName={namespace}-n2"))
    assert [pod.key for pod in everywhere.items] == [f"{namespace}/on-n2"]


async def test_the_phase_selects_pods(client: Client, namespace: str) -> None:
    for name in ("running", "done"):
        await client.create(PODS, a_pod(name, node="n"), namespace=namespace)
    await client.patch(PODS.at("done", namespace), Merge(pod_status("Succeeded", ready=False)), subresource="status")
    scope = Scope(namespace=namespace, fields="status.phase!=Succeeded")
    assert [pod.name for pod in (await client.list_all(PODS, scope)).items] == ["running"]


async def test_being_cordoned_selects_nodes(client: Client, namespace: str) -> None:
    await client.create(NODES, {"metadata": {"name": f"{namespace}-a"}, "spec": {"unschedulable": True}})
    await client.create(NODES, {"metadata": {"name": f"{namespace}-b"}})
    page = await client.list_all(NODES, Scope(fields="spec.unschedulable=true"))
    names = {node.name for node in page.items}
    assert f"{namespace}-a" in names
    assert f"{namespace}-b" not in names


async def test_what_an_event_is_about_selects_events(client: Client, namespace: str) -> None:
    for name in ("x", "y"):
        about = {"kind": "Pod", "name": name, "namespace": namespace}
        body = {"metadata": {"name": f"{name}.1"}, "involvedObject": about, "reason": "Tried", "type": "Normal"}
        await client.create(EVENTS, body, namespace=namespace)
    for fields in ("involvedObject.name=y", "involvedObject.kind=Pod,involvedObject.name=y,type=Normal,reason=Tried"):
        page = await client.list_all(EVENTS, Scope(namespace=namespace, fields=fields))
        assert [event.name for event in page.items] == ["y.1"]


async def test_only_name_and_namespace_select_custom_objects(
    client: Client, namespace: str, gadgets: Kind[Unstructured]
) -> None:
    for name in ("a", "b"):
        await client.create(gadgets, a_gadget(name), namespace=namespace)
    page = await client.list_all(gadgets, Scope(namespace=namespace, fields="metadata.name=b"))
    assert [item.name for item in page.items] == ["b"]
    with pytest.raises(Invalid, match="field label not supported"):
        await client.list_all(gadgets, Scope(namespace=namespace, fields="spec.size=1"))


async def test_pages_together_are_the_list_as_it_was_at_the_first(client: Client, namespace: str) -> None:
    for name in "abcde":
        await client.create(CONFIG_MAPS, a_config_map(name), namespace=namespace)
    path = CONFIG_MAPS.collection(namespace)
    first = await raw(client, "GET", path, limit="2")
    assert first["metadata"]["remainingItemCount"] == 3

    await client.create(CONFIG_MAPS, a_config_map("cc"), namespace=namespace)
    await delete(client, CONFIG_MAPS.at("d", namespace))
    await client.patch(CONFIG_MAPS.at("e", namespace), Merge({"data": {"changed": "later"}}))

    second = await raw(client, "GET", path, **{"limit": "2", "continue": first["metadata"]["continue"]})
    third = await raw(client, "GET", path, **{"limit": "2", "continue": second["metadata"]["continue"]})
    pages = (first, second, third)
    assert [[item["metadata"]["name"] for item in page["items"]] for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert "continue" not in third["metadata"]
    assert "data" not in third["items"][0]


async def test_pages_hold_only_what_was_selected(client: Client, namespace: str) -> None:
    for number in range(6):
        body = a_config_map(f"m{number}", labels={"odd": str(number % 2)})
        await client.create(CONFIG_MAPS, body, namespace=namespace)
    query = {"limit": "2", "labelSelector": "odd=1"}
    first = await raw(client, "GET", CONFIG_MAPS.collection(namespace), **query)
    rest = await raw(
        client, "GET", CONFIG_MAPS.collection(namespace), **query, **{"continue": first["metadata"]["continue"]}
    )
    names = [item["metadata"]["name"] for page in (first, rest) for item in page["items"]]
    assert names == ["m1", "m3", "m5"]


async def test_a_list_that_just_fills_its_page_has_no_more(client: Client, three: Scope) -> None:
    page = await raw(client, "GET", CONFIG_MAPS.collection(three.namespace), limit="3")
    assert "continue" not in page["metadata"]
    assert len(page["items"]) == 3


async def test_a_continue_token_that_is_none_is_refused(client: Client, three: Scope) -> None:
    with pytest.raises(Invalid, match="continue") as refused:
        await raw(client, "GET", CONFIG_MAPS.collection(three.namespace), **{"limit": "1", "continue": "nonsense"})
    assert refused.value.status.code == 400


async def test_a_continue_token_of_a_forgotten_list_is_gone(server: Server, namespace: str) -> None:
    client = server.client
    for name in "abc":
        await client.create(CONFIG_MAPS, a_config_map(name), namespace=namespace)
    path = CONFIG_MAPS.collection(namespace)
    first = await raw(client, "GET", path, limit="1")
    await client.create(CONFIG_MAPS, a_config_map("d"), namespace=namespace)
    await server.forget_history()
    with pytest.raises(Gone) as refused:
        await raw(client, "GET", path, **{"limit": "1", "continue": first["metadata"]["continue"]})
    assert refused.value.status.reason == "Expired"


async def test_a_list_from_version_zero_may_be_old_but_is_whole(client: Client, three: Scope) -> None:
    page = await raw(client, "GET", CONFIG_MAPS.collection(three.namespace), resourceVersion="0")
    assert int(page["metadata"]["resourceVersion"]) > 0


async def test_a_list_not_older_than_a_version_has_its_write(client: Client, namespace: str) -> None:
    item = await client.create(CONFIG_MAPS, a_config_map("a"), namespace=namespace)
    query = {"resourceVersion": item.metadata.resource_version, "resourceVersionMatch": "NotOlderThan"}
    page = await raw(client, "GET", CONFIG_MAPS.collection(namespace), **query)
    assert [found["metadata"]["name"] for found in page["items"]] == ["a"]


async def test_metadata_alone_can_be_read(client: Client, namespace: str) -> None:
    body = a_config_map("a", labels={"l": "1"}, k="v")
    created = await client.create(CONFIG_MAPS, body, namespace=namespace)
    slim = metadata_only(CONFIG_MAPS)
    found = await client.get(slim.at("a", namespace))
    assert type(found) is Resource
    assert found.metadata == created.metadata
    page = await client.list_all(slim, Scope(namespace=namespace, labels="l=1"))
    assert [item.metadata for item in page.items] == [created.metadata]


async def test_metadata_alone_is_really_all_that_is_sent(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, a_config_map("a", k="v"), namespace=namespace)
    accept = JSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    item = await raw(client, "GET", CONFIG_MAPS.at("a", namespace).path(), accept=accept)
    assert (item["kind"], item["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "data" not in item
    accept = JSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    page = await raw(client, "GET", CONFIG_MAPS.collection(namespace), accept=accept, limit="1")
    assert (page["kind"], page["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert "data" not in page["items"][0]
    assert page["metadata"]["resourceVersion"]
