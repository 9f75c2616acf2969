"""Pods that are to leave and do not: what a second deletion, an eviction and the removal of a finalizer do to them.

Whoever forces a drain relies on each of these.
"""

from datetime import datetime, timedelta
from typing import Any

import pytest

from defib.kube.client import Client, Deletion, Evicted, JsonPatch, Merge
from defib.kube.errors import Conflict, Invalid, ServerFailed
from defib.model.meta import Unstructured
from tests.contract.api_server.objects import BUDGETS, PODS, a_budget, a_pod, pod_status
from tests.contract.api_server.steps import delete, is_gone, raw

HOLD, OTHER = "example.com/hold", "example.com/other"
LABELS = {"app": "web"}


async def a_leaving_pod(
    client: Client, namespace: str, *finalizers: str, told: int | None = 100, phase: str = "Running"
) -> Unstructured:
    """It has 30 seconds of its own; `told` is what its deletion said."""
    body = a_pod("p", node="n", labels=LABELS)
    body["metadata"]["finalizers"] = list(finalizers)
    pod = await client.create(PODS, body, namespace=namespace)
    await client.patch(PODS.of(pod), Merge(pod_status(phase, ready=False)), subresource="status")
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=told))
    return await client.get(PODS.of(pod))


async def shown(client: Client, pod: Unstructured) -> Any:
    return await raw(client, "GET", PODS.of(pod).path())


def ends_at(whole: Any) -> datetime:
    return datetime.fromisoformat(whole["metadata"]["deletionTimestamp"])


def without(pod: Unstructured, *kept: str, uid: str = "", version: str = "") -> JsonPatch:
    """As a drain takes finalizers away."""
    return JsonPatch(
        [
            {"op": "test", "path": "/metadata/uid", "value": uid or pod.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": version or pod.metadata.resource_version},
            {"op": "replace", "path": "/metadata/finalizers", "value": list(kept)},
        ]
    )


async def test_a_shorter_grace_counts_from_when_it_was_told_to_go(client: Client, namespace: str) -> None:
    pod = await a_leaving_pod(client, namespace, told=100)
    before = await shown(client, pod)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=1))
    after = await shown(client, pod)
    assert after["metadata"]["deletionGracePeriodSeconds"] == 1
    assert ends_at(before) - ends_at(after) == timedelta(seconds=99)


async def test_told_to_go_within_a_second_it_waits_for_its_kubelet(client: Client, namespace: str) -> None:
    pod = await a_leaving_pod(client, namespace)
    how = Deletion(uid=pod.uid, grace_seconds=1)
    await client.delete(PODS.of(pod), how)
    killed = await shown(client, pod)
    await client.delete(PODS.of(pod), how)
    assert await shown(client, pod) == killed, "once is enough"


async def test_a_deletion_that_says_no_grace_changes_nothing_for_one_that_is_leaving(
    client: Client, namespace: str
) -> None:
    pod = await a_leaving_pod(client, namespace, told=100)
    before = await shown(client, pod)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    assert await shown(client, pod) == before


async def test_one_that_ends_while_it_is_leaving_waits_for_its_kubelet_all_the_same(
    client: Client, namespace: str
) -> None:
    pod = await a_leaving_pod(client, namespace)
    await client.patch(PODS.of(pod), Merge(pod_status("Failed", ready=False)), subresource="status")
    before = await shown(client, pod)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    assert await shown(client, pod) == before
    await delete(client, PODS.of(pod), grace_seconds=0)
    assert await is_gone(client, PODS.of(pod))


async def test_force_leaves_one_that_is_held_with_no_grace_and_its_last_finalizer_ends_it(
    client: Client, namespace: str
) -> None:
    pod = await a_leaving_pod(client, namespace, HOLD, told=100)
    before = await shown(client, pod)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
    forced = await client.get(PODS.of(pod))
    assert forced.metadata.deletion_grace_period_seconds == 0
    assert forced.metadata.finalizers == [HOLD]
    assert ends_at(before) - ends_at(await shown(client, pod)) == timedelta(seconds=100)
    await client.patch(PODS.of(pod), without(forced))
    assert await is_gone(client, PODS.of(pod))


async def test_one_that_never_ran_and_is_held_is_marked_with_no_grace(client: Client, namespace: str) -> None:
    body = a_pod("p")
    body["metadata"]["finalizers"] = [HOLD]
    pod = await client.create(PODS, body, namespace=namespace)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    marked = await client.get(PODS.of(pod))
    assert marked.metadata.deletion_grace_period_seconds == 0
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))
    assert await client.get(PODS.of(pod)) == marked


