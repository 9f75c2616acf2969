"""A MachineHealthCheck is understood in each version of each project, or all that is wrong with it is told."""

from datetime import timedelta
from typing import Any

import pytest

from defib.decide.machine_health.reading import MachineCheck, read_machine_check
from defib.model.health_check import KindRef, TemplateRef, UnhealthyCondition
from defib.model.machine import PAUSED
from defib.model.meta import Meta, Unstructured
from tests.builders import T0
from tests.unit.decide.machine_health.wards import (
    CAPI_CHECK,
    FIVE_MINUTES,
    FOO_TEMPLATE,
    HOME,
    REF,
    TEN_MINUTES,
    a_check,
    an_item,
)

OLDER = KindRef("cluster.x-k8s.io/v1beta1", "MachineHealthCheck")
READY = (UnhealthyCondition("Ready", "False", FIVE_MINUTES), UnhealthyCondition("Ready", "Unknown", FIVE_MINUTES))


def of_cluster_api(**spec: Any) -> MachineCheck:
    return read_machine_check(
        Unstructured(metadata=Meta(name="c", namespace=HOME), spec={"clusterName": "east", **spec}), CAPI_CHECK
    )


def test_openshifts_conditions_limit_and_template_are_read() -> None:
    check = a_check(maxUnhealthy="40%", remediationTemplate=REF, nodeStartupTimeout="20m")
    assert check.problems == ()
    assert check.conditions == READY
    assert check.most.of(5) == 2
    assert check.template == TemplateRef(FOO_TEMPLATE, HOME, "usual")
    assert check.startup == timedelta(minutes=20)
    assert check.machines == KindRef("machine.openshift.io/v1beta1", "Machine")


def test_a_template_is_looked_for_beside_the_check_whatever_namespace_it_names() -> None:
    check = a_check(remediationTemplate=REF | {"namespace": "elsewhere"})
    assert check.template is not None
    assert check.template.namespace == HOME


@pytest.mark.parametrize(
    ("said", "startup"), [(None, TEN_MINUTES), ("0", None), ("0s", None), ("0m", None), ("1h", timedelta(hours=1))]
)
def test_a_node_must_come_within_ten_minutes_unless_the_check_says_otherwise(
    said: str | None, startup: timedelta | None
) -> None:
    assert a_check(nodeStartupTimeout=said).startup == startup


def test_the_newest_version_of_cluster_api_says_the_same_under_other_names() -> None:
    conditions = [{"type": "Ready", "status": status, "timeoutSeconds": 300} for status in ("False", "Unknown")]
    check = of_cluster_api(
        selector={"matchLabels": {"pool": "a"}},
        checks={"unhealthyNodeConditions": conditions, "nodeStartupTimeoutSeconds": 0},
        remediation={"triggerIf": {"unhealthyLessThanOrEqualTo": "20%"}, "templateRef": REF},
    )
    assert check.problems == ()
    assert (check.conditions, check.startup, check.cluster) == (READY, None, "east")
    assert (check.most.of(10), check.template) == (2, TemplateRef(FOO_TEMPLATE, HOME, "usual"))


def test_the_older_version_of_cluster_api_is_as_openshifts() -> None:
    check = read_machine_check(an_item(clusterName="east", maxUnhealthy=1), OLDER)
    assert (check.problems, check.cluster, check.conditions) == ((), "east", READY)


@pytest.mark.parametrize(
    "spec",
    [
        {"checks": {"unhealthyMachineConditions": [{"type": "Ready"}]}},
        {"remediation": {"triggerIf": {"unhealthyInRange": "[1-2]"}}},
    ],
)
def test_a_check_that_says_something_unknown_to_us_does_nothing(spec: dict[str, Any]) -> None:
    (problem,) = of_cluster_api(**spec).problems
    assert problem.endswith("is not supported here, so this check does nothing")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"maxUnhealthy": "many"}, "spec.maxUnhealthy"),
        ({"nodeStartupTimeout": "soon"}, "spec.nodeStartupTimeout"),
        ({"nodeStartupTimeout": "-5m"}, "spec.nodeStartupTimeout"),
        ({"nodeStartupTimeout": [1]}, "spec.nodeStartupTimeout"),
        ({"unhealthyConditions": "all"}, "spec.unhealthyConditions"),
        ({"unhealthyConditions": [{"type": "Ready", "status": "False"}]}, "spec.unhealthyConditions[0].timeout"),
        ({"unhealthyRange": "[1-3]"}, "spec.unhealthyRange"),
        ({"selector": []}, "spec.selector"),
        (
            {"remediationTemplate": {"kind": "Foo", **{key: REF[key] for key in ("apiVersion", "name")}}},
            "spec.remediationTemplate.kind",
        ),
    ],
)
def test_what_makes_no_sense_is_told_with_its_path(spec: dict[str, Any], field: str) -> None:
    (problem,) = a_check(**spec).problems
    assert problem.startswith(f"{field}: ")


def test_a_check_that_is_paused_or_being_deleted_is_still() -> None:
    assert a_check(meta={"annotations": {PAUSED: ""}}).is_still
    assert a_check(meta={"deletion_timestamp": T0}).is_still
    assert not a_check().is_still
