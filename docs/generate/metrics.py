"""The page of metrics, from the catalogue, and what is worth an alert."""

from defib.telemetry.catalogue import METRICS, Metric

HEAD = """# Metrics

Served at `/metrics` of the probes' address in Prometheus text. `kind` is what is watched, such as `nodes`; `check` is a
NodeHealthCheck. The three `nodehealthcheck_…` metrics have the names and labels that dashboards know from the medik8s
operator; their series of nodes that are done with are kept for the latest hundred. `upgradeoperator_node_drain_timeout` is
known from OpenShift; of drains only the replica that leads tells. Besides these there are the usual
`process_…` metrics (CPU, memory, open files).

| name | type | labels | meaning |
|---|---|---|---|
"""

TAIL = """
## What to alert on

`deploy/alerts.yaml` has all of these as a PrometheusRule, with summaries and severities, and a [page](../runbooks/README.md) for
each that says what to do. `deploy/grafana/defib.json` shows them as a dashboard.

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
| nodes wait for a person's approval | `max by (check) (defib_nodes_held{gate="Approval"}) > 0` for 5 minutes |
| what Defib does keeps failing | `increase(defib_actions_failed_total[15m]) > 3` |
| a remediation has been going on for an hour | `max by (name, remediation) (min_over_time(nodehealthcheck_ongoing_remediation[1h]) == 1 and nodehealthcheck_ongoing_remediation offset 1h == 1)` |
| notifications or traces do not arrive | `sum by (to) (increase(defib_deliveries_total{result=~"failed\\|dropped"}[15m])) > 0 or max by (to) (min_over_time(defib_deliveries_waiting[15m])) > 0` |
"""


def metrics_page() -> str:
    return HEAD + "".join(_row(metric) for metric in METRICS) + TAIL


def _row(metric: Metric) -> str:
    return f"| `{metric.name}` | {metric.type} | {', '.join(metric.labels) or 'none'} | {metric.help} |\n"
