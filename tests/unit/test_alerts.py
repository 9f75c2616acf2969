"""The alerts that come with the manifests: each asks for metrics that exist, and says what is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.decide.failover.turns import BUDGET
from defib.model.incident import Phase
from defib.telemetry.metrics import METRICS, Metric

FILE = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
KNOWN = {metric.name: metric for metric in METRICS}
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(FILE.read_text())["spec"]["groups"] for rule in group["rules"]
]

_NAMES = re.compile(r"\b(?:defib|nodehealthcheck)_\w+")
_BY = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_MATCHERS = re.compile(r"(\w+)\{([^}]*)\}")


def metrics_in(expr: str) -> list[Metric]:
    return [KNOWN[name] for name in _NAMES.findall(expr)]


def test_it_is_one_rule_object_of_the_prometheus_operator() -> None:
    (document,) = yaml.safe_load_all(FILE.read_text())
    assert (document["apiVersion"], document["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    names = [alert["alert"] for alert in ALERTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_is_whole(alert: dict[str, Any]) -> None:
    assert alert.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[mh]", alert["for"])
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["description"]
    assert alert["expr"].count("(") == alert["expr"].count(")")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_metric_and_label_that_an_alert_asks_for_exists(alert: dict[str, Any]) -> None:
    asked = metrics_in(alert["expr"])
    assert asked
    labels = {label for metric in asked for label in metric.labels}
    for grouped in _BY.findall(alert["expr"]):
        assert {label.strip() for label in grouped.split(",")} <= labels
    for name, matchers in _MATCHERS.findall(alert["expr"]):
        assert {matcher.partition("=")[0] for matcher in matchers.split(",")} <= set(KNOWN[name].labels)
    told = re.findall(r"\$labels\.(\w+)", str(alert["annotations"]))
    assert set(told) <= labels


def test_the_phase_that_needs_a_person_is_called_so() -> None:
    (expr,) = (alert["expr"] for alert in ALERTS if alert["alert"] == "DefibIncidentNeedsPerson")
    assert f'phase="{Phase.NEEDS_PERSON}"' in expr


def test_the_reason_of_a_node_that_waits_for_its_turn_is_called_so() -> None:
    (expr,) = (alert["expr"] for alert in ALERTS if alert["alert"] == "DefibFailoverHeldByBudget")
    assert f'reason="{BUDGET}"' in expr


def test_pods_may_wait_for_a_proof_for_five_minutes_before_anybody_is_called() -> None:
    (patience,) = (alert["for"] for alert in ALERTS if alert["alert"] == "DefibPodsWaitForProof")
    assert patience == "5m"


def test_everything_that_the_reference_tells_to_alert_on_is_there() -> None:
    page = (FILE.parents[1] / "docs" / "reference" / "metrics.md").read_text().partition("## What to alert on")[2]
    advised = [
        row.split("`")[1].replace("\\|", "|") for row in page.splitlines() if row.startswith("| ") and "`" in row
    ]
    assert advised
    assert set(advised) <= {alert["expr"] for alert in ALERTS}
