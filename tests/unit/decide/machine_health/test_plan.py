"""What is done about unhealthy machines for a MachineHealthCheck, what holds it back, and what its status says."""

from typing import Any

import msgspec
import pytest

from defib.decide.machine_health.cures import NO_CONTROLLER
from defib.decide.machine_health.plan import NOTHING, SETTING
from defib.decide.quorum import CLUSTER_VERSION, PODS
from defib.decide.rules import INSTANT, Rules
from defib.model import medik8s, pod_failover
from defib.model.action import EndRemediation
from defib.model.budget import BUDGET
from defib.model.cluster import Cluster, Missing, Served
from defib.model.failure import Failure
from defib.model.incident import Phase
from defib.model.machine import STRATEGY
from defib.model.machine_action import AskForPowerCycle, MachineAction, RemediateMachine
from defib.model.meta import Meta, Unstructured
from defib.model.metal3 import TRIGGER
from defib.model.node import Node
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.machine_health.wards import (
    CAPI_CHECK,
    CAPI_MACHINE,
    CHECK,
    EXTERNAL,
    FOO,
    FOO_TEMPLATE,
    HOME,
    ITEM,
    KINDS,
    MACHINE,
    REF,
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

# The setting


def test_nothing_at_all_is_done_unless_the_setting_says_so() -> None:
    assert plan_of(three(ill("n1")), Rules()) is NOTHING
    assert plan_of(three(ill("n1")), Rules(serves=frozenset({"machine-annotation"}))) is NOTHING


def test_machines_and_templates_are_followed_only_where_a_check_needs_them() -> None:
    assert {CHECK, CAPI_CHECK} <= plan_of(Cluster(now=T0)).kinds.keys()
    assert MACHINE not in plan_of(the_cluster([], [])).kinds
    assert MACHINE in plan_of(three()).kinds
    assert FOO not in plan_of(three()).kinds
    assert {FOO, FOO_TEMPLATE} <= plan_of(three(item=an_item(remediationTemplate=REF))).kinds.keys()


def test_an_older_version_is_looked_for_only_where_there_is_no_newer_one() -> None:
    older = msgspec.structs.replace(CAPI_CHECK, api_version="cluster.x-k8s.io/v1beta1")
    assert older not in plan_of(Cluster(now=T0)).kinds
    assert older in plan_of(Cluster(now=T0, kinds={CAPI_CHECK: Missing("no such kind")})).kinds


def test_on_openshift_what_guards_etcd_is_followed_too() -> None:
    kinds = KINDS | {CLUSTER_VERSION: Served("versions", namespaced=False)}
    assert {BUDGET, PODS} <= plan_of(three(kinds=kinds)).kinds.keys()


# What is done


def test_a_machine_with_a_controller_is_replaced() -> None:
    patient = the_cure(three(ill("n1"))).patient
    assert replaced(plan_of(three(ill("n1")))) == ["m1"]
    assert (patient.machine.uid, patient.version) == ("uid-m1", "7")
    assert (patient.check.uid, patient.generation) == ("uid-workers", 2)
    assert (patient.node, patient.node_uid) == ("n1", "uid-n1")
    assert patient.because is not None
    assert (patient.because.type, patient.because.status) == ("Ready", "Unknown")


def test_a_machine_without_a_controller_is_not_deleted_and_the_status_says_why() -> None:
    plan = plan_of(the_cluster(ITEM, [a_machine("m1", owned=False)], ill("n1")))
    assert cures(plan) == []
    assert said(plan) == (
        "True",
        "RemediationAllowed",
        f"machine m1: Ready of its node n1 is Unknown for too long; {NO_CONTROLLER.message}",
    )


def test_with_the_external_strategy_a_power_cycle_is_asked_for_also_without_a_controller() -> None:
    item = an_item(meta=EXTERNAL)
    cure = the_cure(the_cluster(item, [a_machine("m1", owned=False)], ill("n1")))
    assert isinstance(cure, AskForPowerCycle)
    assert cure.annotation == TRIGGER


def test_another_strategy_is_the_ordinary_one() -> None:
    assert replaced(plan_of(three(ill("n1"), item=an_item(meta={"annotations": {STRATEGY: "new"}})))) == ["m1"]


@pytest.mark.parametrize("how", [{"meta": EXTERNAL}, {"remediationTemplate": REF}])
def test_a_machine_that_failed_is_replaced_whatever_the_strategy(how: dict[str, Any]) -> None:
    cluster = the_cluster(
        an_item(**how), [a_machine("m1", phase="Failed"), a_machine("m2")], a_node("n1"), a_node("n2")
    )
    assert cures(plan_of(cluster)) == [("ReplaceMachine", "m1")]


def test_of_a_machine_that_failed_the_node_is_no_reason_and_is_not_looked_at_again() -> None:
    cluster = the_cluster(ITEM, [a_machine("m1", phase="Failed")], a_node("n1"))
    assert the_cure(cluster).patient.node == ""


def test_from_a_template_a_remediation_is_made_that_the_machine_owns_and_that_is_named_after_it() -> None:
    cure = the_cure(three(ill("n1"), item=an_item(remediationTemplate=REF, meta=EXTERNAL)))
    assert isinstance(cure, RemediateMachine)
    assert cure.kind == FOO
    owner = {"apiVersion": MACHINE.api_version, "kind": "Machine", "name": "m1", "uid": "uid-m1"}
    assert cure.body == {
        "metadata": {
            "name": "m1",
            "namespace": HOME,
            "annotations": {medik8s.NODE_NAME: "n1", medik8s.TEMPLATE_NAME: "usual"},
            "ownerReferences": [owner],
        },
        "spec": {"strategy": {"type": "Reboot"}},
    }


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"templates": []}, f"there is no FooRemediationTemplate {HOME}/usual"),
        ({"kinds": KINDS | {FOO: Missing("no such kind")}}, "no such kind"),
        ({"kinds": {kind: one for kind, one in KINDS.items() if kind != FOO}}, f"{FOO} is being looked for"),
        ({"kinds": KINDS | {FOO: Served("foos", namespaced=False)}}, f"{FOO} is not namespaced, as a machine is"),
    ],
)
def test_without_its_template_nothing_is_made_and_the_status_says_why(more: dict[str, Any], why: str) -> None:
    plan = plan_of(three(ill("n1"), item=an_item(remediationTemplate=REF), **more))
    assert cures(plan) == []
    assert said(plan)[2].endswith(why)


