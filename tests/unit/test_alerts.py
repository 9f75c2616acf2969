"""The alerts that come with the manifests: each asks for metrics that exist, and says what is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.config import Settings
from defib.coordinate.leadership import REST_SECONDS
from defib.decide.failover.turns import BUDGET
from defib.model.incident import Phase
from defib.model.node_drain import Phase as DrainPhase
from defib.telemetry.catalogue import METRICS, NODE_DRAIN_TIMEOUT, OLD_REMEDIATION, Metric
from tests.tidy.repository import anchors

FILE = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
RUNBOOKS = FILE.parents[1] / "docs" / "runbooks"
KNOWN = {metric.name: metric for metric in METRICS}
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(FILE.read_text())["spec"]["groups"] for rule in group["rules"]
]

SCRAPE_SECONDS = 30  # as most do

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
def test_every_alert_leads_to_a_page_that_says_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["annotations"]["runbook_url"] == f"https://defib.dev/runbooks/{alert['alert']}.html"
    title, *rest = re.split(r"^#+ (.+)$", (RUNBOOKS / f"{alert['alert']}.md").read_text(), flags=re.MULTILINE)[1:]
    assert title == alert["alert"]
    assert rest[1::2] == ["Meaning", "Impact", "What to look at", "What to do"]
    assert [part for part in rest[2::2] if len(part.split()) < 5] == []


def test_every_page_for_people_on_call_is_about_an_alert_and_in_the_list() -> None:
    names = {alert["alert"]: alert["labels"]["severity"] for alert in ALERTS}
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {*names, "README"}
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \|", (RUNBOOKS / "README.md").read_text(), re.MULTILINE)
    assert [(name, file, severity) for name, file, severity in rows] == [
        (name, name, severity) for name, severity in names.items()
    ]


def test_what_a_page_tells_to_search_the_log_for_is_what_defib_logs() -> None:
    source = "".join(path.read_text() for path in (FILE.parents[1] / "src" / "defib").rglob("*.py"))
    wanted = {text for path in RUNBOOKS.glob("*.md") for text in re.findall(r"grep '([\w ]+)'", path.read_text())}
    assert {"object set aside", "action failed", "cannot be told"} <= wanted
    assert [text for text in wanted if text not in source] == []


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


def test_the_phases_of_drains_that_call_for_a_person_are_called_so() -> None:
    phases = {"DefibDrainHeld": DrainPhase.HELD, "DefibDrainWaitsForApproval": DrainPhase.APPROVAL}
    for name, phase in phases.items():
        assert f'phase="{phase.value}"' in the(name)["expr"]


def test_every_alert_about_drains_leads_to_a_part_of_the_guide() -> None:
    page = FILE.parents[1] / "docs" / "drains.md"
    links = [
        re.findall(r"docs/drains\.md#([\w-]+)", alert["annotations"]["description"])
        for alert in ALERTS
        if "defib_drain" in alert["expr"]
    ]
    assert [len(found) for found in links] == [1, 1, 1]
    assert {anchor for found in links for anchor in found} <= anchors(page.read_text())


def test_an_alert_that_openshift_has_for_nodekeeper_finds_its_metric() -> None:
    """UpgradeNodeDrainFailedSRE asks for the series that is 1, and names the node by this label."""
    assert (NODE_DRAIN_TIMEOUT.name, NODE_DRAIN_TIMEOUT.labels) == (
        "upgradeoperator_node_drain_timeout",
        ("node_name",),
    )


def test_pods_may_wait_for_a_proof_for_five_minutes_before_anybody_is_called() -> None:
    (patience,) = (alert["for"] for alert in ALERTS if alert["alert"] == "DefibPodsWaitForProof")
    assert patience == "5m"


def the(alert: str) -> dict[str, Any]:
    (found,) = (one for one in ALERTS if one["alert"] == alert)
    return found


def seconds_of(patience: str) -> int:
    return int(patience[:-1]) * {"m": 60, "h": 3600}[patience[-1]]


def test_nobody_is_called_while_a_standby_takes_over() -> None:
    """A crash takes a lease and a retry, and the only one rests after it stepped aside; then a scrape must have seen it."""
    settings = Settings()
    takes = settings.lease_duration_seconds + settings.retry_period_seconds
    assert seconds_of(the("DefibNobodyLeads")["for"]) >= REST_SECONDS + settings.retry_period_seconds + SCRAPE_SECONDS
    for name in ("DefibNobodyLeads", "DefibReplicaDoesNotSeeLeader"):
        assert seconds_of(the(name)["for"]) >= takes + SCRAPE_SECONDS, name


def test_an_old_leader_s_last_word_is_no_second_leader() -> None:
    """It is read until the next scrape; and some scrape once a minute."""
    assert seconds_of(the("DefibTwoLead")["for"]) > 60


def test_sh_04_somebody_is_called_when_a_bucket_is_unowned_for_longer_than_two_leases() -> None:
    alert = the("DefibBucketUnowned")
    assert seconds_of(alert["for"]) >= 2 * Settings().lease_duration_seconds
    assert alert["expr"].startswith("min("), "a replica that sees nothing thinks that all are"


def test_who_only_watches_does_not_call_for_a_leader() -> None:
    """It has no such series, and `absent` would take that for a failure."""
    assert [alert["alert"] for alert in ALERTS if "absent(defib_lead" in alert["expr"]] == []


def test_what_a_role_lacks_or_a_cluster_does_not_have_is_no_failure_of_the_api_server() -> None:
    """It is asked for again and again: where kinds are missing on purpose, that would be an alarm for ever."""
    (codes,) = re.findall(r'code=~"([^"]+)"', the("DefibApiServerRefuses")["expr"])
    assert [
        code for code in ("none", "200", "403", "404", "409", "429", "500", "503") if re.fullmatch(codes, code)
    ] == [
        "none",
        "429",
        "500",
        "503",
    ]


def test_an_alert_about_something_that_is_counted_for_the_first_time_can_fire() -> None:
    """Of a node a series is born with 1, and what is born has not increased."""
    asked = [alert["expr"] for alert in ALERTS if OLD_REMEDIATION.name in alert["expr"]]
    assert asked
    born = f"({OLD_REMEDIATION.name} unless {OLD_REMEDIATION.name} offset 1h) > 0 or "
    assert all(expr.startswith(born) for expr in asked)


def test_every_alert_that_the_guide_to_several_replicas_explains_is_there() -> None:
    page = (FILE.parents[1] / "docs" / "high-availability.md").read_text()
    explained = set(re.findall(r"\bDefib[A-Z]\w+", page))
    assert explained
    assert explained <= {alert["alert"] for alert in ALERTS}


def test_everything_that_the_reference_tells_to_alert_on_is_there() -> None:
    page = (FILE.parents[1] / "docs" / "reference" / "metrics.md").read_text().partition("## What to alert on")[2]
    advised = [
        row.split("`")[1].replace("\\|", "|") for row in page.splitlines() if row.startswith("| ") and "`" in row
    ]
    assert advised
    assert set(advised) <= {alert["expr"] for alert in ALERTS}
