"""Drains by kured and by the system-upgrade-controller, and since when."""

import json
from typing import Any

import pytest

from defib.decide.drains.intent import Intent
from defib.decide.drains.intents.kured import DAEMON_SETS
from defib.decide.drains.intents.system_upgrade_controller import JOBS, NODE, PLAN, PLANS
from defib.model.drain_policy import Source
from defib.model.meta import Unstructured
from tests.builders import HOUR, MINUTE, T0
from tests.unit.decide.drains.intents.scene import a_draining_node, an_object, find, rfc3339

# --- kured ---

REBOOTS = ("weave.works/kured-reboot-in-progress", "kured.dev/kured-reboot-in-progress")
LOCK = "weave.works/kured-node-lock"


def a_lock(node: str, ttl: int = 0) -> dict[str, object]:
    return {"nodeID": node, "metadata": {}, "created": rfc3339(T0 - MINUTE), "TTL": ttl}


def locked(value: object, name: str = "kured") -> dict[Any, tuple[Unstructured, ...]]:
    text = value if isinstance(value, str) else json.dumps(value)
    return {DAEMON_SETS: (an_object(name, "kube-system", annotations={LOCK: text}),)}


@pytest.mark.parametrize("annotation", REBOOTS)
def test_dk_24_a_cordoned_node_that_kured_reboots_is_drained_since_kured_says_so(annotation: str) -> None:
    assert find(a_draining_node("a", {annotation: rfc3339(T0 - HOUR)})) == Intent(
        source=Source.KURED, why="kured is rebooting the node", started_at=T0 - HOUR
    )


def test_dk_24_without_annotations_on_nodes_the_lock_of_kured_names_the_node() -> None:
    found = Intent(source=Source.KURED, why="kured has locked the node to reboot it", started_at=T0 - MINUTE)
    assert find(a_draining_node("a"), locked(a_lock("a"))) == found
    several = {"maxOwners": 2, "locks": [a_lock("b"), a_lock("a")]}
    assert find(a_draining_node("a"), locked(several)) == found


def test_kured_drains_nothing_that_is_not_cordoned() -> None:
    assert find(a_draining_node("a", {REBOOTS[0]: rfc3339(T0)}, taints=()), locked(a_lock("a"))) is None


@pytest.mark.parametrize("text", ["", "true", "yesterday", "2030-01-01T00:00:00", "0001-01-01T00:00:00Z"])
def test_an_annotation_that_is_no_time_is_not_kureds(text: str) -> None:
    assert find(a_draining_node("a", {REBOOTS[0]: text})) is None


@pytest.mark.parametrize("value", [a_lock("b"), a_lock("a", ttl=10**12), "", "{", "[]", {"nodeID": 7}, "[" * 9000])
def test_the_lock_of_another_node_or_one_that_ends_by_itself_or_garbage_is_no_drain(value: object) -> None:
    assert find(a_draining_node("a"), locked(value)) is None


def test_the_lock_of_another_daemon_set_is_no_drain() -> None:
    assert find(a_draining_node("a"), locked(a_lock("a"), name="another")) is None


# --- system-upgrade-controller ---


def a_plan(*applying: object, spec: Any = None, **status: Any) -> Unstructured:
    return an_object(
        "server",
        "system-upgrade",
        spec={"drain": {"timeout": "30m", "force": True}} if spec is None else spec,
        status={"applying": list(applying), "latestVersion": "v1.31.4-k3s1", **status},
    )


def a_job(
    name: str,
    start: object,
    *,
    ended: str = "",
    namespace: str = "system-upgrade",
    node: str = "a",
    plan: str = "server",
) -> Unstructured:
    conditions = [{"type": ended, "status": "True"}] if ended else []
    return an_object(
        name, namespace, labels={NODE: node, PLAN: plan}, status={"startTime": start, "conditions": conditions}
    )


def applying(*jobs: Unstructured, plan: Unstructured | None = None) -> dict[Any, tuple[Unstructured, ...]]:
    return {PLANS: (plan or a_plan("a"),), JOBS: jobs}


def test_dk_24_a_cordoned_node_that_a_plan_is_applied_to_is_drained_since_its_job_began() -> None:
    assert find(a_draining_node("a"), applying(a_job("j", rfc3339(T0 - HOUR)))) == Intent(
        source=Source.SYSTEM_UPGRADE_CONTROLLER,
        why="system-upgrade-controller is applying Plan system-upgrade/server (v1.31.4-k3s1) to the node",
        started_at=T0 - HOUR,
        upgrade="v1.31.4-k3s1",
    )


def test_the_newest_job_that_has_not_ended_tells_when_the_drain_began() -> None:
    jobs = (
        a_job("first", rfc3339(T0 - 3 * HOUR)),
        a_job("second", rfc3339(T0 - 2 * HOUR)),
        a_job("done", rfc3339(T0 - MINUTE), ended="Complete"),
        a_job("failed", rfc3339(T0 - MINUTE), ended="Failed"),
        a_job("of-another-node", rfc3339(T0 - MINUTE), node="b"),
        a_job("of-another-plan", rfc3339(T0 - MINUTE), plan="agent"),
        a_job("elsewhere", rfc3339(T0 - MINUTE), namespace="default"),
        a_job("garbled", ["soon"]),
    )
    found = find(a_draining_node("a"), applying(*jobs))
    assert found is not None
    assert found.started_at == T0 - 2 * HOUR


def test_without_a_job_in_sight_it_is_a_drain_that_does_not_say_when_it_began() -> None:
    for objects in (applying(), {PLANS: (a_plan("a"),)}):
        found = find(a_draining_node("a"), objects)
        assert found is not None
        assert found.started_at is None


def test_a_plan_may_name_a_node_by_its_hostname() -> None:
    node = a_draining_node("a", labels={"kubernetes.io/hostname": "host-a"})
    assert find(node, applying(plan=a_plan("host-a"))) is not None


def test_its_timeout_is_no_deadline_because_it_then_gives_up_and_forces_nothing() -> None:
    found = find(a_draining_node("a"), applying(a_job("j", rfc3339(T0 - HOUR))))
    assert found is not None
    assert found.deadline is None


@pytest.mark.parametrize("spec", [{}, {"cordon": True}, {"drain": None}, {"drain": "yes"}])
def test_a_plan_that_only_cordons_drains_nothing(spec: dict[str, Any]) -> None:
    assert find(a_draining_node("a"), applying(plan=a_plan("a", spec=spec))) is None


def test_a_plan_drains_no_other_node_none_that_is_open_and_none_when_it_is_complete() -> None:
    complete = [{"type": "Complete", "status": "True"}]
    assert find(a_draining_node("b"), applying()) is None
    assert find(a_draining_node("a", taints=()), applying()) is None
    assert find(a_draining_node("a"), applying(plan=a_plan("a", conditions=complete))) is None
    assert find(a_draining_node("a"), applying(plan=a_plan(applying="a"))) is None
    assert find(a_draining_node("a"), applying(plan=a_plan(["a"], {"a": 1}, None))) is None
