"""MachineHealthChecks of OpenShift: who remediates what, when both are there."""

from typing import Any

import pytest

from defib.decide.machine_checks import MACHINE_HEALTH_CHECK
from defib.model.action import EndRemediation
from defib.model.cluster import Blindness, Cluster, Served
from defib.model.meta import Meta, Unstructured
from tests.builders import T0
from tests.unit.decide.checks import (
    KINDS,
    a_check,
    a_remediation,
    condition_of,
    ended,
    healthy,
    ill,
    of_type,
    plan_of,
    showing,
    started,
    status_of,
    the_cluster,
    told,
)

WITH_MACHINES = KINDS | {MACHINE_HEALTH_CHECK: Served("machinechecks", namespaced=True)}
TERMINATING = [{"type": "Terminating", "status": "True"}]
READY = [{"type": "Ready", "status": "Unknown"}]


def a_machine_check(name: str, conditions: Any) -> Unstructured:
    return Unstructured(
        metadata=Meta(name=name, namespace="openshift-machine-api"), spec={"unhealthyConditions": conditions}
    )


def beside(*checks: Unstructured, terminating: bool = False, **more: Any) -> Cluster:
    node = ill("n1")
    node = showing(node, "Terminating", "True") if terminating else node
    others = {"machinechecks": {item.key: item for item in checks}}
    return the_cluster(a_check(), node, *healthy(3), kinds=WITH_MACHINES, others=others, **more)


@pytest.mark.parametrize(
    ("checks", "works"),
    [
        ([], True),
        ([a_machine_check("a", TERMINATING)], True),
        ([a_machine_check("a", READY)], False),
        ([a_machine_check("a", TERMINATING + READY)], False),
        ([a_machine_check("a", [])], False),
        ([a_machine_check("a", None)], False),
        ([a_machine_check("a", ["nonsense"])], False),
        ([a_machine_check("a", TERMINATING), a_machine_check("b", TERMINATING)], False),
    ],
)
def test_only_one_may_remediate_unless_the_other_looks_after_terminating_nodes_alone(
    checks: list[Unstructured], works: bool
) -> None:
    plan = plan_of(beside(*checks))
    assert started(plan) == (["n1"] if works else [])
    assert condition_of(plan, "Disabled").reason == (
        "NodeHealthCheckEnabled" if works else "ConflictingMachineHealthCheckDetected"
    )


def test_a_conflict_is_told_and_the_counts_are_real() -> None:
    plan = plan_of(beside(a_machine_check("a", READY)))
    status = status_of(plan)
    assert (status.phase, status.observed_nodes, status.healthy_nodes) == ("Disabled", 4, 3)
    assert "openshift-machine-api/a" in status.reason
    assert "Disabled" in told(plan)


def test_what_was_begun_before_a_conflict_is_cleaned_up_after() -> None:
    plan = plan_of(beside(a_machine_check("a", READY), foos=[a_remediation("w1")]))
    assert ended(plan) == ["w1"]


def test_terminating_nodes_are_left_to_the_machine_health_check() -> None:
    plan = plan_of(beside(a_machine_check("a", TERMINATING), terminating=True))
    assert (started(plan), status_of(plan).healthy_nodes) == ([], 4)


def test_without_a_machine_health_check_terminating_nodes_are_like_others() -> None:
    assert started(plan_of(beside(terminating=True))) == ["n1"]


def test_the_remediation_of_a_node_that_is_left_to_the_machine_health_check_can_end() -> None:
    """It shows unhealthy conditions, so those must not speak against ending it."""
    plan = plan_of(beside(a_machine_check("a", TERMINATING), terminating=True, foos=[a_remediation("n1")]))
    (end,) = of_type(plan, EndRemediation)
    assert end.unless == ()


def test_machine_health_checks_that_are_out_of_sight_may_be_there() -> None:
    assert started(plan_of(beside(absent={"machinechecks": "forbidden"}))) == []
    assert started(plan_of(beside(blind=(Blindness("machinechecks", T0, "connection refused"),)))) == []