def test_the_remediation_is_ended_when_its_machine_is_well_again() -> None:
    cluster = three(item=an_item(remediationTemplate=REF), foos=[a_remediation("m1", owner="uid-m1", node="n1")])
    (end,) = [one for one in plan_of(cluster).actions if isinstance(one, EndRemediation)]
    assert (end.target.uid, end.node) == ("uid-foo-m1", "n1")
    assert end.unless == (("Ready", "False"), ("Ready", "Unknown"))


@pytest.mark.parametrize(
    ("foo", "node"),
    [
        (a_remediation("m1", owner="uid-m1"), ill("n1")),
        (a_remediation("m1", owner="uid-m1"), ill("n1", since=T0)),  # not yet unhealthy, and not well
        (a_remediation("m1", owner="uid-m1", deletion_timestamp=T0), a_node("n1")),
        (a_remediation("m1", owner="uid-of-another"), a_node("n1")),
        (a_remediation("m1"), a_node("n1")),
    ],
)
def test_a_remediation_is_ended_once_and_only_if_it_is_the_machines_own(foo: Unstructured, node: Node) -> None:
    plan = plan_of(three(node, item=an_item(remediationTemplate=REF), foos=[foo]))
    assert [one for one in plan.actions if isinstance(one, EndRemediation)] == []


def test_the_remediation_of_a_machine_that_is_being_deleted_goes_with_it_and_is_not_ended() -> None:
    leaving = a_machine("m1", meta={"deletion_timestamp": T0})
    foo = a_remediation("m1", owner="uid-m1")
    plan = plan_of(the_cluster(an_item(remediationTemplate=REF), [leaving], a_node("n1"), foos=[foo]))
    assert [one for one in plan.actions if isinstance(one, EndRemediation)] == []


