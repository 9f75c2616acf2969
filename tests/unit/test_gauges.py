"""What a pass has seen, as numbers: incidents, fences, pods that wait, drains, and calls that nobody waits for any more."""

from typing import Any, ClassVar

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from defib.act.outcome import Done, Failed, Stale
from defib.act.outcome import Outcome as Ended
from defib.decide.drains.intent import Intent
from defib.decide.drains.plan import Drains
from defib.decide.drains.schedule import schedule_of
from defib.decide.drains.standing import Standing as OfDrain
from defib.decide.drains.survey import DrainLook, Known, Record
from defib.decide.fencing.readiness import Readiness
from defib.decide.plan import NOTHING
from defib.decide.remediators import NO_WORK, OwnWork
from defib.gauges import Gauges
from defib.model.cluster import Cluster
from defib.model.drain_action import BLOCKED, DeletePod, EvictPod, Leaving, PodStep, RemoveFinalizers
from defib.model.drain_policy import POLICY, Policy, PolicyStatus, Source
from defib.model.incident import (
    INCIDENTS,
    Cause,
    IncidentSpec,
    IncidentStatus,
    NodeIncident,
    Phase,
    account_name,
)
from defib.model.meta import Meta, Unstructured
from defib.model.node_drain import DRAIN, DrainStatus
from defib.model.node_drain import Phase as DrainPhase
from defib.model.standing import Standing
from defib.model.target import Target as DrainTarget
from defib.power.base import Outcome, Reading, Target
from defib.power.base import Readiness as Answer
from defib.power.manual import Manual
from defib.power.registry import Drivers
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.builders import HOUR, T0, a_node
from tests.unit.decide.checks import a_check, healthy, ill, the_cluster
from tests.unit.decide.checks import plan_of as checks_plan_of
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


def test_other_remediations_count_as_incidents_but_may_take_their_time() -> None:
    spec = IncidentSpec(node="n1", cause=Cause(uid="12345678-9"))
    account = NodeIncident(
        metadata=Meta(name=account_name("n1", "12345678-9"), creation_timestamp=T0 - 5 * HOUR),
        spec=spec,
        status=IncidentStatus(phase=Phase.NEEDS_PERSON),
    )
    metrics = Metrics()
    show(metrics, with_incidents(account, incident("n2", Phase.POWERING_OFF, 1)))
    counted = values(metrics, "defib_incidents")
    assert {phase: count for phase, count in counted.items() if count} == {"NeedsPerson": 1, "PoweringOff": 1}
    assert values(metrics, "defib_incident_open_since_seconds") == {"": (T0 - HOUR).timestamp()}


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


ALL = Known(Unstructured(metadata=Meta(name="all")), Policy(), Policy(), PolicyStatus(estimate_seconds=4080))
FAILED = ("defib_drain_failed", "upgradeoperator_node_drain_timeout")


def a_drain(node: str, phase: DrainPhase, *, failed: bool = False, left: int | None = 2) -> OfDrain:
    intent = Intent(source=Source.KUBECTL, why="it is marked")
    schedule = schedule_of(Policy(), intent, T0)
    look = DrainLook(node=a_node(node), known=ALL, policy=Policy(), intent=intent, schedule=schedule)
    return OfDrain(look=look, record=None, status=DrainStatus(phase=phase, failed=failed, pods_left=left))


def with_drains(*drains: OfDrain, **more: Any) -> tuple[Cluster, OwnWork]:
    standings = {one.look.node.name: one for one in drains}
    return Cluster(now=T0), OwnWork(drains=Drains(standings=standings, known={"all": ALL}, **more))


