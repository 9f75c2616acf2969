"""What a pass has seen, as numbers: incidents, fences, pods that wait, and calls that nobody waits for any more."""

from typing import ClassVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from defib.decide.fencing.readiness import Readiness
from defib.decide.plan import NOTHING
from defib.decide.remediators import NO_WORK, OwnWork
from defib.gauges import Gauges
from defib.model.cluster import Cluster
from defib.model.incident import INCIDENTS, IncidentStatus, NodeIncident, Phase
from defib.model.meta import Meta
from defib.model.standing import Standing
from defib.power.base import Outcome, Reading, Target
from defib.power.base import Readiness as Answer
from defib.power.manual import Manual
from defib.power.registry import Drivers
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.builders import HOUR, T0
from tests.unit.decide.failover.failovers import (
    COLLECTION,
    STATEFUL_SET,
    a_failover,
    a_fleet,
    a_pod,
    a_policy,
    plan_of,
)


class Stuck:
    """A driver of which three calls hang."""

    can_read_state: ClassVar[bool] = True
    left_behind = 3

    def __init__(self, manual: Manual) -> None:
        self._manual = manual

    async def state(self, target: Target, within_seconds: float) -> Reading:
        return await self._manual.state(target, within_seconds)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._manual.off(target, within_seconds)

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._manual.on(target, within_seconds)

    async def check(self, target: Target, within_seconds: float) -> Answer:
        return await self._manual.check(target, within_seconds)


def values(metrics: Metrics, name: str) -> dict[str, float]:
    """By the value of the only label, or by nothing."""
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {"".join(sample.labels.values()): sample.value for sample in samples}


def show(metrics: Metrics, *looks: tuple[Cluster, OwnWork], leads: bool = True) -> None:
    async def main(clock: VirtualClock) -> None:
        manual = Manual(clock)
        gauges = Gauges(metrics, Drivers(clock, {"manual": manual, "stuck": Stuck(manual)}))
        gauges.stand(Standing(leads=leads))
        for cluster, own in looks:
            gauges.show(cluster, NOTHING, own)

    run(main)


def incident(name: str, phase: Phase, hours_ago: int) -> NodeIncident:
    meta = Meta(name=name, creation_timestamp=T0 - hours_ago * HOUR)
    return NodeIncident(metadata=meta, status=IncidentStatus(phase=phase))


def with_incidents(*incidents: NodeIncident) -> tuple[Cluster, OwnWork]:
    return Cluster(now=T0, others={INCIDENTS: {one.name: one for one in incidents}}), NO_WORK


def test_open_incidents_are_counted_by_phase_and_the_oldest_says_since_when() -> None:
    metrics = Metrics()
    show(
        metrics,
        with_incidents(
            incident("n1", Phase.CLOSED, 9),
            incident("n2", Phase.NEEDS_PERSON, 2),
            incident("n3", Phase.POWERING_OFF, 1),
        ),
    )
    counted = values(metrics, "defib_incidents")
    assert {phase: count for phase, count in counted.items() if count} == {"NeedsPerson": 1, "PoweringOff": 1}
    assert counted.keys() == {phase.value for phase in Phase} - {"Closed"}
    assert values(metrics, "defib_incident_open_since_seconds") == {"": (T0 - 2 * HOUR).timestamp()}


def test_an_incident_that_is_closed_is_counted_no_longer() -> None:
    metrics = Metrics()
    show(metrics, with_incidents(incident("n1", Phase.FREEING, 1)), with_incidents(incident("n1", Phase.CLOSED, 1)))
    assert set(values(metrics, "defib_incidents").values()) == {0}
    assert values(metrics, "defib_incident_open_since_seconds") == {"": 0}


def test_a_node_that_is_covered_no_longer_loses_its_series() -> None:
    metrics = Metrics()
    both = OwnWork(readiness=Readiness(ready={"n1": True, "n2": False}, checked_at=T0))
    show(metrics, (Cluster(now=T0), both))
    assert values(metrics, "defib_fence_ready") == {"n1": 1, "n2": 0}
    assert values(metrics, "defib_fence_checked_seconds") == {"": T0.timestamp()}
    show(metrics, (Cluster(now=T0), OwnWork(readiness=Readiness(ready={"n2": True}))))
    assert values(metrics, "defib_fence_ready") == {"n2": 1}
    assert values(metrics, "defib_fence_checked_seconds") == {"": 0}


def test_who_leads_no_longer_does_not_tell_which_nodes_could_be_fenced() -> None:
    """It tries no more, so what it found out would stand for ever, whatever the new leader finds."""
    metrics = Metrics()
    tried = OwnWork(readiness=Readiness(ready={"n1": False}, checked_at=T0))
    show(metrics, (Cluster(now=T0), tried))
    show(metrics, (Cluster(now=T0), tried), leads=False)
    assert values(metrics, "defib_fence_ready") == {}
    assert values(metrics, "defib_fence_checked_seconds") == {"": 0}


def test_calls_that_hang_are_counted_for_all_drivers_that_can_tell() -> None:
    metrics = Metrics()
    show(metrics, with_incidents())
    assert values(metrics, "defib_power_calls_left_behind") == {"": 3}


def test_pods_that_wait_are_counted_once_however_many_ask_for_them_and_held_nodes_by_reason() -> None:
    """A node that two policies hold back for one reason is one node."""
    db, web = a_pod("db-0", owner=STATEFUL_SET), a_pod("web-1", labels={"app": "web"})
    policies = [a_policy("a", selector={"matchLabels": {"app": "web"}}), a_policy("b")]
    cluster = a_fleet(policies, pods=[db, web, a_pod("other-1")], doubts=("most requests fail",))
    others = {**cluster.others, COLLECTION: {"x": a_failover()}}
    cluster = msgspec.structs.replace(cluster, others=others, doubts=())
    doubting = msgspec.structs.replace(cluster, doubts=("most requests fail",))
    metrics = Metrics()
    show(metrics, (cluster, OwnWork(failover=plan_of(cluster))))
    assert values(metrics, "defib_pods_waiting_for_proof") == {"": 1}
    assert values(metrics, "defib_failover_held_nodes") == {}
    show(metrics, (doubting, OwnWork(failover=plan_of(doubting))))
    assert values(metrics, "defib_failover_held_nodes") == {"SelfDoubt": 1}
    show(metrics, (cluster, NO_WORK))
    assert values(metrics, "defib_pods_waiting_for_proof") == {"": 0}
