"""Eviction: a pod is asked to leave, and disruption budgets may say no.

The budgets' status is written here by hand, as the disruption controller would: eviction reads nothing else of them.
"""

import pytest

from defib.kube.client import Blocked, Client, Deletion, Evicted, Merge
from defib.kube.errors import Conflict, Invalid, NotFound, ServerFailed
from defib.model.meta import Unstructured
from tests.contract.api_server.objects import BUDGETS, PODS, a_budget, a_pod, pod_status
from tests.contract.api_server.steps import is_gone, raw

LABELS = {"app": "web"}


async def a_running_pod(client: Client, namespace: str, name: str = "p", *, ready: bool = True) -> Unstructured:
    pod = await client.create(PODS, a_pod(name, node="n", labels=LABELS), namespace=namespace)
    return await client.patch(PODS.of(pod), Merge(pod_status("Running", ready=ready)), subresource="status")


async def a_judged_budget(
    client: Client, namespace: str, *, allowed: int, healthy: int = 1, unhealthy_policy: str = ""
) -> Unstructured:
    """A budget that wants one healthy pod, judged by its controller."""
    body = a_budget("guard", LABELS, unhealthy_policy=unhealthy_policy)
    budget = await client.create(BUDGETS, body, namespace=namespace)
    status = {
        "observedGeneration": budget.metadata.generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": 1,
        "expectedPods": healthy,
    }
    return await client.patch(BUDGETS.of(budget), Merge({"status": status}), subresource="status")


async def evict(client: Client, pod: Unstructured, **how: int) -> Evicted | Blocked:
    return await client.evict(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=how.get("grace_seconds")))