def test_only_machines_that_the_check_selects_are_its_own() -> None:
    machines = [
        a_machine("m1"),
        a_machine("m2", meta={"labels": {"role": "infra"}}),
        a_machine("m3", meta={"namespace": "elsewhere"}),
    ]
    item = an_item(selector={"matchLabels": {"role": "worker"}})
    plan = plan_of(the_cluster(item, machines, ill("n1"), ill("n2"), ill("n3")))
    assert (replaced(plan), counts(plan)[0]) == (["m1"], 1)


def test_two_checks_that_select_the_same_machine_do_one_thing() -> None:
    cluster = the_cluster([an_item("a"), an_item("b", meta=EXTERNAL)], [a_machine("m1")], ill("n1"))
    (cure,) = [one for one in plan_of(cluster).actions if isinstance(one, MachineAction)]
    assert cure.patient.check.name == "a"


# What is being done already (RM-31)


@pytest.mark.parametrize(
    "more",
    [
        {"foos": [a_remediation("m1", owner="uid-m1")]},
        {"foos": [a_remediation("anything", owner="uid-m1")]},
        {"foos": [a_remediation("anything", node="n1")]},
        {"foos": [a_remediation("m1")]},
        {"incidents": [an_incident("n1")]},
    ],
)
def test_a_target_that_is_being_remediated_counts_as_unhealthy_and_gets_nothing_more(more: dict[str, Any]) -> None:
    well, bad = plan_of(three(**more)), plan_of(three(ill("n1"), **more))
    assert (counts(well), counts(bad)) == ((3, 2, 2), (3, 2, 2))
    assert cures(bad) == []


@pytest.mark.parametrize("meta", [{"annotations": {TRIGGER: ""}}, {"deletion_timestamp": T0}])
def test_so_does_one_that_has_the_trigger_or_is_being_deleted(meta: dict[str, Any]) -> None:
    for node in (a_node("n1"), ill("n1")):
        plan = plan_of(the_cluster(an_item(meta=EXTERNAL), [a_machine("m1", meta=meta)], node))
        assert (cures(plan), counts(plan)) == ([], (1, 0, 0))


def test_closed_incidents_and_pods_that_only_leave_their_node_are_no_care_for_the_machine() -> None:
    kinds = KINDS | {pod_failover.REMEDIATION: Served("failovers", namespaced=True)}
    failover = a_remediation("n1-abcde", node="n1")
    cluster = three(
        ill("n1"), incidents=[an_incident("n1", Phase.CLOSED)], kinds=kinds, others={"failovers": {"x": failover}}
    )
    assert replaced(plan_of(cluster)) == ["m1"]


def test_too_many_unhealthy_ones_stop_everything_and_the_status_says_so() -> None:
    plan = plan_of(three(ill("n1"), ill("n2"), item=an_item(maxUnhealthy="40%")))
    assert cures(plan) == []
    assert counts(plan) == (3, 1, 0)
    assert said(plan) == ("False", "TooManyUnhealthy", "2 of 3 machines are not healthy, and maxUnhealthy is 40%")


def test_ones_in_remediation_count_so_that_a_rack_is_not_restarted_machine_by_machine() -> None:
    item = an_item(maxUnhealthy=1)
    assert replaced(plan_of(three(ill("n2"), item=item))) == ["m2"]
    assert cures(plan_of(three(ill("n2"), item=item, foos=[a_remediation("m1", owner="uid-m1")]))) == []


def test_ones_that_are_about_to_be_unhealthy_count_too() -> None:
    assert cures(plan_of(three(ill("n1"), ill("n2", since=T0), item=an_item(maxUnhealthy=1)))) == []


def test_a_limit_that_makes_no_sense_allows_nothing_and_the_status_says_so() -> None:
    plan = plan_of(three(ill("n1"), item=an_item(maxUnhealthy="1%0")))
    assert cures(plan) == []
    assert said(plan)[:2] == ("False", "InvalidSpec")
    assert "spec.maxUnhealthy" in said(plan)[2]


def test_a_negative_limit_is_none() -> None:
    assert cures(plan_of(three(ill("n1"), item=an_item(maxUnhealthy=-1)))) == []


# When to look again, and what is written


