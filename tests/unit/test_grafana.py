"""The dashboard for Grafana: what it asks exists, Prometheus understands it, and nothing lies on top of anything else."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from defib.telemetry.catalogue import METRICS, Metric
from docs.generate.grafana import dashboard

FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "defib.json"
BOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
ASKED = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
KNOWN = {metric.name: metric for metric in METRICS}
FOREIGN = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
NAMES = re.compile(r"\b((?:defib|nodehealthcheck|upgradeoperator|process)_\w+)")
LABELS = re.compile(r'\b(\w+)(?:=~|!~|!=|=)"')


def metric(name: str) -> Metric:
    """A histogram is asked for by its parts."""
    return KNOWN.get(name) or KNOWN[re.sub(r"_(bucket|sum|count)$", "", name)]


def asked_for(expr: str) -> list[Metric]:
    return [metric(name) for name in NAMES.findall(expr) if name not in FOREIGN]


def test_the_file_is_what_its_table_says() -> None:
    assert FILE.read_text() == dashboard(), "make docs writes it anew"


@pytest.mark.parametrize(("title", "target"), ASKED, ids=[title for title, _ in ASKED])
def test_every_metric_and_label_that_a_panel_asks_for_exists(title: str, target: dict[str, Any]) -> None:
    expr, legend = target["expr"], target["legendFormat"]
    metrics = asked_for(expr)
    assert metrics, title
    labels = {label for one in metrics for label in one.labels} | {"le", "instance"}
    grouped = {label.strip() for found in re.findall(r"\bby \(([^)]*)\)", expr) for label in found.split(",")}
    assert grouped | set(LABELS.findall(expr)) | set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels


def test_most_metrics_are_on_the_dashboard() -> None:
    """Those that are not say something to whoever searches for a bug."""
    shown = {one.name for _, target in ASKED for one in asked_for(target["expr"])}
    assert KNOWN.keys() - shown == {
        "defib_watch_events_total",
        "defib_relists_total",
        "defib_set_aside_objects",
        "defib_passes_total",
        "nodehealthcheck_old_remediation_cr",
        "defib_fence_checked_seconds",
        "defib_drain_failed",
        "upgradeoperator_node_drain_timeout",
        "defib_drain_estimate_seconds",
        "defib_power_calls_left_behind",
        "defib_leftovers_collected_total",
        "defib_leader_known",
        "defib_catch_up_seconds",
        "defib_replicas_seen",
    }


def test_promtool_understands_every_question(promtool: Path, tmp_path: Path) -> None:
    exprs = [*(target["expr"] for _, target in ASKED), BOARD["annotations"]["list"][0]["expr"]]
    rules = [
        {"record": f"asked:{number}", "expr": expr.replace("$__rate_interval", "2m").replace("$check", ".*")}
        for number, expr in enumerate(exprs)
    ]
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, timeout=15, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_panels_have_places_of_their_own_and_explain_themselves() -> None:
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert [panel["title"] for panel in PANELS if not panel["description"].endswith(".")] == []
    covered = [fields(panel["gridPos"]) for panel in BOARD["panels"]]
    assert [one & other for one, other in combinations(covered, 2) if one & other] == []
    assert max(x for field in covered for x, _ in field) == 23


def fields(at: dict[str, int]) -> set[tuple[int, int]]:
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
