"""What one operator counts, and how it is read.

Each Metrics object has its own registry, so that several operators can live in one process.
"""

import platform
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from defib import __version__
from defib.model.standing import Standing
from defib.telemetry import catalogue
from defib.telemetry.coordination import Coordination
from defib.telemetry.series import Counts, Draining, HeldNodes, OfChecks, OfDrains, OfNodes, Ongoing, Present

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """What one operator counts. Every method is cheap and may be called from the event loop at any time."""

    def __init__(self) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # twice the series, and nobody reads them
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = self._counter(catalogue.REQUESTS)
        self._request_seconds = self._histogram(catalogue.REQUEST_SECONDS)
        self._answers: dict[tuple[str, str], tuple[Counter, Histogram]] = {}  # to find them takes longer than to count
        self._events = self._counter(catalogue.WATCH_EVENTS)
        self._relists = self._counter(catalogue.RELISTS)
        self._blind_since = self._gauge(catalogue.BLIND_SINCE)
        self._cached = self._gauge(catalogue.CACHED)
        self._set_aside = self._gauge(catalogue.SET_ASIDE)
        self._passes = self._counter(catalogue.PASSES)
        self._pass_seconds = self._histogram(catalogue.PASS_SECONDS)
        self._decide_seconds = self._histogram(catalogue.DECIDE_SECONDS)
        self._of_checks = OfChecks(self._gauge(catalogue.CHECK_NODES), self._gauge(catalogue.GATE_CLOSED))
        self._nodes_held = HeldNodes(self._gauge(catalogue.NODES_HELD))
        self._started = self._counter(catalogue.STARTED)
        self._ended = self._counter(catalogue.ENDED)
        self._failed = self._counter(catalogue.FAILED)
        self._of_nodes = self._series_of_nodes()
        self._fence_ready = Present(self._gauge(catalogue.FENCE_READY))
        self._fence_checked = self._gauge(catalogue.FENCE_CHECKED)
        self._incidents = self._gauge(catalogue.INCIDENTS)
        self._incident_since = self._gauge(catalogue.INCIDENT_SINCE)
        self._pods_moved = self._counter(catalogue.PODS_MOVED)
        self._pod_move_seconds = self._histogram(catalogue.POD_MOVE_SECONDS)
        self._pods_waiting = self._gauge(catalogue.PODS_WAITING)
        self._failover_held = self._gauge(catalogue.FAILOVER_HELD)
        self._of_drains = self._series_of_drains()
        self._drain_steps = self._counter(catalogue.DRAIN_STEPS)
        self._left_behind = self._gauge(catalogue.LEFT_BEHIND)
        self._leftovers = self._counter(catalogue.LEFTOVERS)
        self._begin(self._leftovers, catalogue.LEFTOVER_KINDS)
        self._catch_up_seconds = self._histogram(catalogue.CATCH_UP_SECONDS)
        self._deliveries = self._counter(catalogue.DELIVERIES)
        self._deliveries_waiting = self._gauge(catalogue.DELIVERIES_WAITING)
        self._coordination = Coordination()
        self._registry.register(self._coordination)
        self._gauge(catalogue.BUILD).labels(__version__, platform.python_version()).set(1)

    def _begin(self, counter: Counter, labels: Iterable[str]) -> None:
        for label in labels:  # a series that begins with 1 has not increased
            counter.labels(label)

    def answered(self, verb: str, code: str, seconds: float) -> None:
        series = self._answers.get((verb, code))
        if series is None:
            series = self._answers[verb, code] = self._requests.labels(verb, code), self._request_seconds.labels(verb)
        requests, request_seconds = series
        requests.inc()
        request_seconds.observe(seconds)

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

    def held(self, nodes: Mapping[tuple[str, str], int]) -> None:
        """How many nodes each gate holds back, by check and gate. What is not among them any more is forgotten."""
        self._nodes_held.set(nodes)

    def started(self, check: str) -> None:
        self._of_checks.count(self._started, check)

    def ended(self, node: str, namespace: str, kind: str, seconds: float, check: str) -> None:
        """A remediation is over, so long after it was created."""
        self._of_checks.count(self._ended, check)
        self._of_nodes.ended((node, namespace, kind), seconds)

    def ongoing(self, remediations: Collection[Ongoing]) -> None:
        """All that are there now."""
        self._of_nodes.set_ongoing(remediations)

    def old(self, node: str) -> None:
        """A remediation of this node has just been found to be old."""
        self._of_nodes.old(node)

    def fences(self, ready: Mapping[str, bool], checked_at: datetime | None) -> None:
        """Which nodes could be fenced, and when any was last tried. A node that is not among them is forgotten."""
        self._fence_ready.set(ready)
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

    def drains(self, drains: Draining) -> None:
        """How all of them stand now. A node that is not among them is forgotten."""
        self._of_drains.set(drains)

    def drain_step(self, rung: str, result: str) -> None:
        self._drain_steps.labels(rung, result).inc()

    def left_behind(self, calls: int) -> None:
        self._left_behind.set(calls)

    def collected(self, kind: str) -> None:
        """Something was taken away that a dead remediation or a dead replica had left."""
        self._leftovers.labels(kind).inc()

    def action_failed(self, action: str) -> None:
        self._failed.labels(action).inc()

    def stands(self, standing: Standing) -> None:
        """Which part this replica plays now. Whoever only watches plays none, and has no such series."""
        self._coordination.show(standing)

    def caught_up(self, seconds: float) -> None:
        self._catch_up_seconds.observe(seconds)

    def delivers(self, to: str) -> None:
        """Something is told there from now on: a series that begins with 1 has not increased."""
        self._deliveries_waiting.labels(to)
        for result in catalogue.DELIVERY_RESULTS:
            self._deliveries.labels(to, result)

    def delivered(self, to: str, result: str, waiting: int) -> None:
        self._deliveries.labels(to, result).inc()
        self._deliveries_waiting.labels(to).set(waiting)

    def to_deliver(self, to: str, waiting: int) -> None:
        self._deliveries_waiting.labels(to).set(waiting)

    def render(self) -> bytes:
        """The text that Prometheus reads. Slow with many series, so call it in a thread."""
        text = generate_latest(self._registry)
        text = text.replace(
            _type_line(catalogue.OLD_REMEDIATION, "gauge"), _type_line(catalogue.OLD_REMEDIATION, "counter")
        )
        return _WHOLE_BUCKET.sub(rb'\1"', text)

    def _series_of_nodes(self) -> OfNodes:
        return OfNodes(
            old=self._bare_counter(catalogue.OLD_REMEDIATION),
            ongoing=self._gauge(catalogue.ONGOING),
            unhealthy=self._histogram(catalogue.UNHEALTHY_SECONDS),
        )

    def _series_of_drains(self) -> OfDrains:
        return OfDrains(
            phases=self._gauge(catalogue.DRAINS),
            failed=(self._gauge(catalogue.DRAIN_FAILED), self._gauge(catalogue.NODE_DRAIN_TIMEOUT)),
            pods_left=self._gauge(catalogue.DRAIN_PODS_LEFT),
            estimates=self._gauge(catalogue.DRAIN_ESTIMATE),
        )

    def _counter(self, row: catalogue.Metric) -> Counter:
        assert row.type == "counter"
        return Counter(row.name, row.help, row.labels, registry=self._registry)

    def _bare_counter(self, row: catalogue.Metric) -> Gauge:
        """The library writes `_total` behind every counter's name, and this one is known without: see `render`."""
        assert row.type == "counter"
        return Gauge(row.name, row.help, row.labels, registry=self._registry)

    def _gauge(self, row: catalogue.Metric) -> Gauge:
        assert row.type == "gauge"
        return Gauge(row.name, row.help, row.labels, registry=self._registry)

    def _histogram(self, row: catalogue.Metric) -> Histogram:
        assert row.type == "histogram"
        return Histogram(row.name, row.help, row.labels, buckets=row.buckets, registry=self._registry)


# Queries that were written for upstream ask for le="300"; the library writes 300.0.
_WHOLE_BUCKET = re.compile(rf'^({catalogue.UNHEALTHY_SECONDS.name}_bucket{{le="\d+)\.0"'.encode(), re.MULTILINE)


def _type_line(row: catalogue.Metric, kind: str) -> bytes:
    return f"# TYPE {row.name} {kind}\n".encode()
