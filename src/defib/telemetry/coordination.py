"""Who leads, and what this replica holds, as numbers. They are one look: never half of the old and half of the new."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from defib.model.standing import Standing
from defib.telemetry.catalogue import (
    BUCKETS_HELD,
    BUCKETS_UNOWNED,
    LEADER_KNOWN,
    LEADERSHIP_CHANGES,
    LEADING,
    REPLICAS_SEEN,
    Metric,
)


class Coordination(Collector):
    """Without a standing there are no series: 0 would say that nobody leads."""

    def __init__(self) -> None:
        self._standing: Standing | None = None

    def show(self, standing: Standing) -> None:
        self._standing = standing

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        values = _values(self._standing) if self._standing is not None else {}
        for row in (LEADING, LEADER_KNOWN, BUCKETS_HELD, BUCKETS_UNOWNED, REPLICAS_SEEN):
            yield GaugeMetricFamily(row.name, row.help, values.get(row))
        yield CounterMetricFamily(LEADERSHIP_CHANGES.name, LEADERSHIP_CHANGES.help, values.get(LEADERSHIP_CHANGES))


def _values(standing: Standing) -> dict[Metric, int]:
    values: dict[Metric, int] = {
        LEADING: standing.leads,
        LEADER_KNOWN: standing.leads or bool(standing.leader),
        LEADERSHIP_CHANGES: standing.terms,
    }
    if not standing.members:  # one leads in everything: a 0 among replicas that share the work would hide what they say
        return values
    return values | {BUCKETS_HELD: standing.held, BUCKETS_UNOWNED: standing.unowned, REPLICAS_SEEN: standing.members}
