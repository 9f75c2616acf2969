"""Nodes and their heartbeats: what is written when a node is cordoned, tainted, or reports."""

import asyncio
from datetime import UTC, datetime

import pytest

from defib.kube.client import Client, JsonPatch, Merge
from defib.kube.errors import AlreadyExists, Conflict, Invalid
from defib.kube.kinds import LEASES, NODES
from defib.model.node import Lease, Node
from tests.contract.api_server.objects import Body
from tests.contract.api_server.steps import STRATEGIC_MERGE_PATCH, raw

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
MICROSECOND = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
async def node(client: Client, namespace: str) -> Node:
    """With one taint, Ready, and a boot ID."""
    status = {
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": "True", "reason": "KubeletReady"},
        ],
    }
    body = {
        "metadata": {"name": f"{namespace}-n"},
        "spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]},
        "status": status,
    }
    return await client.create(NODES, body)


def taint_keys(node: Node) -> set[str]:
    """Without the one that the server adds to a new node until its controllers say that it is ready."""
    return {taint.key for taint in node.spec.taints or ()} - {"node.kubernetes.io/not-ready"}


async def strategic(client: Client, node: Node, body: Body, subresource: str = "") -> Node:
    path = NODES.of(node).path(subresource)
    await raw(client, "PATCH", path, body, content_type=STRATEGIC_MERGE_PATCH)
    return await client.get(NODES.of(node))


async def test_a_node_is_cordoned_and_uncordoned(client: Client, node: Node) -> None:
    cordoned = await client.patch(NODES.of(node), Merge({"spec": {"unschedulable": True}}))
    assert cordoned.spec.unschedulable
    free = await client.patch(NODES.of(node), Merge({"spec": {"unschedulable": None}}))
    assert not free.spec.unschedulable
    assert taint_keys(free) == {"dedicated"}


async def test_kubectls_cordon_patch_is_understood(client: Client, node: Node) -> None:
    assert (await strategic(client, node, {"spec": {"unschedulable": True}})).spec.unschedulable


async def test_even_a_strategic_patch_replaces_all_taints(client: Client, node: Node) -> None:
    tainted = await strategic(client, node, {"spec": {"taints": [OUT_OF_SERVICE]}})
    assert [taint.key for taint in tainted.spec.taints or ()] == [OUT_OF_SERVICE["key"]]


async def test_kubectls_taint_patch_changes_nothing_when_somebody_was_faster(client: Client, node: Node) -> None:
    await client.patch(NODES.of(node), Merge({"metadata": {"labels": {"faster": "yes"}}}))
    stale = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": [OUT_OF_SERVICE]}}
    with pytest.raises(Conflict, match="the object has been modified"):
        await strategic(client, node, stale)
    assert taint_keys(await client.get(NODES.of(node))) == {"dedicated"}


async def test_a_json_patch_can_take_away_exactly_the_taint_it_saw(client: Client, node: Node) -> None:
    taints = node.spec.taints or []
    index = [taint.key for taint in taints].index("dedicated")
    patch = JsonPatch(
        [
            {"op": "test", "path": f"/spec/taints/{index}/key", "value": "dedicated"},
            {"op": "remove", "path": f"/spec/taints/{index}"},
        ]
    )
    assert taint_keys(await client.patch(NODES.of(node), patch)) == set()
    with pytest.raises(Invalid):
        await client.patch(NODES.of(node), patch)


async def test_a_merge_patch_replaces_all_taints(client: Client, node: Node) -> None:
    patched = await client.patch(NODES.of(node), Merge({"spec": {"taints": [OUT_OF_SERVICE]}}))
    assert [taint.key for taint in patched.spec.taints or ()] == [OUT_OF_SERVICE["key"]]


async def test_the_time_of_a_taint_is_kept(client: Client, node: Node) -> None:
    taint = OUT_OF_SERVICE | {"timeAdded": "2030-01-02T03:04:05Z"}
    patched = await client.patch(NODES.of(node), Merge({"spec": {"taints": [taint]}}))
    assert [taint.time_added for taint in patched.spec.taints or ()] == [datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)]


@pytest.mark.parametrize(
    "taints",
    [
        [OUT_OF_SERVICE, OUT_OF_SERVICE],
        [{"key": "k", "effect": "Sometimes"}],
        [{"key": "bad key", "effect": "NoSchedule"}],
        [{"key": "k"}],
    ],
)
async def test_a_wrong_taint_is_refused_with_the_field_named(client: Client, node: Node, taints: list[Body]) -> None:
    with pytest.raises(Invalid, match=r"metadata\.taints|spec\.taints"):
        await client.patch(NODES.of(node), Merge({"spec": {"taints": taints}}))


