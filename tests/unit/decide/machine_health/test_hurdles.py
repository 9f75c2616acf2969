"""What holds it back: pauses, the brake, doubt, the lock of a node, and the control plane (RM-32)."""

from typing import Any

import msgspec
import pytest

from defib.decide.quorum import CLUSTER_VERSION
from defib.decide.rules import INSTANT, LOOK_AGAIN
from defib.model import medik8s
from defib.model.cluster import Blindness, Cluster, Missing, Unread
from defib.model.config_map import ConfigMap
from defib.model.machine import PAUSED, SKIPPED
from defib.model.machine_action import AskForPowerCycle, Patient
from defib.model.meta import Meta, Unstructured
from defib.model.metal3 import TRIGGER
from defib.model.node import Lease, LeaseSpec, Node
from tests.builders import MINUTE, T0, a_node
from tests.unit.decide.machine_health.wards import (
    CONTROL_PLANE,
    HOME,
    ITEM,
    KINDS,
    MACHINE,
    MASTER,
    RULES,
    a_machine,
    a_remediation,
    an_incident,
    an_item,
    counts,
    cures,
    ill,
    plan_of,
    replaced,
    said,
    status_in,
    the_cluster,
    the_cure,
    three,
)


def test_a_paused_check_does_nothing_and_says_nothing() -> None:
    plan = plan_of(three(ill("n1"), item=an_item(meta={"annotations": {PAUSED: ""}})))
    assert (plan.actions, plan.wake_at) == ((), None)


@pytest.mark.parametrize("annotation", [PAUSED, SKIPPED])
def test_a_paused_target_is_left_alone_and_counts_as_it_is(annotation: str) -> None:
    plan = plan_of(the_cluster(ITEM, [a_machine("m1", meta={"annotations": {annotation: ""}})], ill("n1")))
    assert (cures(plan), counts(plan)) == ([], (1, 0, 0))
    assert said(plan)[2].endswith("it is paused")


def test_the_brake_holds_it_back() -> None:
    brake = ConfigMap(metadata=Meta(name="defib-brake", namespace="defib-system"), data={"reason": "storm"})
    cluster = three(ill("n1"), others={"configmaps": {brake.key: brake}})
    assert cures(plan_of(cluster)) == []
    assert said(plan_of(cluster)) == ("False", "Brake", "the brake is on: storm")
    assert cures(plan_of(three(ill("n1")), msgspec.structs.replace(RULES, brake_setting=True))) == []


def test_while_something_holds_it_back_no_remediation_is_allowed() -> None:
    cluster = three(ill("n1"))
    assert counts(plan_of(cluster)) == (3, 2, 2)
    assert counts(plan_of(cluster, msgspec.structs.replace(RULES, brake_setting=True))) == (3, 2, 0)


@pytest.mark.parametrize(
    "more",
    [
        {"doubts": ("the clock jumped",)},
        {"blind": (Blindness("nodes", T0, "no answer"),)},
        {"blind": (Blindness("checks", T0, "no answer"),)},
        {"blind": (Blindness("foos", T0, "no answer"),)},
        {"absent": {"nodeincidents.defib.dev": "forbidden"}},
        {"unread": (Unread("machines", f"{HOME}/m9", "no name"),)},
    ],
)
def test_doubt_about_our_own_sight_holds_it_back_and_is_looked_at_again(more: dict[str, Any]) -> None:
    plan = plan_of(three(ill("n1"), **more))
    assert cures(plan) == []
    assert said(plan)[:2] == ("False", "SelfDoubt")
    assert plan.wake_at == T0 + LOOK_AGAIN


@pytest.mark.parametrize(
    "more",
    [
        {"blind": (Blindness("machines", T0, "no answer"),)},
        {"absent": {"machines": "forbidden"}},
        {"kinds": KINDS | {MACHINE: Missing("no such kind")}},
    ],
)
def test_machines_that_are_out_of_sight_are_not_counted(more: dict[str, Any]) -> None:
    status = status_in(plan_of(three(ill("n1"), **more)).actions)
    assert status["conditions"][0]["reason"] == "SelfDoubt"
    assert "expectedMachines" not in status


