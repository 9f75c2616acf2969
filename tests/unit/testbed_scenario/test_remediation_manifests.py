"""What a story says of checks and templates, as the objects that Defib reads."""

from typing import Any

import pytest

from testbed.scenario.parse import parse
from testbed.scenario.remediation_manifests import check_spec, definitions, remediation_manifests
from testbed.scenario.story import Check


def spec_of(parts: str) -> dict[str, Any]:
    (check,) = parse(f"nodes n1\noperator\ncheck workers {parts}\nwait 1s").checks
    return check_spec(check.parts, "here")


FOO = {
    "apiVersion": "test.defib.dev/v1alpha1",
    "kind": "FooRemediationTemplate",
    "namespace": "here",
    "name": "foo",
}
BAR = FOO | {"kind": "BarRemediationTemplate", "name": "bar-gentle"}
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@pytest.mark.parametrize(
    ("parts", "spec"),
    [
        ("selects all", {"selector": {}}),
        ("selects workers", {"selector": {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "DoesNotExist"}]}}),
        ("selects control-plane", {"selector": {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}}),
        ("selects zone-a", {"selector": {"matchLabels": {"topology.kubernetes.io/zone": "zone-a"}}}),
        ("selects pool=gpu", {"selector": {"matchLabels": {"pool": "gpu"}}}),
        ("max-unhealthy 49%", {"maxUnhealthy": "49%"}),
        ("max-unhealthy 2", {"maxUnhealthy": 2}),
        ('maxUnhealthy="2"', {"maxUnhealthy": "2"}),
        ("min-healthy 60%", {"minHealthy": "60%"}),
        ("with foo", {"remediationTemplate": FOO}),
        ("healthy-delay 1m30s", {"healthyDelay": "90s"}),
        ("storm-cooldown 20s mode Observe", {"stormCooldownDuration": "20s", "mode": "Observe"}),
        ("healthyDelay=null", {"healthyDelay": None}),
        (
            "guards.maxInFlight=1 guards.alwaysAllowOne=true",
            {"guards": {"maxInFlight": 1, "alwaysAllowOne": True}},
        ),
        (
            "after 2.5s",
            {
                "unhealthyConditions": [
                    {"type": "Ready", "status": "False", "duration": "2.5s"},
                    {"type": "Ready", "status": "Unknown", "duration": "2.5s"},
                ]
            },
        ),
        (
            "escalates foo 60s then bar-gentle 2m",
            {
                "escalatingRemediations": [
                    {"remediationTemplate": FOO, "order": 0, "timeout": "60s"},
                    {"remediationTemplate": BAR, "order": 1, "timeout": "120s"},
                ]
            },
        ),
    ],
)
def test_the_parts_of_a_check_are_the_fields_of_its_spec(parts: str, spec: dict[str, Any]) -> None:
    assert spec_of(parts) == spec


def test_templates_are_there_before_the_checks_that_name_them() -> None:
    story = parse("nodes n1\noperator\ncheck workers with foo\ntemplate foo multiple\ntemplate bar broken\nwait 1s")
    foo, bar, check = remediation_manifests(story)
    assert foo.body["metadata"]["annotations"] == {"remediation.medik8s.io/multiple-templates-support": "true"}
    assert foo.body["spec"]["template"]["spec"]
    assert bar.body["spec"] == {}
    assert check.body["metadata"] == {"name": "workers"}
    assert isinstance(story.checks[0], Check)


def test_the_kinds_of_a_story_are_those_that_its_remediators_and_defib_need() -> None:
    plain = definitions(openshift=False)
    assert "nodehealthchecks.remediation.medik8s.io" in plain
    assert {name for name in plain if name.startswith(("foo", "bar"))} == {
        f"{who}remediation{what}s.test.defib.dev" for who in ("foo", "bar") for what in ("", "template")
    }
    more = definitions(openshift=True).keys() - plain.keys()
    assert {"clusterversions.config.openshift.io", "machinehealthchecks.machine.openshift.io"} <= more
