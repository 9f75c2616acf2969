"""Every metric there is, declared once in a table; the reference page is made from it.

Labels are taken from small closed sets only: a node or pod name as a label would cost memory here and in every
Prometheus that reads us. The three `nodehealthcheck_…` metrics are an exception, because dashboards know them with those
labels: of what is over, only the most recent is kept. `defib_fence_ready` is another one: which node cannot be fenced is
what an alert has to say, and there is a series only for nodes that a template covers. So it is with drains: there is a
series only for nodes that are being drained, and for those of which the drain has failed.
"""

from typing import Literal

import msgspec

REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PASS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
MOVE_BUCKETS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
UNHEALTHY_BUCKETS = (30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 600.0, 1200.0, 2400.0, 3600.0)


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what is measured, in words that a person on call understands."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


BUILD = Metric(
    name="defib_build_info",
    type="gauge",
    labels=("version", "python"),
    help="Always 1; the labels say what is running.",
)
REQUESTS = Metric(
    name="defib_api_requests_total",
    type="counter",
    labels=("verb", "code"),
    help="Finished requests to the API server, by HTTP verb (WATCH for watches) and status; code none means that no answer came.",
)
REQUEST_SECONDS = Metric(
    name="defib_api_request_seconds",
    type="histogram",
    labels=("verb",),
    buckets=REQUEST_BUCKETS,
    help="How long the API server took to answer.",
)
WATCH_EVENTS = Metric(
    name="defib_watch_events_total",
    type="counter",
    labels=("kind",),
    help="Events that the API server sent, bookmarks included.",
)
RELISTS = Metric(
    name="defib_relists_total",
    type="counter",
    labels=("kind", "reason"),
    help="How often a whole kind was listed anew, and why. The first list is one of them.",
)
BLIND_SINCE = Metric(
    name="defib_watch_blind_since_seconds",
    type="gauge",
    labels=("kind",),
    help="Since when (Unix time) we have not been sure to see the newest state of a kind; 0 when we see it.",
)
CACHED = Metric(
    name="defib_cached_objects",
    type="gauge",
    labels=("kind",),
    help="Objects held in memory.",
)
SET_ASIDE = Metric(
    name="defib_set_aside_objects",
    type="gauge",
    labels=("kind",),
    help="Objects that exist but cannot be read as their kind. They are left alone; the log names them.",
)
PASSES = Metric(
    name="defib_passes_total",
    type="counter",
    help="How often the whole cluster was looked at.",
)
PASS_SECONDS = Metric(
    name="defib_pass_seconds",
    type="histogram",
    buckets=PASS_BUCKETS,
    help="How long one look at the whole cluster took.",
)
DECIDE_SECONDS = Metric(
    name="defib_decide_seconds",
    type="histogram",
    buckets=PASS_BUCKETS,
    help="How long it took to conclude from one look at the cluster what should be done.",
)
CHECK_NODES = Metric(
    name="defib_check_nodes",
    type="gauge",
    labels=("check", "state"),
    help="Nodes of a NodeHealthCheck: observed (all that it selects), healthy, unhealthy, remediating.",
)
GATE_CLOSED = Metric(
    name="defib_gate_closed",
    type="gauge",
    labels=("check", "gate"),
    help="1 while this gate holds back new remediations of a NodeHealthCheck; absent while it is open.",
)
NODES_HELD = Metric(
    name="defib_nodes_held",
    type="gauge",
    labels=("check", "gate"),
    help=(
        "Unhealthy nodes that a gate of their own holds back, such as Approval, Lock or RateLimit; absent while there are none."
    ),
)
STARTED = Metric(
    name="defib_remediations_started_total",
    type="counter",
    labels=("check",),
    help="Remediations that were created.",
)
ENDED = Metric(
    name="defib_remediations_ended_total",
    type="counter",
    labels=("check",),
    help="Remediations that are over: their node is healthy again, or gone.",
)
FAILED = Metric(
    name="defib_actions_failed_total",
    type="counter",
    labels=("action",),
    help="Actions that did not work, by what they were to do. They are tried again.",
)
OLD_REMEDIATION = Metric(
    name="nodehealthcheck_old_remediation_cr",
    type="counter",
    labels=("name", "namespace"),
    help="Remediations that have been there for two days, by node (name); namespace is always empty.",
)
ONGOING = Metric(
    name="nodehealthcheck_ongoing_remediation",
    type="gauge",
    labels=("name", "namespace", "remediation"),
    help="1 while a node (name) is being remediated, by namespace and kind of the remediation; 0 for a while afterwards.",
)
UNHEALTHY_SECONDS = Metric(
    name="nodehealthcheck_unhealthy_node_duration_seconds",
    type="histogram",
    labels=("name", "namespace", "remediation"),
    buckets=UNHEALTHY_BUCKETS,
    help="How long remediations took from their creation until the node (name) was healthy again or gone.",
)
FENCE_READY = Metric(
    name="defib_fence_ready",
    type="gauge",
    labels=("node",),
    help=(
        "1 when this node could be fenced the last time that was tried, or is switched by hand; 0 when not. For nodes "
        "that a PowerCycleRemediationTemplate in use covers, once they were tried."
    ),
)
FENCE_CHECKED = Metric(
    name="defib_fence_checked_seconds",
    type="gauge",
    help="When (Unix time) the way to the power of any node was last tried; 0 when there is none to try, or none was yet.",
)
INCIDENTS = Metric(
    name="defib_incidents",
    type="gauge",
    labels=("phase",),
    help="Open incidents, by their phase: power cycles, and accounts of other remediations (Open). NeedsPerson: Defib can do no more.",
)
INCIDENT_SINCE = Metric(
    name="defib_incident_open_since_seconds",
    type="gauge",
    help="Since when (Unix time) the oldest of the open power cycles has been open; 0 when there is none.",
)
PODS_MOVED = Metric(
    name="defib_pods_moved_total",
    type="counter",
    labels=("how",),
    help=(
        "Pods that were deleted so that they run elsewhere: graceful, forced, or freed (their node was proved to be down)."
    ),
)
POD_MOVE_SECONDS = Metric(
    name="defib_pod_move_seconds",
    type="histogram",
    buckets=MOVE_BUCKETS,
    help="How long after its node had failed a pod was deleted, where no proof had to be waited for. Node times are whole seconds.",
)
PODS_WAITING = Metric(
    name="defib_pods_waiting_for_proof",
    type="gauge",
    help="Pods of failed nodes that PodFailoverPolicies or PodFailoverRemediations would move, and that must not run twice.",
)
FAILOVER_HELD = Metric(
    name="defib_failover_held_nodes",
    type="gauge",
    labels=("reason",),
    help="Failed nodes with pods that PodFailoverPolicies would move and something holds back, by the reason; absent while none is.",
)
DRAINS = Metric(
    name="defib_drains",
    type="gauge",
    labels=("phase",),
    help="Drains of nodes that a DrainPolicy watches, by their phase. Only of the replica that leads.",
)
DRAIN_FAILED = Metric(
    name="defib_drain_failed",
    type="gauge",
    labels=("node",),
    help="1 while the drain of this node has taken longer than it may; absent otherwise. Only of the replica that leads.",
)
NODE_DRAIN_TIMEOUT = Metric(
    name="upgradeoperator_node_drain_timeout",
    type="gauge",
    labels=("node_name",),
    help="The same as defib_drain_failed, by the name that it has on OpenShift.",
)
DRAIN_PODS_LEFT = Metric(
    name="defib_drain_pods_left",
    type="gauge",
    labels=("node",),
    help="Pods that have not left this node yet, and must; for nodes that are being drained. Only of the replica that leads.",
)
DRAIN_ESTIMATE = Metric(
    name="defib_drain_estimate_seconds",
    type="gauge",
    labels=("policy",),
    help=(
        "How long all that is still to be drained may take, at most, as the status of the DrainPolicy says. "
        "Only of the replica that leads."
    ),
)
DRAIN_STEPS = Metric(
    name="defib_drain_steps_total",
    type="counter",
    labels=("rung", "result"),
    help=(
        "Steps that were taken to make a pod leave, by rung (Evict, Delete, RemoveFinalizers, Kill, ForceDelete) and result: "
        "done, blocked (by a disruption budget), failed."
    ),
)
LEFT_BEHIND = Metric(
    name="defib_power_calls_left_behind",
    type="gauge",
    help="Calls to BMCs that hang in a thread though nobody waits for them any more.",
)