def a_lock(holder: str) -> dict[str, Lease]:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=60, renew_time=T0)
    return {f"{medik8s.LOCK_NAMESPACE}/node-n1": Lease(spec=spec)}


def test_somebody_who_works_on_the_node_is_waited_for_until_his_lock_ends() -> None:
    plan = plan_of(three(ill("n1"), locks=a_lock("somebody")))
    assert (cures(plan), plan.wake_at) == ([], T0 + MINUTE + INSTANT)
    assert said(plan)[2].endswith("somebody works on its node and holds the lock")


# The control plane


def a_plane(*nodes: Node, machines: tuple[Unstructured, ...] | None = None, **more: Any) -> Cluster:
    named = machines or tuple(a_machine(name, meta={"labels": MASTER}) for name in ("m1", "m2", "m3"))
    return the_cluster(ITEM, named, *nodes, **more)


def member(name: str) -> Node:
    return a_node(name, labels=CONTROL_PLANE)


def dead(name: str) -> Node:
    return ill(name, labels=CONTROL_PLANE)


def test_of_the_control_plane_one_machine_is_taken_at_a_time() -> None:
    spare = (member("n4"), member("n5"), member("n6"), member("n7"))
    plan = plan_of(a_plane(dead("n1"), dead("n2"), member("n3"), *spare))
    assert replaced(plan) == ["m1"]
    assert said(plan)[2].endswith("m1 of the control plane is being remediated, one at a time")


def test_the_label_of_the_node_is_enough_to_belong_to_the_control_plane() -> None:
    spare = (member("n4"), member("n5"), member("n6"), member("n7"))
    machines = (a_machine("m1"), a_machine("m2"))
    assert replaced(plan_of(a_plane(dead("n1"), dead("n2"), *spare, machines=machines))) == ["m1"]


def underway(name: str, *, is_control_plane: bool = True) -> AskForPowerCycle:
    check, machine = (the_cure(three(ill("n1"))).patient.check, the_cure(three(ill("n1"))).patient.machine)
    machine = msgspec.structs.replace(machine, name=name)
    return AskForPowerCycle(
        patient=Patient(check=check, generation=1, machine=machine, version="1", is_control_plane=is_control_plane),
        annotation=TRIGGER,
    )


@pytest.mark.parametrize(
    "more",
    [
        {"incidents": [an_incident("n9", control_plane=True)]},
        {"foos": [a_remediation("m3", owner="uid-m3")]},
        {"underway": (underway("m3"),)},
    ],
)
def test_somebody_elses_remediation_of_the_control_plane_counts(more: dict[str, Any]) -> None:
    nodes = (dead("n1"), member("n2"), member("n3"))
    assert replaced(plan_of(a_plane(*nodes))) == ["m1"]
    assert cures(plan_of(a_plane(*nodes, **more))) == []


def test_what_is_under_way_for_a_worker_does_not() -> None:
    cluster = a_plane(dead("n1"), member("n2"), member("n3"), underway=(underway("w1", is_control_plane=False),))
    assert replaced(plan_of(cluster)) == ["m1"]


def test_without_a_quorum_of_the_others_the_control_plane_is_left_alone() -> None:
    plan = plan_of(a_plane(dead("n1"), ill("n2", since=T0, labels=CONTROL_PLANE), member("n3")))
    assert cures(plan) == []
    assert "etcd needs 2" in said(plan)[2]


def test_a_node_that_is_gone_still_counts_as_a_member() -> None:
    assert replaced(plan_of(a_plane(member("n2"), member("n3")))) == ["m1"]
    assert cures(plan_of(a_plane(member("n3")))) == []


def test_before_it_is_known_what_guards_etcd_the_control_plane_is_left_alone() -> None:
    kinds = {kind: one for kind, one in KINDS.items() if kind != CLUSTER_VERSION}
    assert cures(plan_of(a_plane(dead("n1"), member("n2"), member("n3"), kinds=kinds))) == []


def test_a_master_that_never_became_a_node_costs_no_quorum() -> None:
    machines = (a_machine("m1", node="", meta={"labels": MASTER}),)
    assert replaced(plan_of(a_plane(member("n2"), dead("n3"), machines=machines))) == ["m1"]