async def test_a_pod_without_budget_is_evicted(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    assert await evict(client, pod) == Evicted()
    assert (await client.get(PODS.of(pod))).metadata.deletion_timestamp is not None


async def test_an_evicted_pod_says_why_it_goes(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    await evict(client, pod)
    conditions = ((await client.get(PODS.of(pod))).status or {})["conditions"]
    target = next(condition for condition in conditions if condition["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")


async def test_an_eviction_may_bring_its_own_grace(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    await evict(client, pod, grace_seconds=7)
    marked = await raw(client, "GET", PODS.of(pod).path())
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_a_waiting_pod_is_gone_at_once(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", labels=LABELS), namespace=namespace)
    assert await evict(client, pod) == Evicted()
    assert await is_gone(client, PODS.of(pod))


async def test_a_spent_budget_blocks_and_is_named(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    await a_judged_budget(client, namespace, allowed=0)
    answer = await evict(client, pod)
    assert isinstance(answer, Blocked)
    assert "The disruption budget guard needs 1 healthy pods and has 1 currently" in answer.why
    assert (await client.get(PODS.of(pod))).metadata.deletion_timestamp is None


async def test_an_allowed_eviction_is_charged_to_the_budget(client: Client, namespace: str) -> None:
    first, second = [await a_running_pod(client, namespace, name) for name in ("p", "q")]
    budget = await a_judged_budget(client, namespace, allowed=1, healthy=2)
    assert await evict(client, first) == Evicted()
    status = (await client.get(BUDGETS.of(budget))).status or {}
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["p"]
    assert isinstance(await evict(client, second), Blocked)


async def test_a_pod_that_is_already_leaving_is_not_charged(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    budget = await a_judged_budget(client, namespace, allowed=1)
    await client.delete(PODS.of(pod), Deletion(uid=pod.uid))
    assert await evict(client, pod) == Evicted()
    assert ((await client.get(BUDGETS.of(budget))).status or {})["disruptionsAllowed"] == 1


async def test_a_budget_for_other_pods_does_not_block(client: Client, namespace: str) -> None:
    pod = await client.create(PODS, a_pod("p", node="n", labels={"app": "other"}), namespace=namespace)
    await client.patch(PODS.of(pod), Merge(pod_status("Running", ready=True)), subresource="status")
    await a_judged_budget(client, namespace, allowed=0)
    assert await evict(client, pod) == Evicted()


async def test_a_budget_that_was_not_judged_yet_blocks(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    await client.create(BUDGETS, a_budget("guard", LABELS), namespace=namespace)
    answer = await evict(client, pod)
    assert isinstance(answer, Blocked)
    assert "guard is still being processed" in answer.why


async def test_two_budgets_for_one_pod_are_an_error(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    await a_judged_budget(client, namespace, allowed=1)
    await client.create(BUDGETS, a_budget("second", LABELS), namespace=namespace)
    with pytest.raises(ServerFailed, match="more than one PodDisruptionBudget") as refused:
        await evict(client, pod)
    assert refused.value.status.code == 500


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
async def test_a_pod_that_serves_nobody_passes_a_spent_budget(client: Client, namespace: str, phase: str) -> None:
    pod = await a_running_pod(client, namespace)
    await a_judged_budget(client, namespace, allowed=0)
    await client.patch(PODS.of(pod), Merge(pod_status(phase, ready=False)), subresource="status")
    assert await evict(client, pod) == Evicted()


async def test_an_unready_pod_passes_when_the_budgets_need_is_met(client: Client, namespace: str) -> None:
    unready = await a_running_pod(client, namespace, ready=False)
    await a_judged_budget(client, namespace, allowed=0, healthy=1)
    assert await evict(client, unready) == Evicted()


async def test_an_unready_pod_is_blocked_when_the_budgets_need_is_not_met(client: Client, namespace: str) -> None:
    unready = await a_running_pod(client, namespace, ready=False)
    await a_judged_budget(client, namespace, allowed=0, healthy=0, unhealthy_policy="IfHealthyBudget")
    assert isinstance(await evict(client, unready), Blocked)


async def test_an_unready_pod_always_passes_a_budget_that_says_so(client: Client, namespace: str) -> None:
    unready = await a_running_pod(client, namespace, ready=False)
    await a_judged_budget(client, namespace, allowed=0, healthy=0, unhealthy_policy="AlwaysAllow")
    assert await evict(client, unready) == Evicted()


async def test_a_ready_pod_is_blocked_whatever_is_said_of_unready_ones(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    await a_judged_budget(client, namespace, allowed=0, unhealthy_policy="AlwaysAllow")
    assert isinstance(await evict(client, pod), Blocked)


async def test_evicting_what_is_not_there_is_not_found(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound, match='pods "nobody" not found'):
        await client.evict(PODS.at("nobody", namespace), Deletion(uid="u"))


async def test_another_incarnation_is_not_evicted(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    with pytest.raises(Conflict, match="UID in the precondition"):
        await client.evict(PODS.of(pod), Deletion(uid="another"))
    assert (await client.get(PODS.of(pod))).metadata.deletion_timestamp is None


async def test_an_eviction_that_missed_is_charged_all_the_same(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    budget = await a_judged_budget(client, namespace, allowed=1)
    with pytest.raises(Conflict):
        await client.evict(PODS.of(pod), Deletion(uid="another"))
    assert ((await client.get(BUDGETS.of(budget))).status or {})["disruptionsAllowed"] == 0


async def test_an_eviction_must_name_the_pod_of_its_path(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other", "namespace": namespace}}
    with pytest.raises(Invalid, match="name in URL does not match name in Eviction object"):
        await raw(client, "POST", PODS.of(pod).path("eviction"), body)


async def test_an_eviction_is_answered_with_success(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}}
    answer = await raw(client, "POST", PODS.of(pod).path("eviction"), body)
    assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Success", 201)


async def test_a_dry_run_of_an_eviction_moves_nobody(client: Client, namespace: str) -> None:
    pod = await a_running_pod(client, namespace)
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": namespace},
        "deleteOptions": {"dryRun": ["All"]},
    }
    await raw(client, "POST", PODS.of(pod).path("eviction"), body)
    assert (await client.get(PODS.of(pod))).metadata.deletion_timestamp is None
