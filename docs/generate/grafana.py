"""The dashboard for Grafana, from one table: what a panel asks, and what it says. `deploy/grafana/defib.json` is made of it."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

WIDTH = 24
STAT_HEIGHT = 4
HEIGHT = 8
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
CHECK = 'check=~"$check"'


class Ask(msgspec.Struct, frozen=True):
    expr: str
    legend: str = ""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """`bad`: from this value on it is red."""

    title: str
    about: str
    asks: tuple[Ask, ...]
    type: str = "timeseries"
    unit: str = "short"
    width: int = 8
    bad: float | None = None
    stacked: bool = False


class Row(msgspec.Struct, frozen=True):
    title: str
    panels: tuple[Panel, ...]


def _stat(title: str, about: str, expr: str, *, bad: float | None = None, unit: str = "short") -> Panel:
    return Panel(title=title, about=about, asks=(Ask(expr),), type="stat", width=4, bad=bad, unit=unit)


ROWS = (
    Row(
        "Now",
        (
            _stat("Unhealthy nodes", "Of all NodeHealthChecks.", f'sum(max by (check) (defib_check_nodes{{state="unhealthy",{CHECK}}}))', bad=1),
            _stat("Being remediated", "Nodes of which a remediation is there.", f'sum(max by (check) (defib_check_nodes{{state="remediating",{CHECK}}}))'),
            _stat("Gates closed", "What holds back new remediations.", f"count(max by (check, gate) (defib_gate_closed{{{CHECK}}})) or vector(0)", bad=1),
            _stat("Need a person", "Incidents in which Defib can do no more.", 'max(defib_incidents{phase="NeedsPerson"})', bad=1),
            _stat("Replicas", "That this Prometheus can read.", "count(defib_build_info)"),
            _stat("Leading", "One, unless leadership is just moving.", "sum(defib_leading)"),
        ),
    ),
    Row(
        "Nodes",
        (
            Panel(title="Nodes by state", about="Of each NodeHealthCheck: unhealthy and being remediated.", width=12, asks=(Ask(f'max by (check, state) (defib_check_nodes{{state=~"unhealthy|remediating",{CHECK}}})', "{{check}} {{state}}"),)),
            Panel(title="Closed gates", about="While a line is there, this gate holds back new remediations: of a whole check, or of so many nodes. defib why NODE says more.", width=12, asks=(Ask(f"max by (check, gate) (defib_gate_closed{{{CHECK}}})", "{{check}} {{gate}}"), Ask(f"max by (check, gate) (defib_nodes_held{{{CHECK}}})", "{{check}} {{gate}}, nodes")), stacked=True),
            Panel(title="Remediations", about="Begun and ended, per hour.", asks=(Ask(f"sum by (check) (increase(defib_remediations_started_total{{{CHECK}}}[1h]))", "{{check}} begun"), Ask(f"sum by (check) (increase(defib_remediations_ended_total{{{CHECK}}}[1h]))", "{{check}} ended"))),
            Panel(title="Time to recover", about="From when a remediation was created until its node was healthy or gone, by kind: half of them, and nine of ten.", unit="s", asks=(Ask("histogram_quantile(0.5, sum by (le, remediation) (increase(nodehealthcheck_unhealthy_node_duration_seconds_bucket[6h])))", "{{remediation}} half"), Ask("histogram_quantile(0.9, sum by (le, remediation) (increase(nodehealthcheck_unhealthy_node_duration_seconds_bucket[6h])))", "{{remediation}} nine of ten"))),
            Panel(title="Nodes that are being remediated", about="And by what.", type="table", asks=(Ask("max by (name, namespace, remediation) (nodehealthcheck_ongoing_remediation) == 1"),)),
        ),
    ),
    Row(
        "Machines",
        (
            Panel(title="Open incidents by phase", about="Power cycles that are under way.", asks=(Ask("max by (phase) (defib_incidents)", "{{phase}}"),), stacked=True),
            Panel(title="Age of the oldest incident", about="A power cycle takes minutes.", unit="s", bad=3600, asks=(Ask("(time() - max(defib_incident_open_since_seconds)) * (max(defib_incident_open_since_seconds) > bool 0)", "oldest"),)),
            Panel(title="Nodes that cannot be fenced", about="If one of them failed now, its workloads would wait for a person.", type="table", asks=(Ask("min by (node) (defib_fence_ready) == 0"),)),
        ),
    ),
    Row(
        "Pods",
        (
            Panel(title="Pods moved", about="By how, per minute.", asks=(Ask("sum by (how) (rate(defib_pods_moved_total[$__rate_interval])) * 60", "{{how}}"),)),
            Panel(title="How fast pods leave", about="After their node had failed, where no proof was needed: half of them, and 99 of 100.", unit="s", asks=(Ask("histogram_quantile(0.5, sum by (le) (increase(defib_pod_move_seconds_bucket[1h])))", "half"), Ask("histogram_quantile(0.99, sum by (le) (increase(defib_pod_move_seconds_bucket[1h])))", "99 of 100"))),
            Panel(title="Waiting", about="Pods that must not run twice and wait for a proof; nodes that something holds back.", asks=(Ask("max(defib_pods_waiting_for_proof)", "pods, for a proof"), Ask("max by (reason) (defib_failover_held_nodes)", "nodes, {{reason}}"))),
        ),
    ),
    Row(
        "Drains",
        (
            Panel(title="Drains by phase", about="Of nodes that a DrainPolicy watches.", asks=(Ask("max by (phase) (defib_drains) > 0", "{{phase}}"),), stacked=True),
            Panel(title="Pods that have not left yet", about="By node that is being drained.", asks=(Ask("max by (node) (defib_drain_pods_left)", "{{node}}"),)),
            Panel(title="Steps", about="What was done to make pods leave, per hour, by rung and result.", asks=(Ask("sum by (rung, result) (increase(defib_drain_steps_total[1h])) > 0", "{{rung}} {{result}}"),)),
        ),
    ),
    Row(
        "Replicas",
        (
            Panel(title="Who leads", about="By instance.", asks=(Ask("defib_leading", "{{instance}}"),)),
            Panel(title="Changes of leadership", about="In the last half hour.", bad=5, asks=(Ask("sum(increase(defib_leadership_changes_total[30m]))", "changes"),)),
            Panel(title="Buckets", about="With election shards: held by each replica, and by none.", asks=(Ask("defib_buckets_held", "{{instance}}"), Ask("min(defib_buckets_unowned)", "nobody"))),
        ),
    ),
    Row(
        "Defib itself",
        (
            Panel(title="Requests to the API server", about="Per second, by status.", asks=(Ask("sum by (code) (rate(defib_api_requests_total[$__rate_interval]))", "{{code}}"),), stacked=True),
            Panel(title="How fast it answers", about="99 of 100 requests, by verb.", unit="s", asks=(Ask('histogram_quantile(0.99, sum by (le, verb) (rate(defib_api_request_seconds_bucket{verb!="WATCH"}[$__rate_interval])))', "{{verb}}"),)),
            Panel(title="How long a look takes", about="99 of 100 passes over the whole cluster, and of those the deciding.", unit="s", asks=(Ask("histogram_quantile(0.99, sum by (le) (rate(defib_pass_seconds_bucket[$__rate_interval])))", "pass"), Ask("histogram_quantile(0.99, sum by (le) (rate(defib_decide_seconds_bucket[$__rate_interval])))", "deciding"))),
            Panel(title="Blind for", about="How long a kind has been out of sight. Nothing is begun meanwhile.", unit="s", bad=120, asks=(Ask("(time() - max by (kind) (defib_watch_blind_since_seconds > 0))", "{{kind}}"),)),
            Panel(title="Failed actions", about="Per hour, by what they were to do.", asks=(Ask("sum by (action) (increase(defib_actions_failed_total[1h])) > 0", "{{action}}"),)),
            Panel(title="Told outside the cluster", about="Notifications and traces per hour, by result; and what waits.", asks=(Ask("sum by (to, result) (increase(defib_deliveries_total[1h]))", "{{to}} {{result}}"), Ask("sum by (to) (defib_deliveries_waiting)", "{{to}} waiting"))),
            Panel(title="CPU", about="Cores, by instance.", asks=(Ask("rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) defib_build_info", "{{instance}}"),)),
            Panel(title="Memory", about="Resident, by instance.", unit="bytes", asks=(Ask("process_resident_memory_bytes and on (instance) defib_build_info", "{{instance}}"),)),
            Panel(title="Objects in memory", about="By kind, of the replica that holds most.", asks=(Ask("max by (kind) (defib_cached_objects)", "{{kind}}"),)),
        ),
    ),
)  # fmt: skip


def dashboard() -> str:
    body = {
        "uid": "defib",
        "title": "Defib",
        "description": "Nodes that fail, what is done about them, and how Defib itself is.",
        "tags": ["kubernetes", "defib"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), _checks()]},
        "annotations": {"list": [_alerts()]},
        "panels": list(_panels()),
    }
    return json.dumps(body, indent=2) + "\n"


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _checks() -> dict[str, Any]:
    return {
        "name": "check",
        "label": "Check",
        "type": "query",
        "datasource": DATASOURCE,
        "query": "label_values(defib_check_nodes, check)",
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _alerts() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": 'ALERTS{alertname=~"Defib.+",alertstate="firing"}',
        "titleFormat": "{{alertname}}",
    }


def _panels() -> Iterator[dict[str, Any]]:
    number = y = 0
    for row in ROWS:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": _at(0, y, WIDTH, 1),
        }
        y, x = y + 1, 0
        height = STAT_HEIGHT if row.panels[0].type == "stat" else HEIGHT
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y = 0, y + height
            number += 1
            yield _panel(panel, number, _at(x, y, panel.width, height))
            x += panel.width
        y += height


def _at(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad is not None:
        steps.append({"color": "red", "value": panel.bad})
    is_graph = panel.type == "timeseries"
    custom = {"fillOpacity": 20 if panel.stacked else 5, "stacking": {"mode": "normal" if panel.stacked else "none"}}
    drawn = {"custom": custom} if is_graph else {}
    return {
        "id": number,
        "type": panel.type,
        "title": panel.title,
        "description": panel.about,
        "datasource": DATASOURCE,
        "gridPos": place,
        "targets": [_target(ask, letter, panel) for ask, letter in zip(panel.asks, "ABCDEF", strict=False)],
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}} | drawn, "overrides": []},
        "options": _options(panel),
    }  # fmt: skip


def _target(ask: Ask, letter: str, panel: Panel) -> dict[str, Any]:
    is_now = panel.type in ("stat", "table")
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "expr": ask.expr,
        "legendFormat": ask.legend or "__auto",
        "instant": is_now,
        "range": not is_now,
        "format": "table" if panel.type == "table" else "time_series",
    }


def _options(panel: Panel) -> dict[str, Any]:
    if panel.type == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "none"}
    if panel.type == "table":
        return {"showHeader": True}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
