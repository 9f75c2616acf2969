"""Writes docs/reference from the tables in the code: `python docs/generate.py`. A test fails when a page is not up to date."""  # noqa: INP001  docs is no package

from pathlib import Path

from defib.config import FILE_VARIABLE, SETTINGS, Setting
from defib.decide.fencing.table import TRANSITIONS
from defib.model.incident import Phase
from defib.telemetry.catalogue import METRICS, Metric

REFERENCE = Path(__file__).parent / "reference"

SETTINGS_HEAD = f"""# Settings of `defib run`

Each setting can be given in three ways. A flag beats the environment, the environment beats the file, the file beats the
default.

| way | example |
|---|---|
| flag | `defib run --log-level debug` |
| environment; an empty variable counts as not set | `DEFIB_LOG_LEVEL=debug defib run` |
| file, YAML; named by `--config` or `{FILE_VARIABLE}` | `log_level: debug` |

Names that are no settings, and values that are not allowed, are errors wherever they stand, even where a stronger way
hides them: `defib run` names all of them, one line each, and ends with exit code 2. Only the variables that Kubernetes
itself makes for a service called `defib` (`DEFIB_SERVICE_HOST`, `DEFIB_PORT` and the like) are passed over.

| flag | environment | file | default | may be |
|---|---|---|---|---|
"""

PHASES_HEAD = """# Phases of an incident

Drawn from the table in `src/defib/decide/fencing/table.py`, which is the whole of it. What each phase is for:
[power cycles](../power-cycle.md).

```mermaid
stateDiagram-v2
{picture}```

| in | when | to |
|---|---|---|
"""

METRICS_HEAD = """# Metrics

Served at `/metrics` of the probes' address in Prometheus text. `kind` is what is watched, such as `nodes`; `check` is a
NodeHealthCheck. The three `nodehealthcheck_…` metrics have the names and labels that dashboards know from the medik8s
operator; their series of nodes that are done with are kept for the latest hundred. `upgradeoperator_node_drain_timeout` is
known from OpenShift; of drains only the replica that leads tells. Besides these there are the usual
`process_…` metrics (CPU, memory, open files).

| name | type | labels | meaning |
|---|---|---|---|
"""

METRICS_TAIL = """
## What to alert on

`deploy/alerts.yaml` has all of these as a PrometheusRule, with summaries and severities.

| when | PromQL |
|---|---|
| a node could not be fenced if it failed now | `min by (node) (defib_fence_ready) == 0` for 15 minutes |
| an incident needs a person | `max(defib_incidents{phase="NeedsPerson"}) > 0` |
| an incident has been open for an hour | `max(defib_incident_open_since_seconds) > 0 and time() - max(defib_incident_open_since_seconds) > 3600` |
| nobody has tried for a day whether nodes could be fenced | `max(defib_fence_checked_seconds) > 0 and time() - max(defib_fence_checked_seconds) > 90000` |
| pods have waited for a proof for five minutes | `max(defib_pods_waiting_for_proof) > 0` for 5 minutes |
| failed nodes wait for their turn | `max(defib_failover_held_nodes{reason="Budget"}) > 0` for 5 minutes |
| a drain has taken longer than it may | `max by (node) (defib_drain_failed) == 1` |
| a drain has been held back for a quarter of an hour | `max(defib_drains{phase="Held"}) > 0` for 15 minutes |
| a drain waits for a person's approval | `max(defib_drains{phase="WaitingForApproval"}) > 0` for 5 minutes |
| calls to BMCs hang | `max(defib_power_calls_left_behind) > 16` |
| no replica runs | `absent(defib_build_info)` for 5 minutes |
| no replica leads | `sum(defib_leading) == 0` for 2 minutes |
| two replicas lead, for longer than two scrapes can differ | `sum(defib_leading) > 1` for 2 minutes |
| there is no standby | `count(defib_leading) < 2` for 15 minutes |
| a replica does not see who leads | `defib_leader_known == 0` for 2 minutes |
| leadership keeps moving | `sum(increase(defib_leadership_changes_total[30m])) > 4` |
| a bucket has no replica (election shards), for longer than two leases | `min(defib_buckets_unowned) > 0` for a minute |
| Defib does not see the cluster | `defib_watch_blind_since_seconds > 0 and time() - defib_watch_blind_since_seconds > 120` |
| Defib makes no passes | `increase(defib_passes_total[15m]) == 0` |
| the API server fails, or is too busy | `sum(rate(defib_api_requests_total{code=~"none\\|429\\|5.."}[5m])) > 0.1` |
| objects that cannot be read | `max by (kind) (defib_set_aside_objects) > 0` |
| nodes are unhealthy, and something holds remediation back | `sum by (check) (defib_check_nodes{state="unhealthy"}) > 0 and on (check) max by (check) (defib_gate_closed) == 1` |
| what Defib does keeps failing | `increase(defib_actions_failed_total[15m]) > 3` |
| a remediation has been going on for an hour | `max by (name, remediation) (min_over_time(nodehealthcheck_ongoing_remediation[1h]) == 1 and nodehealthcheck_ongoing_remediation offset 1h == 1)` |
"""


def pages() -> dict[str, str]:
    """Every page of the reference, by file name."""
    return {"settings.md": _settings(), "metrics.md": _metrics(), "power-cycle-phases.md": _phases()}


def _phases() -> str:
    """The picture, and the same as a table: in a phase, the first row that fits is taken."""
    arrows = dict.fromkeys((row.source, row.target) for row in TRANSITIONS)
    picture = "".join(f"    {source.name} --> {target.name}\n" for source, target in arrows)
    names = "".join(f"    {phase.name}: {phase.value}\n" for phase in Phase)
    rows = "".join(f"| {row.source.value} | {row.name} | {row.target.value} |\n" for row in TRANSITIONS)
    return (
        PHASES_HEAD.format(picture=f"{names}    [*] --> {Phase.OPEN.name}\n{picture}    {Phase.CLOSED.name} --> [*]\n")
        + rows
    )


def _settings() -> str:
    rows = "".join(_setting_row(setting) for setting in SETTINGS)
    details = "".join(f"\n## {setting.key}\n\n{setting.about.description}\n" for setting in SETTINGS)
    return SETTINGS_HEAD + rows + details


def _setting_row(setting: Setting) -> str:
    default = f"`{setting.default_text}`" if setting.default_text else "not set"
    return f"| `{setting.flag}` | `{setting.variable}` | `{setting.key}` | {default} | {setting.about.form.allowed} |\n"


def _metrics() -> str:
    return METRICS_HEAD + "".join(_metric_row(metric) for metric in METRICS) + METRICS_TAIL


def _metric_row(metric: Metric) -> str:
    return f"| `{metric.name}` | {metric.type} | {', '.join(metric.labels) or 'none'} | {metric.help} |\n"


def main() -> None:
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
