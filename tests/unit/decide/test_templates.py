"""Templates: which remediation is made from one, and what a check says whose templates cannot be used."""

from typing import Any

import pytest

from defib.model import medik8s
from defib.model.action import StartRemediation
from defib.model.cluster import Missing, Served
from defib.model.health_check import KindRef
from tests.builders import HOUR, SECOND
from tests.unit.decide.checks import (
    FOO,
    FOO_TEMPLATE,
    KINDS,
    a_check,
    a_ladder,
    a_remediation,
    a_template,
    condition_of,
    ended,
    gate_of,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    started,
    status_of,
    template_ref,
    the_cluster,
    told,
)
from tests.unit.decide.world import World

METAL3 = KindRef("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3Remediation")
METAL3_TEMPLATE = KindRef("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3RemediationTemplate")


def body(*templates: Any, **spec: Any) -> dict[str, Any]:
    listed = list(templates) or [a_template("foo")]
    plan = plan_of(the_cluster(a_check(**spec), ill("n1"), *healthy(2), templates=listed))
    (start,) = of_type(plan, StartRemediation)
    return dict(start.body)


def test_a_remediation_is_what_its_template_says_in_the_shape_that_every_remediator_knows() -> None:
    assert body() == {
        "metadata": {
            "name": "n1",
            "namespace": "ns",
            "labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller"},
            "annotations": {
                "remediation.medik8s.io/node-name": "n1",
                "remediation.medik8s.io/template-name": "foo",
            },
            "ownerReferences": [
                {
                    "apiVersion": "remediation.medik8s.io/v1alpha1",
                    "kind": "NodeHealthCheck",
                    "name": "workers",
                    "uid": "uid-workers",
                    "controller": False,
                }
            ],
        },
        "spec": {"size": 1},
    }


def test_a_template_that_supports_many_gets_a_name_of_its_own_for_each_remediation() -> None:
    meta = body(a_template("foo", many=True))["metadata"]
    assert meta["generateName"] == "n1-"
    assert meta["name"].startswith("n1-")
    assert len(meta["name"]) == len("n1-") + 5
    assert meta["annotations"][medik8s.NODE_NAME] == "n1"


def test_the_name_is_another_for_a_new_node_of_the_same_name_and_for_another_template() -> None:
    def name(template: str, uid: str) -> str:
        check = a_check(remediationTemplate=template_ref(template))
        cluster = the_cluster(check, ill("n1", uid=uid), *healthy(2), templates=[a_template(template, many=True)])
        (start,) = of_type(plan_of(cluster), StartRemediation)
        return str(start.body["metadata"]["name"])

    names = [name("foo", "1"), name("foo", "2"), name("other", "1")]
    assert len(set(names)) == 3
    assert name("foo", "1") == names[0]


def test_a_template_without_a_spec_for_its_remediations_makes_one_without_a_spec() -> None:
    assert "spec" not in body(a_template("foo", spec={"template": {}}))


def test_the_spec_of_a_remediation_is_a_copy() -> None:
    template = a_template("foo")
    body(template)["spec"]["size"] = 7
    assert template.spec == {"template": {"spec": {"size": 1}}}


@pytest.mark.parametrize(
    ("machine", "owner"), [("ns/m1", "ns/m1"), ("elsewhere/m1", ""), ("m1", ""), ("ns/a/b", ""), ("", "")]
)
def test_the_machine_of_a_node_owns_its_remediation_if_it_lives_in_the_same_namespace(machine: str, owner: str) -> None:
    node = ill("n1", annotations={medik8s.MACHINE: machine})
    (start,) = of_type(plan_of(the_cluster(a_check(), node, *healthy(2))), StartRemediation)
    assert start.machine == owner


# Templates that cannot be used


@pytest.mark.parametrize(
    ("kinds", "reason", "words"),
    [
        ({FOO_TEMPLATE: Missing("no such kind")}, "RemediationTemplateNotFound", "failed to get"),
        ({FOO: Missing("no such kind")}, "RemediationTemplateNotFound", "failed to get"),
    ],
)
def test_a_kind_that_the_cluster_does_not_have_disables_the_check(kinds: Any, reason: str, words: str) -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), kinds=KINDS | kinds))
    disabled = condition_of(plan, "Disabled")
    assert (started(plan), disabled.status, disabled.reason) == ([], "True", reason)
    assert words in disabled.message
    assert "no such kind" in disabled.message


@pytest.mark.parametrize(
    ("templates", "ref", "reason", "words"),
    [
        ([], template_ref(), "RemediationTemplateNotFound", "failed to get"),
        ([a_template("other")], template_ref(), "RemediationTemplateNotFound", "FooRemediationTemplate ns/foo"),
        ([a_template("foo")], template_ref() | {"namespace": ""}, "RemediationTemplateNotFound", "no namespace is"),
        ([a_template("foo", spec={})], template_ref(), "RemediationTemplateInvalid", "spec.template"),
        ([a_template("foo", spec={"template": "x"})], template_ref(), "RemediationTemplateInvalid", "spec.template"),
    ],
)
def test_a_template_that_is_missing_or_broken_disables_the_check(
    templates: Any, ref: Any, reason: str, words: str
) -> None:
    cluster = the_cluster(a_check(remediationTemplate=ref), ill("n1"), *healthy(2), templates=templates)
    plan = plan_of(cluster)
    assert (started(plan), status_of(plan).phase, condition_of(plan, "Disabled").reason) == ([], "Disabled", reason)
    assert words in status_of(plan).reason
    assert node_of(plan, "n1").reason == "Disabled"
    assert gate_of(plan, "Disabled").value == reason
    assert told(plan).count("Disabled") == 1
    assert "RemediationSkipped" not in told(plan)


