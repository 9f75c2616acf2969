"""Every metric there is, declared once in a table; the reference page is made from it.

Each Metrics object has its own registry, so that several operators can live in one process. Labels are taken from
small closed sets only: a node or pod name as a label would cost memory here and in every Prometheus that reads us. The
three `nodehealthcheck_…` metrics are an exception, because dashboards know them with those labels: of what is over,
only the most recent is kept. `defib_fence_ready` is the other one: which node cannot be fenced is what an alert has to
say, and there is a series only for nodes that a template covers.
"""

import platform
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from defib import __version__
from defib.telemetry.series import Counts, OfChecks, OfFences, OfNodes, Ongoing

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
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
    help="Open incidents, by their phase. NeedsPerson: Defib can do no more.",
)
INCIDENT_SINCE = Metric(
    name="defib_incident_open_since_seconds",
    type="gauge",
    help="Since when (Unix time) the oldest of the open incidents has been open; 0 when there is none.",
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
LEFT_BEHIND = Metric(
    name="defib_power_calls_left_behind",
    type="gauge",
    help="Calls to BMCs that hang in a thread though nobody waits for them any more.",
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
    LEFT_BEHIND,
)


class Metrics:
    """What one operator counts. Every method is cheap and may be called from the event loop at any time."""

    def __init__(self) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # twice the series, and nobody reads them
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = self._counter(REQUESTS)
        self._request_seconds = self._histogram(REQUEST_SECONDS)
        self._events = self._counter(WATCH_EVENTS)
        self._relists = self._counter(RELISTS)
        self._blind_since = self._gauge(BLIND_SINCE)
        self._cached = self._gauge(CACHED)
        self._set_aside = self._gauge(SET_ASIDE)
        self._passes = self._counter(PASSES)
        self._pass_seconds = self._histogram(PASS_SECONDS)
        self._decide_seconds = self._histogram(DECIDE_SECONDS)
        self._of_checks = OfChecks(self._gauge(CHECK_NODES), self._gauge(GATE_CLOSED))
        self._started = self._counter(STARTED)
        self._ended = self._counter(ENDED)
        self._failed = self._counter(FAILED)
        self._of_nodes = OfNodes(
            old=self._bare_counter(OLD_REMEDIATION),
            ongoing=self._gauge(ONGOING),
            unhealthy=self._histogram(UNHEALTHY_SECONDS),
        )
        self._of_fences = OfFences(self._gauge(FENCE_READY))
        self._fence_checked = self._gauge(FENCE_CHECKED)
        self._incidents = self._gauge(INCIDENTS)
        self._incident_since = self._gauge(INCIDENT_SINCE)
        self._pods_moved = self._counter(PODS_MOVED)
        self._pod_move_seconds = self._histogram(POD_MOVE_SECONDS)
        self._pods_waiting = self._gauge(PODS_WAITING)
        self._failover_held = self._gauge(FAILOVER_HELD)
        self._left_behind = self._gauge(LEFT_BEHIND)
        self._gauge(BUILD).labels(__version__, platform.python_version()).set(1)

    def answered(self, verb: str, code: str, seconds: float) -> None:
        self._requests.labels(verb, code).inc()
        self._request_seconds.labels(verb).observe(seconds)

    def watched(self, kind: str, events: int = 1) -> None:
        self._events.labels(kind).inc(events)

    def relisted(self, kind: str, reason: str) -> None:
        self._relists.labels(kind, reason).inc()

    def blind(self, kind: str, since: datetime | None) -> None:
        self._blind_since.labels(kind).set(since.timestamp() if since else 0)

    def holds(self, kind: str, *, cached: int, set_aside: int) -> None:
        self._cached.labels(kind).set(cached)
        self._set_aside.labels(kind).set(set_aside)

    def forget(self, kind: str) -> None:
        """A kind is no longer watched: its last values would look like present ones."""
        for gauge in (self._blind_since, self._cached, self._set_aside):
            gauge.remove_by_labels({"kind": kind})

    def passed(self, seconds: float) -> None:
        self._passes.inc()
        self._pass_seconds.observe(seconds)

    def decided(self, seconds: float) -> None:
        self._decide_seconds.observe(seconds)

    def checked(self, checks: Mapping[str, Counts]) -> None:
        """How all checks stand now. One that is not among them any more is forgotten."""
        self._of_checks.set(checks)

    def started(self, check: str) -> None:
        self._started.labels(check).inc()

    def ended(self, node: str, namespace: str, kind: str, seconds: float, check: str) -> None:
        """A remediation is over, so long after it was created."""
        self._ended.labels(check).inc()
        self._of_nodes.ended((node, namespace, kind), seconds)

    def ongoing(self, remediations: Collection[Ongoing]) -> None:
        """All that are there now."""
        self._of_nodes.set_ongoing(remediations)

    def old(self, node: str) -> None:
        """A remediation of this node has just been found to be old."""
        self._of_nodes.old(node)

    def fences(self, ready: Mapping[str, bool], checked_at: datetime | None) -> None:
        """Which nodes could be fenced, and when any was last tried. A node that is not among them is forgotten."""
        self._of_fences.set(ready)
        self._fence_checked.set(checked_at.timestamp() if checked_at is not None else 0)

    def pod_moved(self, how: str, seconds: float | None = None) -> None:
        """Of one whose node had to be proved down, the seconds say nothing."""
        self._pods_moved.labels(how).inc()
        if seconds is not None:
            self._pod_move_seconds.observe(seconds)

    def failover(self, waiting: int, held: Mapping[str, int]) -> None:
        self._pods_waiting.set(waiting)
        self._failover_held.clear()
        for reason, nodes in held.items():
            self._failover_held.labels(reason).set(nodes)

    def incidents(self, phases: Mapping[str, int], oldest: datetime | None) -> None:
        """How many are open in each phase, and since when the oldest is."""
        for phase, count in phases.items():
            self._incidents.labels(phase).set(count)
        self._incident_since.set(oldest.timestamp() if oldest is not None else 0)

    def left_behind(self, calls: int) -> None:
        self._left_behind.set(calls)

    def action_failed(self, action: str) -> None:
        self._failed.labels(action).inc()

    def render(self) -> bytes:
        """The text that Prometheus reads. Slow with many series, so call it in a thread."""
        text = generate_latest(self._registry)
        text = text.replace(_type_line(OLD_REMEDIATION, "gauge"), _type_line(OLD_REMEDIATION, "counter"))
        return _WHOLE_BUCKET.sub(rb'\1"', text)

    def _counter(self, row: Metric) -> Counter:
        assert row.type == "counter"
        return Counter(row.name, row.help, row.labels, registry=self._registry)

    def _bare_counter(self, row: Metric) -> Gauge:
        """The library writes `_total` behind every counter's name, and this one is known without: see `render`."""
        assert row.type == "counter"
        return Gauge(row.name, row.help, row.labels, registry=self._registry)

    def _gauge(self, row: Metric) -> Gauge:
        assert row.type == "gauge"
        return Gauge(row.name, row.help, row.labels, registry=self._registry)

    def _histogram(self, row: Metric) -> Histogram:
        assert row.type == "histogram"
        return Histogram(row.name, row.help, row.labels, buckets=row.buckets, registry=self._registry)


# Queries that were written for upstream ask for le="300"; the library writes 300.0.
_WHOLE_BUCKET = re.compile(rf'^({UNHEALTHY_SECONDS.name}_bucket{{le="\d+)\.0"'.encode(), re.MULTILINE)


def _type_line(row: Metric, kind: str) -> bytes:
    return f"# TYPE {row.name} {kind}\n".encode()