LEFTOVER_KINDS = ("taint", "power", "annotation", "remediation", "member")
LEFTOVERS = Metric(
    name="defib_leftovers_collected_total",
    type="counter",
    labels=("kind",),
    help=(
        "What dead remediations and dead replicas had left, and was taken away: taint, power (what kept a Metal3 host off), "
        "annotation, remediation, member (the Lease of a replica)."
    ),
)
LEADING = Metric(
    name="defib_leading",
    type="gauge",
    help=(
        "1 while this replica leads and knows what the last leader did; else 0. With election shards: while it admits. "
        "Absent where it only watches."
    ),
)
LEADER_KNOWN = Metric(
    name="defib_leader_known",
    type="gauge",
    help="1 while this replica leads or sees who does; 0 when nobody leads, or when it cannot see the lock.",
)
LEADERSHIP_CHANGES = Metric(
    name="defib_leadership_changes_total",
    type="counter",
    help="How often this replica has begun to lead. With election shards: to admit.",
)
CATCH_UP_SECONDS = Metric(
    name="defib_catch_up_seconds",
    type="histogram",
    buckets=MOVE_BUCKETS,
    help="How long a replica that had just been given a mandate looked at the cluster anew before it acted, a minute at most.",
)
BUCKETS_HELD = Metric(
    name="defib_buckets_held",
    type="gauge",
    help="With election shards: how many buckets this replica holds; else there is no such series.",
)
BUCKETS_UNOWNED = Metric(
    name="defib_buckets_unowned",
    type="gauge",
    help="With election shards: how many buckets nobody holds, as far as this replica sees; else there is no such series.",
)
REPLICAS_SEEN = Metric(
    name="defib_replicas_seen",
    type="gauge",
    help="With election shards: how many live replicas this one sees, itself included; else there is no such series.",
)
DELIVERY_RESULTS = ("sent", "failed", "dropped")
DELIVERIES = Metric(
    name="defib_deliveries_total",
    type="counter",
    labels=("to", "result"),
    help=(
        "What was to be told outside the cluster, by where (webhook, traces) and result: sent, failed (refused, or tried for "
        "too long), dropped (too much waited already). Absent where none is set up."
    ),
)
DELIVERIES_WAITING = Metric(
    name="defib_deliveries_waiting",
    type="gauge",
    labels=("to",),
    help="What waits to be told outside the cluster, by where (webhook, traces). Absent where none is set up.",
)