async def test_some_finalizers_can_go_and_others_stay(client: Client, namespace: str) -> None:
    pod = await a_leaving_pod(client, namespace, HOLD, OTHER, told=0)
    after = await client.patch(PODS.of(pod), without(pod, OTHER))
    assert after.metadata.finalizers == [OTHER]
    await client.patch(PODS.of(pod), without(after))
    assert await is_gone(client, PODS.of(pod))


@pytest.mark.parametrize("tested", [{"uid": "another"}, {"version": "1"}], ids=["another pod", "another version"])
async def test_finalizers_stay_when_a_test_fails_and_that_has_no_cause(
    client: Client, namespace: str, tested: dict[str, str]
) -> None:
    pod = await a_leaving_pod(client, namespace, HOLD)
    with pytest.raises(Invalid) as refused:
        await client.patch(PODS.of(pod), without(pod, **tested))
    assert (refused.value.status.code, refused.value.status.causes) == (422, [])
    assert await client.get(PODS.of(pod)) == pod


async def test_a_finalizer_that_comes_while_it_is_leaving_is_refused_with_a_cause(
    client: Client, namespace: str
) -> None:
    pod = await a_leaving_pod(client, namespace, HOLD)
    with pytest.raises(Invalid) as refused:
        await client.patch(PODS.of(pod), without(pod, HOLD, OTHER))
    assert refused.value.status.causes != []


async def test_an_eviction_does_not_move_the_end_of_one_that_is_leaving(client: Client, namespace: str) -> None:
    pod = await a_leaving_pod(client, namespace, told=100)
    before = await shown(client, pod)
    assert await client.evict(PODS.of(pod), Deletion(uid=pod.uid)) == Evicted()
    after = await shown(client, pod)
    assert after["metadata"]["deletionGracePeriodSeconds"] == 100
    assert ends_at(after) == ends_at(before)


async def test_one_that_is_leaving_is_marked_as_disrupted_by_an_eviction_once(client: Client, namespace: str) -> None:
    pod = await a_leaving_pod(client, namespace)
    await client.evict(PODS.of(pod), Deletion(uid=pod.uid))
    marked = await shown(client, pod)
    assert "DisruptionTarget" in [one["type"] for one in marked["status"]["conditions"]]
    await client.evict(PODS.of(pod), Deletion(uid=pod.uid))
    assert await shown(client, pod) == marked


async def test_one_that_is_leaving_passes_two_budgets(client: Client, namespace: str) -> None:
    pod = await a_leaving_pod(client, namespace)
    for name in ("first", "second"):
        await client.create(BUDGETS, a_budget(name, LABELS), namespace=namespace)
    assert await client.evict(PODS.of(pod), Deletion(uid=pod.uid)) == Evicted()


async def test_two_budgets_are_known_by_nothing_but_their_words(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n", labels=LABELS), namespace=namespace)
    await client.patch(PODS.of(pod), Merge(pod_status("Running", ready=True)), subresource="status")
    for name in ("first", "second"):
        await client.create(BUDGETS, a_budget(name, LABELS), namespace=namespace)
    with pytest.raises(ServerFailed) as refused:
        await client.evict(PODS.of(pod), Deletion(uid=pod.uid))
    status = refused.value.status
    assert "more than one PodDisruptionBudget" in status.message
    assert (status.reason, status.causes) == ("", [])


async def test_an_evicted_pod_that_is_held_stays_until_it_is_let_go(client: Client, namespace: str) -> None:
    body = a_pod("p", node="n")
    body["metadata"]["finalizers"] = [HOLD]
    pod = await client.create(PODS, body, namespace=namespace)
    await client.patch(PODS.of(pod), Merge(pod_status("Running", ready=True)), subresource="status")
    assert await client.evict(PODS.of(pod), Deletion(uid=pod.uid)) == Evicted()
    leaving = await client.get(PODS.of(pod))
    assert leaving.metadata.deletion_grace_period_seconds == 30
    await client.patch(PODS.of(pod), without(leaving))
    assert not await is_gone(client, PODS.of(pod)), "its kubelet still has to say that it has ended"


@pytest.mark.parametrize("grace", [None, 1, 0])
async def test_a_namesake_is_neither_evicted_nor_deleted_nor_marked(
    client: Client, namespace: str, grace: int | None
) -> None:
    old = await a_leaving_pod(client, namespace)
    await delete(client, PODS.of(old), grace_seconds=0)
    new = await client.create(PODS, a_pod("p", node="n", labels=LABELS), namespace=namespace)
    before = await client.patch(PODS.of(new), Merge(pod_status("Running", ready=True)), subresource="status")
    with pytest.raises(Conflict):
        await client.evict(PODS.of(old), Deletion(uid=old.uid, grace_seconds=grace))
    with pytest.raises(Conflict):
        await client.delete(PODS.of(old), Deletion(uid=old.uid, grace_seconds=grace))
    assert await client.get(PODS.of(new)) == before