def test_drains_are_counted_by_phase_and_those_that_were_broken_off_too() -> None:
    metrics = Metrics()
    paused = Record(Unstructured(), DrainStatus(phase=DrainPhase.PAUSED, paused_at=T0))
    over = Record(Unstructured(), DrainStatus(phase=DrainPhase.DRAINED))
    show(
        metrics,
        with_drains(
            a_drain("n1", DrainPhase.FORCING),
            a_drain("n2", DrainPhase.HELD, failed=True, left=1),
            a_drain("n3", DrainPhase.HELD, left=None),
            records={"n1": over, "n8": paused, "n9": over},
        ),
    )
    counted = values(metrics, "defib_drains")
    assert {phase: count for phase, count in counted.items() if count} == {"Forcing": 1, "Held": 2, "Paused": 1}
    assert counted.keys() == {phase.value for phase in DrainPhase}
    assert values(metrics, "defib_drain_pods_left") == {"n1": 2, "n2": 1}
    assert values(metrics, "defib_drain_estimate_seconds") == {"all": 4080}
    assert [values(metrics, name) for name in FAILED] == [{"n2": 1}, {"n2": 1}]


def test_dk_16_who_leads_no_longer_tells_of_no_drain_even_before_its_next_pass() -> None:
    """Else a drain that was ended long ago would call people for as long as this replica makes no pass."""
    metrics = Metrics()

    async def main(clock: VirtualClock) -> None:
        gauges = Gauges(metrics, Drivers(clock))
        gauges.stand(Standing(leads=True))
        cluster, own = with_drains(a_drain("n1", DrainPhase.HELD, failed=True))
        gauges.show(cluster, NOTHING, own)
        assert [values(metrics, name) for name in FAILED] == [{"n1": 1}, {"n1": 1}]
        gauges.stand(Standing(leads=False))
        for name in (*FAILED, "defib_drains", "defib_drain_pods_left", "defib_drain_estimate_seconds"):
            assert values(metrics, name) == {}
        gauges.show(cluster, NOTHING, own)
        assert values(metrics, "defib_drains") == {}

    run(main)


@pytest.mark.parametrize(
    ("outcome", "results", "failures"),
    [
        (Done(), "done", 0),
        (Failed(f"{BLOCKED}: needs 2 healthy pods"), "blocked", 0),
        (Failed("the API server is busy"), "failed", 1),
        (Stale("the pod is newer"), "", 0),
    ],
)
def test_steps_of_drains_are_counted_by_rung_and_result(outcome: Ended, results: str, failures: int) -> None:
    drain = DrainTarget(kind=DRAIN, namespace="", name="n1", uid="d")
    pod = Leaving(drain=drain, node="n1", node_uid="u", taint="", namespace="a", name="b", uid="c", because=POLICY.name)
    steps: dict[str, PodStep] = {
        "Evict": EvictPod(pod=pod),
        "Delete": DeletePod(pod=pod),
        "RemoveFinalizers": RemoveFinalizers(pod=pod, version="1", finalizers=("x",)),
        "Kill": DeletePod(pod=pod, grace_seconds=1),
        "ForceDelete": DeletePod(pod=pod, grace_seconds=0),
    }
    metrics = Metrics()

    async def main(clock: VirtualClock) -> None:
        gauges = Gauges(metrics, Drivers(clock))
        for step in steps.values():
            gauges.ended(step, outcome)

    run(main)
    counted = values(metrics, "defib_drain_steps_total")
    assert counted == ({f"{results}{rung}": 1 for rung in steps} if results else {})
    assert sum(values(metrics, "defib_actions_failed_total").values()) == failures * len(steps)


def test_nodes_that_wait_for_something_of_their_own_are_counted_by_check_and_gate() -> None:
    cluster = the_cluster(a_check(mode="Approve"), ill("n1"), ill("n2"), *healthy(8))
    plan, metrics = checks_plan_of(cluster), Metrics()

    async def main(clock: VirtualClock) -> None:
        gauges = Gauges(metrics, Drivers(clock, {"manual": Manual(clock)}))
        gauges.show(cluster, plan, NO_WORK)
        assert values(metrics, "defib_nodes_held") == {"workersApproval": 2}
        gauges.show(cluster, NOTHING, NO_WORK)
        assert values(metrics, "defib_nodes_held") == {}

    run(main)