async def test_a_strategic_patch_of_conditions_merges_by_type(client: Client, node: Node) -> None:
    down = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    patched = await strategic(client, node, {"status": {"conditions": [down]}}, "status")
    assert patched.ready == "Unknown"
    assert {condition.type for condition in patched.status.conditions or ()} == {"MemoryPressure", "Ready"}


async def test_an_annotation_of_a_node_is_written_beside_the_others(client: Client, node: Node) -> None:
    await client.patch(NODES.of(node), Merge({"metadata": {"annotations": {"example.com/a": "1"}}}))
    patched = await client.patch(NODES.of(node), Merge({"metadata": {"annotations": {"example.com/b": "2"}}}))
    assert {"example.com/a": "1", "example.com/b": "2"}.items() <= patched.annotations.items()


async def a_lease(client: Client, namespace: str) -> Lease:
    spec = {
        "holderIdentity": "n",
        "leaseDurationSeconds": 40,
        "renewTime": "2030-01-02T03:04:05.678901Z",
        "acquireTime": "2030-01-02T03:04:05.000000Z",
        "leaseTransitions": 0,
    }
    return await client.create(LEASES, {"metadata": {"name": "l"}, "spec": spec}, namespace=namespace)


async def test_a_lease_keeps_microseconds(client: Client, namespace: str) -> None:
    lease = await a_lease(client, namespace)
    assert lease.spec.renew_time == MICROSECOND
    whole = await raw(client, "GET", LEASES.of(lease).path())
    assert whole["spec"]["renewTime"] == "2030-01-02T03:04:05.678901Z"
    assert whole["spec"]["acquireTime"] == "2030-01-02T03:04:05.000000Z"
    assert whole["spec"]["leaseTransitions"] == 0


async def test_a_lease_that_lasts_no_time_is_refused(client: Client, namespace: str) -> None:
    lease = await a_lease(client, namespace)
    with pytest.raises(Invalid, match=r"spec\.leaseDurationSeconds"):
        await client.patch(LEASES.of(lease), Merge({"spec": {"leaseDurationSeconds": 0}}))


@pytest.mark.parametrize("time", ["yesterday", "2030-01-02T03:04:05Z", "2030-01-02T03:04:05.678Z"])
async def test_a_leases_time_needs_all_six_digits(client: Client, namespace: str, time: str) -> None:
    lease = await a_lease(client, namespace)
    with pytest.raises(Invalid):
        await client.patch(LEASES.of(lease), Merge({"spec": {"renewTime": time}}))


async def test_of_two_who_create_a_lease_one_wins(client: Client, namespace: str) -> None:
    lost: list[str] = []

    async def acquire(name: str) -> None:
        body = {"metadata": {"name": "lock"}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 10}}
        try:
            await client.create(LEASES, body, namespace=namespace)
        except AlreadyExists:
            lost.append(name)

    async with asyncio.TaskGroup() as rivals:
        rivals.create_task(acquire("one"))
        rivals.create_task(acquire("two"))
    holder = (await client.get(LEASES.at("lock", namespace))).spec.holder_identity or ""
    assert sorted([*lost, holder]) == ["one", "two"]


async def test_of_two_who_take_over_a_lease_one_wins(client: Client, namespace: str) -> None:
    lease = await a_lease(client, namespace)
    lost: list[str] = []

    async def take_over(name: str) -> None:
        version = lease.metadata.resource_version
        patch = Merge({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": name}})
        try:
            await client.patch(LEASES.of(lease), patch)
        except Conflict:
            lost.append(name)

    async with asyncio.TaskGroup() as rivals:
        rivals.create_task(take_over("one"))
        rivals.create_task(take_over("two"))
    holder = (await client.get(LEASES.of(lease))).spec.holder_identity or ""
    assert sorted([*lost, holder]) == ["one", "two"]


async def test_a_lease_can_be_released(client: Client, namespace: str) -> None:
    lease = await a_lease(client, namespace)
    released = await client.patch(LEASES.of(lease), Merge({"spec": {"holderIdentity": ""}}))
    assert released.spec.holder_identity == ""
    assert released.spec.renew_time == MICROSECOND