def test_the_next_look_is_when_the_first_machine_may_have_become_unhealthy() -> None:
    plan = plan_of(three(ill("n1", since=T0 - MINUTE), ill("n2", since=T0 - 2 * MINUTE)))
    assert (cures(plan), plan.wake_at) == ([], T0 + 3 * MINUTE + INSTANT)
    assert plan_of(three()).wake_at is None


def test_what_the_status_says_already_is_not_written_again() -> None:
    for cluster in (three(), three(ill("n1"), ill("n2"), item=an_item(maxUnhealthy=1))):
        status = status_in(plan_of(cluster).actions)
        (item,) = cluster.others["checks"].values()
        assert isinstance(item, Unstructured)
        told = msgspec.structs.replace(item, status=status)
        later = msgspec.structs.replace(cluster, now=T0 + SECOND, others={**cluster.others, "checks": {told.key: told}})
        assert status_in(plan_of(later).actions) == {}


def test_conditions_of_others_stay_and_a_condition_keeps_the_time_of_its_last_change() -> None:
    since = "2029-12-31T00:00:00Z"
    known = [
        {"type": "Mine", "status": "True"},
        {"type": "RemediationAllowed", "status": "True", "lastTransitionTime": since},
    ]
    conditions = status_in(plan_of(three(item=an_item(status={"conditions": known}))).actions)["conditions"]
    assert conditions[0] == known[0]
    assert conditions[1]["lastTransitionTime"] == since
    assert len(conditions) == 2


def test_an_action_that_fails_is_told() -> None:
    key = the_cure(three(ill("n1"))).key
    plan = plan_of(three(ill("n1"), failures={key: Failure(why="forbidden", times=1, again_in=SECOND)}))
    assert replaced(plan) == ["m1"]
    assert said(plan)[2].endswith("; forbidden")


def test_of_many_machines_about_which_nothing_is_done_a_few_are_told() -> None:
    machines = [a_machine(f"m{number}", owned=False) for number in range(20)]
    plan = plan_of(the_cluster(ITEM, machines, *(ill(f"n{number}") for number in range(20))))
    assert said(plan)[2].count("machine m") == 5


# Cluster API

CAPI_KINDS = KINDS | {
    CAPI_CHECK: Served("capi-checks", namespaced=True),
    CAPI_MACHINE: Served("capi-machines", namespaced=True),
}


WHOSE = {"cluster.x-k8s.io/cluster-name": "east", "cluster.x-k8s.io/cluster-namespace": HOME}


def of_cluster_api(*nodes: Node, whose: str = "east") -> Cluster:
    item = Unstructured(metadata=Meta(name="c", namespace=HOME, uid="c"), spec={"clusterName": "east"})
    machine = a_machine("m1", spec={"clusterName": whose})
    others = {"capi-checks": {item.key: item}, "capi-machines": {machine.key: machine}}
    return the_cluster([], [], *nodes, kinds=CAPI_KINDS, others=others)


def test_machines_whose_nodes_are_in_another_cluster_are_never_taken_for_dead() -> None:
    plan = plan_of(of_cluster_api(a_node("n7"), a_node("n8")))
    assert cures(plan) == []
    assert said(plan)[:2] == ("False", "NodesElsewhere")


def test_in_a_cluster_that_manages_itself_they_are_served() -> None:
    assert replaced(plan_of(of_cluster_api(a_node("n7", annotations=WHOSE)))) == ["m1"]


def test_machines_of_another_cluster_in_the_same_namespace_are_not_its_own() -> None:
    cluster = of_cluster_api(a_node("n7", annotations=WHOSE), whose="west")
    assert (cures(plan_of(cluster)), counts(plan_of(cluster))) == ([], (0, 0, 0))


def test_a_closed_condition_has_a_severity_where_its_version_knows_one() -> None:
    plans = (plan_of(three(item=an_item(maxUnhealthy="x"))), plan_of(of_cluster_api(a_node("n7"))))
    assert [status_in(plan.actions)["conditions"][0].get("severity") for plan in plans] == ["Warning", None]


def test_the_setting_has_the_name_that_people_write() -> None:
    assert SETTING == "machine-health-check"
