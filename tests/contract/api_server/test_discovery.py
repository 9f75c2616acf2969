"""Finding kinds by group and name, and the documents that this rests on."""

import pytest

from defib.kube.client import Client
from defib.kube.discovery import Discovery
from defib.kube.errors import KubeError, UnknownKind
from tests.contract.api_server.objects import CRDS, gadget_crd, gadget_version
from tests.contract.api_server.steps import delete, eventually, install, raw


@pytest.fixture
def discovery(client: Client) -> Discovery:
    return Discovery(client)


@pytest.mark.parametrize(
    ("group", "name", "version", "plural", "namespaced"),
    [
        ("", "Node", "v1", "nodes", False),
        ("", "Pod", "v1", "pods", True),
        ("", "Namespace", "v1", "namespaces", False),
        ("", "Event", "v1", "events", True),
        ("apps", "Deployment", "v1", "deployments", True),
        ("apps", "StatefulSet", "v1", "statefulsets", True),
        ("policy", "PodDisruptionBudget", "v1", "poddisruptionbudgets", True),
        ("coordination.k8s.io", "Lease", "v1", "leases", True),
        ("storage.k8s.io", "VolumeAttachment", "v1", "volumeattachments", False),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "v1", "customresourcedefinitions", False),
    ],
)
async def test_built_in_kinds_are_found(
    discovery: Discovery, *, group: str, name: str, version: str, plural: str, namespaced: bool
) -> None:
    kind = await discovery.find(group, name)
    assert (kind.group, kind.version, kind.plural, kind.name) == (group, version, plural, name)
    assert kind.namespaced is namespaced


async def test_an_unknown_kind_says_what_to_do(discovery: Discovery) -> None:
    for group, kind, version in (("", "Gizmo", ""), ("apps", "Gizmo", ""), ("no.such.group", "Gizmo", "v1")):
        with pytest.raises(UnknownKind, match=r"no kind Gizmo in .*: is its CRD installed\?"):
            await discovery.find(group, kind, version)


async def test_a_version_that_is_not_served_is_unknown(discovery: Discovery) -> None:
    assert (await discovery.find("apps", "Deployment", "v1")).version == "v1"
    with pytest.raises(UnknownKind, match="version v9"):
        await discovery.find("apps", "Deployment", "v9")


async def test_a_kind_that_is_only_a_subresource_is_unknown(discovery: Discovery) -> None:
    for group, kind in (("", "Binding/x"), ("", "Eviction"), ("apps", "Scale")):
        with pytest.raises(UnknownKind):
            await discovery.find(group, kind)


async def test_a_crd_can_be_found_as_soon_as_it_is_served(client: Client, discovery: Discovery, namespace: str) -> None:
    group = f"{namespace}.example.com"
    with pytest.raises(UnknownKind):
        await discovery.find(group, "Gadget")
    installed = await install(client, gadget_crd(group))

    async def found() -> bool:
        try:
            return await discovery.find(group, "Gadget") == installed
        except UnknownKind:
            return False

    await eventually(found)


async def test_the_most_stable_version_is_preferred(client: Client, discovery: Discovery, namespace: str) -> None:
    group = f"{namespace}.example.com"
    versions = [gadget_version(name, storage=name == "v1alpha1") for name in ("v1alpha1", "v2beta1", "v1", "v1beta1")]
    await install(client, gadget_crd(group, *versions, scope="Cluster"))

    async def all_versions_are_told() -> bool:
        try:
            return len((await raw(client, "GET", f"/apis/{group}"))["versions"]) == 4
        except KubeError:
            return False

    await eventually(all_versions_are_told)
    kind = await discovery.find(group, "Gadget")
    assert (kind.version, kind.namespaced) == ("v1", False)
    assert (await discovery.find(group, "Gadget", "v2beta1")).version == "v2beta1"
    told = await raw(client, "GET", f"/apis/{group}")
    assert [one["version"] for one in told["versions"]] == ["v1", "v2beta1", "v1beta1", "v1alpha1"]


async def test_a_deleted_crd_is_unknown_again_once_it_is_forgotten(
    client: Client, discovery: Discovery, namespace: str
) -> None:
    group = f"{namespace}.example.com"
    kind = await install(client, gadget_crd(group))
    await eventually(lambda: knows(discovery, group))
    await delete(client, CRDS.at(f"gadgets.{group}"))
    assert await knows(discovery, group), "what was found is remembered"

    async def unknown() -> bool:
        discovery.forget(kind)
        return not await knows(discovery, group)

    await eventually(unknown)


async def knows(discovery: Discovery, group: str) -> bool:
    try:
        await discovery.find(group, "Gadget")
    except UnknownKind:
        return False
    return True


async def test_all_groups_are_told_in_one_list(client: Client) -> None:
    groups = await raw(client, "GET", "/apis")
    assert groups["kind"] == "APIGroupList"
    names = {group["name"] for group in groups["groups"]}
    assert {"apps", "policy", "coordination.k8s.io", "storage.k8s.io", "apiextensions.k8s.io"} <= names
    assert (await raw(client, "GET", "/api"))["versions"] == ["v1"]


async def test_a_kind_is_told_with_its_verbs_and_subresources(client: Client) -> None:
    told = await raw(client, "GET", "/api/v1")
    rows = {row["name"]: row for row in told["resources"]}
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(rows["nodes"]["verbs"])
    assert rows["nodes"]["shortNames"] == ["no"]
    assert rows["nodes"]["singularName"] == "node"
    assert (rows["pods/eviction"]["kind"], rows["pods/eviction"]["group"]) == ("Eviction", "policy")
    assert "nodes/status" in rows


async def test_a_custom_kind_is_told_with_its_short_names(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    await install(client, gadget_crd(group))

    async def told() -> bool:
        try:
            answer = await raw(client, "GET", f"/apis/{group}/v1")
        except KubeError:
            return False
        rows = {row["name"]: row for row in answer["resources"]}
        assert rows["gadgets"]["shortNames"] == ["gdg"]
        assert {"gadgets", "gadgets/status", "gadgets/scale"} == set(rows)
        return True

    await eventually(told)


async def test_the_server_says_its_version(client: Client) -> None:
    version = await raw(client, "GET", "/version")
    assert version["gitVersion"].startswith("v1.")
    assert (version["major"], version["minor"]) == tuple(version["gitVersion"].lstrip("v").split(".")[:2])