def test_a_missing_permission_disables_the_check() -> None:
    cluster = the_cluster(a_check(), ill("n1"), *healthy(2), absent={"footemplates": "footemplates is forbidden"})
    plan = plan_of(cluster)
    assert (started(plan), condition_of(plan, "Disabled").reason) == ([], "MissingPermission")
    assert "footemplates is forbidden" in condition_of(plan, "Disabled").message


def metal3(namespace: str) -> Any:
    ref = {
        "apiVersion": METAL3.api_version,
        "kind": METAL3_TEMPLATE.name,
        "name": "foo",
        "namespace": namespace,
    }
    kinds = KINDS | {METAL3: Served("metal3", namespaced=True), METAL3_TEMPLATE: Served("templates3", namespaced=True)}
    template = a_template("foo")
    others = {"metal3": {}, "templates3": {f"{namespace}/foo": template}}
    node = ill("n1", annotations={medik8s.MACHINE: f"{namespace}/m1"})
    return plan_of(the_cluster(a_check(remediationTemplate=ref), node, *healthy(2), kinds=kinds, others=others))


def test_a_metal3_template_must_be_where_its_machines_are() -> None:
    plan = metal3("ns")
    assert (started(plan), condition_of(plan, "Disabled").reason) == ([], "RemediationTemplateInvalid")
    assert "Metal3RemediationTemplate must be in the openshift-machine-api namespace" in status_of(plan).reason
    (start,) = of_type(metal3("openshift-machine-api"), StartRemediation)
    assert start.machine == "openshift-machine-api/m1"


def test_a_kind_that_is_used_twice_must_support_it() -> None:
    ladder = a_ladder(("foo", "60s"), ("second", "60s"))
    for many, disabled in ((True, "False"), (False, "True")):
        templates = [a_template("foo", many=True), a_template("second", many=many)]
        plan = plan_of(the_cluster(a_check(escalatingRemediations=ladder), ill("n1"), *healthy(2), templates=templates))
        assert condition_of(plan, "Disabled").status == disabled
    assert medik8s.MULTIPLE_TEMPLATES in condition_of(plan, "Disabled").message


def test_a_second_template_that_is_missing_disables_the_check_before_it_is_needed() -> None:
    ladder = a_ladder(("foo", "60s"), ("missing", "60s"))
    plan = plan_of(the_cluster(a_check(escalatingRemediations=ladder), ill("n1"), *healthy(2)))
    assert started(plan) == []
    assert "ns/missing" in condition_of(plan, "Disabled").message


def test_a_check_heals_itself_when_its_template_comes() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)], templates=[])
    world.settle()
    template = a_template("foo", spec={})
    world.others["footemplates"] = {template.key: template}
    world.settle()
    assert world.status().condition("Disabled").reason == "RemediationTemplateInvalid"  # type: ignore[union-attr]
    template = a_template("foo")
    world.others["footemplates"] = {template.key: template}
    world.settle()
    assert world.in_flight() == {"n1"}
    assert world.told().count("Disabled") == 2
    assert world.told().count("Enabled") == 1


def test_a_template_that_is_deleted_later_disables_the_check_and_what_is_in_flight_ends_as_usual() -> None:
    world = World(a_check(), [ill("n1"), ill("n2"), *healthy(3)])
    world.settle()
    world.others["footemplates"] = {}
    world.turn("n1", "True")
    world.settle()
    assert (world.status().phase, world.in_flight()) == ("Disabled", {"n2"})


def test_while_a_kind_is_being_looked_for_nothing_is_decided_or_written() -> None:
    """It takes a moment after each start, in which nobody should hear that a check is disabled."""
    status = {"unhealthyNodes": [{"name": "n1"}], "phase": "Enabled"}
    kinds = {kind: served for kind, served in KINDS.items() if kind != FOO}
    cluster = the_cluster(a_check(status=status), ill("n1"), *healthy(2), kinds=kinds, foos=[a_remediation("w1")])
    plan = plan_of(cluster)
    assert (plan.actions, ended(plan), status_of(plan).phase) == ((), [], "Enabled")
    assert "looked for" in gate_of(plan, "Disabled").message


def test_a_check_may_be_there_before_its_template() -> None:
    world = World(a_check(), healthy(2), templates=[])
    world.wait(HOUR)
    assert (world.status().phase, world.status().observed_nodes) == ("Disabled", 2)
    assert world.told() == ["Disabled"]
    world.wait(SECOND)
