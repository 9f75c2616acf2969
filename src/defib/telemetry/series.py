"""Metrics with labels that come and go: which series there are, and for how long each is kept."""

from collections.abc import Collection, Mapping

import msgspec
from prometheus_client import Counter, Gauge, Histogram

KEPT_MAX = 100  # series of nodes that are over and done with

Ongoing = tuple[str, str, str]  # a node, and the namespace and kind of its remediation
Counts = tuple[int, int, int, int, Collection[str]]  # of COUNTED, and the names of the gates that are closed
COUNTED = ("observed", "healthy", "unhealthy", "remediating")


class OfChecks:
    """Series that exist for as long as their check does, or for as long as a gate is closed."""

    def __init__(self, nodes: Gauge, closed: Gauge) -> None:
        self._nodes = nodes
        self._closed = closed
        self._known: set[str] = set()
        self._counted: dict[str, set[Counter]] = {}
        self._shut: set[tuple[str, str]] = set()

    def count(self, counter: Counter, check: str) -> None:
        """What was begun may end after its check is gone: then it is forgotten with the next look at all checks."""
        counter.labels(check).inc()
        self._counted.setdefault(check, set()).add(counter)

    def set(self, checks: Mapping[str, Counts]) -> None:
        for check, (*counts, _) in checks.items():
            for state, count in zip(COUNTED, counts, strict=True):
                self._nodes.labels(check, state).set(count)
        for check in self._known - checks.keys():
            self._nodes.remove_by_labels({"check": check})
        self._known = set(checks)
        for check in self._counted.keys() - checks.keys():
            for counter in self._counted.pop(check):
                counter.remove(check)
        shut = {(check, gate) for check, counts in checks.items() for gate in counts[-1]}
        for labels in self._shut - shut:
            self._closed.remove(*labels)
        for labels in shut - self._shut:
            self._closed.labels(*labels).set(1)
        self._shut = shut


class HeldNodes:
    """A gauge that exists for as long as a gate holds back nodes of a check."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: Mapping[tuple[str, str], int] = {}

    def set(self, held: Mapping[tuple[str, str], int]) -> None:
        for labels in self._shown.keys() - held.keys():
            self._gauge.remove(*labels)
        for labels, nodes in held.items():
            self._gauge.labels(*labels).set(nodes)
        self._shown = dict(held)


class OfNodes:
    """What dashboards know from upstream: a series for each node that is, or was lately, being remediated."""

    def __init__(self, *, old: Gauge, ongoing: Gauge, unhealthy: Histogram) -> None:
        self._old = old
        self._ongoing = ongoing
        self._unhealthy = unhealthy
        self._present: frozenset[Ongoing] = frozenset()
        self._latest_old = Latest(old)
        self._latest_over = Latest(ongoing)
        self._latest_ended = Latest(unhealthy)

    def set_ongoing(self, remediations: Collection[Ongoing]) -> None:
        present = frozenset(remediations)
        for labels in present - self._present:
            self._latest_over.release(labels)
            self._ongoing.labels(*labels).set(1)
        for labels in sorted(self._present - present):
            self._ongoing.labels(*labels).set(0)
            self._latest_over.keep(labels)
        self._present = present

    def ended(self, labels: Ongoing, seconds: float) -> None:
        self._unhealthy.labels(*labels).observe(seconds)
        self._latest_ended.keep(labels)

    def old(self, node: str) -> None:
        self._old.labels(node, "").inc()
        self._latest_old.keep((node, ""))


class Present:
    """A gauge with one label: a series for each that is there now, and for no other."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: Mapping[str, float] = {}

    def set(self, values: Mapping[str, float]) -> None:
        """The same mapping as last time says that nothing has changed: there may be thousands."""
        if values is self._shown:
            return
        for name in self._shown.keys() - values.keys():
            self._gauge.remove(name)
        for name, value in values.items():
            if self._shown.get(name) != value:
                self._gauge.labels(name).set(value)
        self._shown = values


class Draining(msgspec.Struct, frozen=True, kw_only=True):
    """How drains stand, as numbers. Without phases: it is not for this replica to tell."""

    phases: Mapping[str, int] = {}
    failed: Collection[str] = ()  # nodes
    pods_left: Mapping[str, int] = {}  # by node
    estimates: Mapping[str, int] = {}  # seconds, by policy


class OfDrains:
    """Series of nodes that are being drained, for as long as they are."""

    def __init__(self, *, phases: Gauge, failed: tuple[Gauge, ...], pods_left: Gauge, estimates: Gauge) -> None:
        self._phases = Present(phases)
        self._failed = tuple(Present(gauge) for gauge in failed)
        self._pods_left = Present(pods_left)
        self._estimates = Present(estimates)

    def set(self, drains: Draining) -> None:
        self._phases.set(drains.phases)
        failed = dict.fromkeys(drains.failed, 1)
        for gauge in self._failed:
            gauge.set(failed)
        self._pods_left.set(drains.pods_left)
        self._estimates.set(drains.estimates)


class Latest:
    """The series that had something new most recently. One too many, and the one that has waited longest is removed."""

    def __init__(self, series: Gauge | Histogram) -> None:
        self._series = series
        self._kept: dict[tuple[str, ...], None] = {}  # in the order in which something happened

    def keep(self, labels: tuple[str, ...]) -> None:
        self._kept.pop(labels, None)
        self._kept[labels] = None
        while len(self._kept) > KEPT_MAX:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._series.remove(*oldest)

    def release(self, labels: tuple[str, ...]) -> None:
        """It is not over after all, so it does not count among those that may be removed."""
        self._kept.pop(labels, None)