METRICS = (
    BUILD,
    REQUESTS,
    REQUEST_SECONDS,
    WATCH_EVENTS,
    RELISTS,
    BLIND_SINCE,
    CACHED,
    SET_ASIDE,
    PASSES,
    PASS_SECONDS,
    DECIDE_SECONDS,
    CHECK_NODES,
    GATE_CLOSED,
    NODES_HELD,
    STARTED,
    ENDED,
    FAILED,
    OLD_REMEDIATION,
    ONGOING,
    UNHEALTHY_SECONDS,
    FENCE_READY,
    FENCE_CHECKED,
    INCIDENTS,
    INCIDENT_SINCE,
    PODS_MOVED,
    POD_MOVE_SECONDS,
    PODS_WAITING,
    FAILOVER_HELD,
    DRAINS,
    DRAIN_FAILED,
    NODE_DRAIN_TIMEOUT,
    DRAIN_PODS_LEFT,
    DRAIN_ESTIMATE,
    DRAIN_STEPS,
    LEFT_BEHIND,
    LEFTOVERS,
    LEADING,
    LEADER_KNOWN,
    LEADERSHIP_CHANGES,
    CATCH_UP_SECONDS,
    BUCKETS_HELD,
    BUCKETS_UNOWNED,
    REPLICAS_SEEN,
    DELIVERIES,
    DELIVERIES_WAITING,
)
