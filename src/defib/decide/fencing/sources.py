"""Whoever can ask for a power cycle: our own remediations always, those of other projects where a setting says so."""

from collections.abc import Iterator

from defib.decide.fencing.order import Obstacle, Order, Report
from defib.decide.fencing.power_cycles import power_cycle_order, report_power_cycle
from defib.decide.rules import Rules
from defib.model.action import Action
from defib.model.cluster import Cluster, Wanted
from defib.model.health_check import KindRef
from defib.model.incident import NodeIncident
from defib.model.meta import Unstructured
from defib.model.power_cycle import REMEDIATION


def orders_in(cluster: Cluster, rules: Rules) -> Iterator[tuple[Order, Report]]:  # noqa: ARG001
    """Each with how it is told how it stands."""
    for item in cluster.every(REMEDIATION):
        order = power_cycle_order(item, cluster)
        yield order, _reporter(item, order, cluster)


def kinds_served(rules: Rules) -> dict[KindRef, Wanted]:  # noqa: ARG001
    """What must be in sight to see those of other projects."""
    return {}


def _reporter(item: Unstructured, order: Order, cluster: Cluster) -> Report:
    def report(incident: NodeIncident | None, so: Obstacle) -> tuple[Action, ...]:
        return report_power_cycle(item, order, incident, so, cluster)

    return report
