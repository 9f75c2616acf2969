"""The first check of a cluster that has none: when it is made, when it is not needed, and when it is too early to say."""

from typing import Any

import msgspec
import pytest

from defib.decide.defaults import DEFAULTS, NotNeeded, NotPossible, default_check, news_of
from defib.decide.reading import read_check
from defib.model import medik8s
from defib.model.action import AddDefaultCheck
from defib.model.cluster import Blindness, Cluster, Missing, Served, Unread
from defib.model.health_check import Check, NodeHealthCheck, TemplateRef
from defib.model.meta import Meta
from defib.model.pod_failover import REMEDIATION, TEMPLATE
from tests.builders import T0, a_node
from tests.unit.decide.checks import a_check

KINDS = {TEMPLATE: Served("templates", namespaced=True), REMEDIATION: Served("failovers", namespaced=True)}


def cluster(**fields: Any) -> Cluster:
    return msgspec.structs.replace(Cluster(now=T0, others={medik8s.CHECKS: {}}, kinds=KINDS), **fields)


def made() -> AddDefaultCheck:
    action = default_check(cluster(), "defib-system")
    assert isinstance(action, AddDefaultCheck)
    return action


def test_a_cluster_without_any_check_gets_one_for_its_workers() -> None:
    action = made()
    body = action.check_body
    assert (action.check, body["metadata"]["name"]) == ("nhc-worker-default", "nhc-worker-default")
    assert body["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "defib"}
    check = read_check(NodeHealthCheck(metadata=Meta(name=action.check), spec=body["spec"]))
    assert isinstance(check, Check)
    assert [step.template for step in check.steps] == [TemplateRef(TEMPLATE, "defib-system", "defib-pod-failover")]
    assert check.selector.selects(a_node("worker").labels)
    for role in ("control-plane", "master"):
        assert not check.selector.selects({f"node-role.kubernetes.io/{role}": ""})


def test_it_waits_for_half_a_minute_and_how_many_may_fail_is_left_to_the_default_of_the_kind() -> None:
    spec = made().check_body["spec"]
    assert spec.keys() == {"selector", "unhealthyConditions", "remediationTemplate"}
    assert {condition["duration"] for condition in spec["unhealthyConditions"]} == {"30s"}


def test_its_template_may_be_used_beside_others_of_its_kind() -> None:
    action = made()
    assert str(action.template) == "PodFailoverRemediationTemplate defib-system/defib-pod-failover"
    assert action.template_body["metadata"]["annotations"] == {medik8s.MULTIPLE_TEMPLATES: "true"}
    assert action.template_body["spec"] == {"template": {"spec": {}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"others": {medik8s.CHECKS: {"mine": a_check("mine")}}},
        {"unread": (Unread(medik8s.CHECKS, "odd", "it makes no sense"),)},
    ],
)
def test_any_check_even_an_unreadable_one_is_enough(fields: dict[str, Any]) -> None:
    assert default_check(cluster(**fields), "defib-system") == NotNeeded()


@pytest.mark.parametrize(
    "fields",
    [
        {"absent": {medik8s.CHECKS: "why"}},
        {"kinds": KINDS | {TEMPLATE: Missing("why")}},
        {"kinds": KINDS | {REMEDIATION: Missing("why")}},
        {"absent": {"templates": "why"}},
        {"absent": {"failovers": "why"}},
    ],
)
def test_what_is_missing_or_forbidden_makes_it_impossible(fields: dict[str, Any]) -> None:
    assert default_check(cluster(**fields), "defib-system") == NotPossible("why")


@pytest.mark.parametrize(
    "fields",
    [
        {"others": {}},
        {"blind": (Blindness(medik8s.CHECKS, T0, "not listed yet"),)},
        {"kinds": {}},
        {"kinds": {TEMPLATE: KINDS[TEMPLATE]}},
    ],
)
def test_nothing_is_concluded_before_everything_was_seen(fields: dict[str, Any]) -> None:
    assert default_check(cluster(**fields), "defib-system") is None


def test_its_news_says_how_to_be_rid_of_it() -> None:
    told = news_of(DEFAULTS["on"], NodeHealthCheck(metadata=Meta(name="nhc-worker-default", uid="u")), T0)
    assert (told.check, told.uid, told.reason, told.is_warning) == (
        "nhc-worker-default",
        "u",
        "DefaultCheckCreated",
        False,
    )
    assert "--default-check off" in told.message
