"""What the operator tells of drains as numbers, on the embedded server in virtual time."""

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from defib.app import Operator
from defib.decide.drains.intent import UNSCHEDULABLE
from defib.kube.client import Deletion, Merge
from defib.kube.kinds import NODES, PODS, unstructured
from defib.model.node_drain import DRAIN_MARK, WATCH_MARK
from tests.scraping import scraped
from tests.unit.three_nodes import Cluster3, operating, play, seconds

POLICIES = unstructured("defib.dev", "v1alpha1", "drainpolicies", "DrainPolicy", namespaced=False)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
TIMES = {"timeout": "2m", "expectedDrainTime": "1m", "pdbForceDrainTimeout": "4m"}
NOTHING_IS_TOUCHED = dict.fromkeys(("delete", "finalizers", "stuck", "pdbDelete", "pdbFinalizers"), False)
FAILED = ("defib_drain_failed", "upgradeoperator_node_drain_timeout")


def metric(operator: Operator, name: str) -> dict[str, float]:
    """By the values of its labels."""
    families = text_string_to_metric_families(scraped(operator))
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {" ".join(sample.labels.values()): sample.value for sample in samples}


def at_work(stage: Cluster3) -> AbstractAsyncContextManager[Operator]:
    return operating(stage, default_check="off")


async def make_policy(stage: Cluster3, **spec: Any) -> None:
    await stage.admin.create(POLICIES, {"metadata": {"name": "all"}, "spec": TIMES | spec})


async def cordon(stage: Cluster3, mark: str = WATCH_MARK, node: str = "n1") -> None:
    """And then, as Kubernetes does, a taint is made of it."""
    added = f"{stage.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    taint = {"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": added}
    body = {"metadata": {"annotations": {mark: "true"}}, "spec": {"unschedulable": True, "taints": [taint]}}
    await stage.admin.patch(NODES.at(node), Merge(body))


async def uncordon(stage: Cluster3) -> None:
    await stage.admin.patch(NODES.at("n1"), Merge({"spec": {"unschedulable": None, "taints": None}}))


async def delete_node(stage: Cluster3) -> None:
    node = await stage.admin.get(NODES.at("n1"))
    await stage.admin.delete(NODES.at("n1"), Deletion(uid=node.uid))


async def have_node_deleted(stage: Cluster3) -> None:
    """Somebody holds it by a finalizer."""
    await stage.admin.patch(NODES.at("n1"), Merge({"metadata": {"finalizers": ["example.com/hold"]}}))
    await delete_node(stage)


async def take_mark_off(stage: Cluster3) -> None:
    """As an upgrade that has ended: the node is still cordoned, and nobody drains it."""
    await stage.admin.patch(NODES.at("n1"), Merge({"metadata": {"annotations": {WATCH_MARK: None}}}))


async def empty_node(stage: Cluster3) -> None:
    for name in ("web-1", "web-2", "db-0"):
        pod = await stage.admin.get(PODS.at(name, "default"))
        await stage.admin.delete(PODS.of(pod), Deletion(uid=pod.uid, grace_seconds=0))


@pytest.mark.parametrize("end", [uncordon, delete_node, have_node_deleted, take_mark_off, empty_node])
def test_dk_16_a_drain_that_has_failed_is_told_until_it_is_over_in_any_way(end: Any) -> None:
    async def scenario(stage: Cluster3) -> None:
        await make_policy(stage, strategies=NOTHING_IS_TOUCHED)
        async with at_work(stage) as operator:
            await seconds(5)
            await cordon(stage)
            await seconds(115)
            assert [metric(operator, name) for name in FAILED] == [{}, {}]
            assert metric(operator, "defib_drain_pods_left") == {"n1": 3}
            await seconds(10)
            assert [metric(operator, name) for name in FAILED] == [{"n1": 1}, {"n1": 1}]
            await end(stage)
            await seconds(5)
            assert [metric(operator, name) for name in FAILED] == [{}, {}]

    play(scenario)


def test_drains_are_counted_by_phase() -> None:
    async def scenario(stage: Cluster3) -> None:
        await make_policy(stage)
        async with at_work(stage) as operator:
            await seconds(5)
            assert set(metric(operator, "defib_drains").values()) == {0}
            await cordon(stage)
            await seconds(5)
            assert {phase for phase, count in metric(operator, "defib_drains").items() if count} == {"Watching"}
            assert metric(operator, "defib_drain_pods_left") == {"n1": 3}
            await uncordon(stage)
            await seconds(5)
            assert metric(operator, "defib_drain_pods_left") == {}
            counted = metric(operator, "defib_drains")
            assert {phase: count for phase, count in counted.items() if count} == {"Paused": 1}
            assert counted.keys() == {
                "Watching",
                "Observed",
                "WaitingForApproval",
                "Held",
                "Forcing",
                "Drained",
                "Paused",
            }
            await seconds(601)
            assert set(metric(operator, "defib_drains").values()) == {0}

    play(scenario)


def test_dk_29_the_estimate_counts_what_is_left_to_be_drained() -> None:
    """One node, that may take its four minutes for budgets and one more."""

    async def scenario(stage: Cluster3) -> None:
        await make_policy(stage, strategies=NOTHING_IS_TOUCHED)
        async with at_work(stage) as operator:
            await seconds(5)
            assert metric(operator, "defib_drain_estimate_seconds") == {"all": 0}
            await cordon(stage)
            await cordon(stage, node="n2")
            await seconds(5)
            assert metric(operator, "defib_drain_estimate_seconds") == {"all": 2 * 5 * 60}
            await empty_node(stage)
            await seconds(5)
            assert metric(operator, "defib_drain_estimate_seconds") == {"all": 5 * 60}
            policy = await stage.admin.get(POLICIES.at("all"))
            await stage.admin.delete(POLICIES.of(policy), Deletion(uid=policy.uid))
            await seconds(5)
            assert metric(operator, "defib_drain_estimate_seconds") == {}

    play(scenario)


def test_steps_are_counted_and_a_budget_that_has_its_way_is_no_failure() -> None:
    """Else everybody whose budget does its duty would be called by DefibActionsFail."""

    async def scenario(stage: Cluster3) -> None:
        await make_policy(stage)
        body = {"metadata": {"name": "db"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}}
        await stage.admin.create(BUDGETS, body, namespace="default")
        await stage.admin.patch(PODS.at("db-0", "default"), Merge({"metadata": {"labels": {"app": "db"}}}))
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await stage.admin.patch(PODS.at("db-0", "default"), Merge({"status": running}), subresource="status")
        async with at_work(stage) as operator:
            await seconds(5)
            await cordon(stage, DRAIN_MARK)
            await seconds(115)
            assert metric(operator, "defib_drain_steps_total") == {"done Evict": 2, "blocked Evict": 2}
            assert metric(operator, "defib_actions_failed_total") == {}
            await seconds(240)
            assert metric(operator, "defib_drain_steps_total")["done Delete"] == 1

    play(scenario)
