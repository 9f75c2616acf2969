"""When a machine is unhealthy, and when it is worth looking at it again (RM-30)."""

from typing import Any

import pytest

from defib.decide.fencing.machines import Machine
from defib.decide.machine_health.reading import MachineCheck, read_machine_check
from defib.decide.machine_health.verdicts import Verdict, judge
from defib.model.meta import Unstructured
from defib.model.node import Node, NodeSpec
from tests.builders import HOUR, SECOND, T0, a_node
from tests.unit.decide.machine_health.wards import (
    CAPI_CHECK,
    CAPI_MACHINE,
    FIVE_MINUTES,
    MACHINE,
    TEN_MINUTES,
    a_check,
    a_machine,
    an_item,
    ill,
    stamp,
)

CHECK = a_check()


def verdict_of(machine: Unstructured, *nodes: Node, check: MachineCheck = CHECK) -> Verdict:
    kind = CAPI_MACHINE if check.is_of_cluster_api else MACHINE
    return judge(Machine(kind, machine), check, {node.name: node for node in nodes}, T0)


def updated(ago: Any) -> dict[str, Any]:
    return {"status": {"lastUpdated": stamp(T0 - ago)}}


def test_a_machine_whose_node_is_ready_is_healthy() -> None:
    verdict = verdict_of(a_machine("m1"), a_node("n1"))
    assert verdict.is_healthy
    assert not verdict.is_unhealthy


def test_a_machine_that_failed_is_unhealthy_at_once_even_with_a_good_node() -> None:
    assert verdict_of(a_machine("m1", phase="Failed"), a_node("n1")).why == "its phase is Failed"


def test_a_machine_whose_node_is_gone_is_unhealthy_at_once() -> None:
    assert verdict_of(a_machine("m1")).why == "its node n1 is gone"


def test_a_machine_without_a_node_is_unhealthy_after_the_startup_time_and_not_before() -> None:
    assert verdict_of(a_machine("m1", node="", **updated(TEN_MINUTES + SECOND))).is_unhealthy
    waits = verdict_of(a_machine("m1", node="", **updated(TEN_MINUTES)))
    assert (waits.is_unhealthy, waits.is_healthy, waits.due) == (False, False, T0)


def test_without_a_startup_time_a_machine_may_wait_for_its_node_for_ever() -> None:
    check = a_check(nodeStartupTimeout="0s")
    verdict = verdict_of(a_machine("m1", node="", **updated(30 * HOUR)), check=check)
    assert (verdict.is_unhealthy, verdict.is_healthy, verdict.due) == (False, False, None)


@pytest.mark.parametrize("said", [None, "", "yesterday", 5, "2030-01-01T00:00:00"])
def test_a_machine_that_does_not_say_since_when_it_has_no_node_is_left_alone(said: Any) -> None:
    verdict = verdict_of(a_machine("m1", node="", status={"lastUpdated": said}))
    assert (verdict.is_unhealthy, verdict.due) == (False, None)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_listed_condition_makes_it_unhealthy_after_its_timeout_and_not_before(ready: str) -> None:
    late = verdict_of(a_machine("m1"), ill("n1", ready=ready, since=T0 - FIVE_MINUTES - SECOND))
    assert late.why == f"Ready of its node n1 is {ready} for too long"
    soon = verdict_of(a_machine("m1"), ill("n1", ready=ready, since=T0 - FIVE_MINUTES))
    assert (soon.is_unhealthy, soon.is_healthy, soon.due) == (False, False, T0)


def test_the_node_of_another_machine_that_has_the_same_name_says_nothing_about_this_one() -> None:
    """A cluster that manages others has machines whose nodes are elsewhere."""
    node = Node(metadata=a_node("n1").metadata, spec=NodeSpec(provider_id="metal3://b"), status=ill("n1").status)
    verdict = verdict_of(a_machine("m1", spec={"providerID": "metal3://a"}), node)
    assert (verdict.is_unhealthy, verdict.is_healthy, verdict.node) == (False, False, None)


def test_of_cluster_api_only_nodes_that_say_whose_they_are_count() -> None:
    check = read_machine_check(an_item(clusterName="east"), CAPI_CHECK)
    machine = a_machine("m1", spec={"clusterName": "east"})
    said = {"cluster.x-k8s.io/cluster-name": "east", "cluster.x-k8s.io/cluster-namespace": machine.namespace}
    assert verdict_of(machine, a_node("n1", annotations=said), check=check).is_healthy
    unlabelled = verdict_of(machine, a_node("n1"), check=check)
    assert (unlabelled.is_unhealthy, unlabelled.is_healthy) == (False, False)
