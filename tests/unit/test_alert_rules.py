"""The alerts as Prometheus itself understands them: promtool reads them, and lets histories of series run through them."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.telemetry.catalogue import NODE_DRAIN_TIMEOUT, OLD_REMEDIATION, ONGOING, UNHEALTHY_SECONDS
from defib.telemetry.metrics import Metrics
from tests.unit.alert_cases import CALM, CASES, Case

RULES: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "alerts.yaml").read_text())["spec"]
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
PLACE = re.compile(r"\{\{ \$(labels\.(\w+)|value) \}\}")


def ran(command: list[Any], given: bytes = b"") -> str:
    done = subprocess.run(
        [str(word) for word in command],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=15,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


def judged(promtool: Path, place: Path, test: dict[str, Any]) -> None:
    (place / "alerts.yaml").write_text(yaml.safe_dump(RULES))
    (place / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]})
    )
    assert "SUCCESS" in ran([promtool, "test", "rules", place / "test.yaml"])


def told(case: Case) -> dict[str, Any]:
    """What somebody who is called reads: the summary as the case says it, the rest as the rule does."""
    rule = ALERTS[case.alert]
    annotations = {name: PLACE.sub(lambda found: case.labels.get(found[2], ""), text) for name, text in _texts(rule)}
    if case.summary:
        annotations["summary"] = case.summary
    return {"exp_labels": case.labels | rule["labels"], "exp_annotations": annotations}


def _texts(rule: dict[str, Any]) -> list[tuple[str, str]]:
    return list(rule["annotations"].items())


def series(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"series": name, "values": value} for name, value in values.items()]


def test_promtool_accepts_the_rules(promtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(yaml.safe_dump(RULES))
    assert f"SUCCESS: {len(ALERTS)} rules found" in ran([promtool, "check", "rules", "--lint-fatal", file])


def test_every_alert_has_a_history_in_which_it_fires() -> None:
    assert {case.alert for case in CASES} == set(ALERTS)
    unsaid = [case.alert for case in CASES if "{{" in ALERTS[case.alert]["annotations"]["summary"] and not case.summary]
    assert unsaid == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_an_alert_fires_when_it_must_and_not_before(case: Case, promtool: Path, tmp_path: Path) -> None:
    expected: list[dict[str, Any]] = [
        {"eval_time": at, "alertname": case.alert, "exp_alerts": []} for at in case.quiet_at
    ]
    expected.append({"eval_time": case.fires_at, "alertname": case.alert, "exp_alerts": [told(case)]})
    judged(
        promtool, tmp_path, {"interval": case.step, "input_series": series(case.series), "alert_rule_test": expected}
    )


def test_nobody_is_called_while_all_is_well(promtool: Path, tmp_path: Path) -> None:
    firing = 'ALERTS{alertstate="firing"}'
    asked = [{"expr": firing, "eval_time": f"{minute}m", "exp_samples": []} for minute in range(1, 180, 3)]
    judged(promtool, tmp_path, {"interval": "1m", "input_series": series(CALM), "promql_expr_test": asked})


def test_the_metrics_are_named_as_prometheus_wants_them(promtool: Path) -> None:
    """But for those that others have given their names to."""
    metrics = Metrics()
    metrics.old("n1")
    metrics.ended("n1", "x", "Foo", 1.0, "workers")
    done = subprocess.run(
        [promtool, "check", "metrics"], input=metrics.render(), capture_output=True, timeout=15, check=False
    )
    foreign = {row.name for row in (OLD_REMEDIATION, ONGOING, UNHEALTHY_SECONDS, NODE_DRAIN_TIMEOUT)}
    complaints = [
        line for line in (done.stdout + done.stderr).decode().splitlines() if line.split(" ")[0] not in foreign
    ]
    assert complaints == []
