"""Every metric there is, declared once in a table; the reference page is made from it.

Each Metrics object has its own registry, so that several operators can live in one process. Labels are taken from
small closed sets only: a node or pod name as a label would cost memory here and in every Prometheus that reads us.
"""

import platform
from datetime import datetime
from typing import Literal

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from defib import __version__

CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PASS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


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

    def render(self) -> bytes:
        """The text that Prometheus reads. Slow with many series, so call it in a thread."""
        return generate_latest(self._registry)

    def _counter(self, row: Metric) -> Counter:
        assert row.type == "counter"
        return Counter(row.name, row.help, row.labels, registry=self._registry)

    def _gauge(self, row: Metric) -> Gauge:
        assert row.type == "gauge"
        return Gauge(row.name, row.help, row.labels, registry=self._registry)

    def _histogram(self, row: Metric) -> Histogram:
        assert row.type == "histogram"
        return Histogram(row.name, row.help, row.labels, buckets=row.buckets, registry=self._registry)
