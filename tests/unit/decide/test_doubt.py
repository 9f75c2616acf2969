"""When we doubt our own sight, nothing new is begun, and everybody can see why."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from defib.decide.doubt import overdue_heartbeats
from defib.decide.plan import Plan
from defib.model import medik8s
from defib.model.action import HoldLock, MarkRemediation, ReleaseLock
from defib.model.cluster import Blindness, Served, Unread
from defib.model.incident import INCIDENTS, Command, Grade, IncidentSpec, IncidentStatus, NodeIncident, Phase, Proof
from defib.model.lock import ends_at
from defib.model.meta import Meta
from defib.model.node import Lease, LeaseSpec
from defib.model.node_drain import DRAIN
from tests.builders import HOUR, MINUTE, SECOND, T0
from tests.unit.decide.checks import (
    BAR_TEMPLATE,
    a_check,
    a_lock,
    a_remediation,
    condition_of,
    ended,
    gate_of,
    healthy,
    ill,
    node_of,
    of_type,
    plan_of,
    started,
    status_of,
    template_ref,
    the_cluster,
    written,
)
from tests.unit.decide.world import World

SEEN = Served("drains", namespaced=False)


def a_heartbeat(node: str, renewed: datetime) -> Lease:
    return Lease(
        metadata=Meta(name=node, namespace="kube-node-lease"),
        spec=LeaseSpec(holder_identity=node, lease_duration_seconds=40, renew_time=renewed),
    )


def heartbeats(*, silent: int, total: int) -> dict[str, Lease]:
    """Of nodes w1 and so on, the first so many have been silent for a minute."""
    leases = [a_heartbeat(f"w{place}", T0 - (MINUTE if place <= silent else SECOND)) for place in range(1, total + 1)]
    return {lease.key: lease for lease in leases}


@pytest.mark.parametrize("kind", ["nodes", "heartbeats", "locks", "configmaps", "foos", "footemplates", medik8s.CHECKS])
def test_nothing_is_begun_while_something_that_matters_is_out_of_sight(kind: str) -> None:
    blind = (Blindness(kind, T0, "connection refused"),)
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), blind=blind))
    assert started(plan) == []
    assert node_of(plan, "n1").reason == "SelfDoubt"
    assert condition_of(plan, "RemediationAllowed").reason == "SelfDoubt"
    assert f"{kind} are out of sight: connection refused" in gate_of(plan, "SelfDoubt").message


@pytest.mark.parametrize(
    ("answer", "sight", "begun"),
    [
        (SEEN, {}, ["n1"]),
        (SEEN, {"blind": (Blindness("drains", T0, "connection refused"),)}, []),
        (SEEN, {"absent": {"drains": "forbidden"}}, ["n1"]),  # then we have not written any either
        (None, {}, []),
    ],
    ids=["seen", "lost", "forbidden", "not asked yet"],
)
def test_shx_03_nothing_is_begun_before_it_is_known_which_nodes_are_drained_by_force(
    answer: Served | None, sight: dict[str, Any], begun: list[str]
) -> None:
    cluster = the_cluster(a_check(), ill("n1"), *healthy(2), **sight)
    others = {kind: known for kind, known in cluster.kinds.items() if kind != DRAIN}
    kinds = others if answer is None else {**others, DRAIN: answer}
    assert started(plan_of(msgspec.structs.replace(cluster, kinds=kinds))) == begun


@pytest.mark.parametrize("kind", ["heartbeats", "locks", "configmaps"])
def test_nothing_is_begun_while_we_may_not_see_what_matters(kind: str) -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), absent={kind: "forbidden"}))
    assert (started(plan), node_of(plan, "n1").reason) == ([], "SelfDoubt")


@pytest.mark.parametrize("kind", ["bars", "bartemplates", "plans.upgrade.cattle.io"])
def test_what_a_check_does_not_need_may_be_out_of_sight(kind: str) -> None:
    blind = (Blindness(kind, T0, "connection refused"),)
    assert started(plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), blind=blind))) == ["n1"]


def test_a_doubt_from_elsewhere_counts() -> None:
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(2), doubts=("most answers were failures",)))
    assert started(plan) == []
    assert "most answers were failures" in node_of(plan, "n1").message


@pytest.mark.parametrize(("silent", "total", "starts"), [(2, 4, ["w1"]), (3, 4, []), (2, 5, ["w1"]), (0, 0, ["w1"])])
def test_most_heartbeats_overdue_at_once_is_more_likely_our_fault_than_theirs(
    silent: int, total: int, starts: list[str]
) -> None:
    nodes = [ill("w1"), *healthy(6)[1:]]
    cluster = the_cluster(a_check(), *nodes, heartbeats=heartbeats(silent=silent, total=total))
    assert started(plan_of(cluster)) == starts


def test_heartbeats_of_nodes_that_are_gone_prove_nothing() -> None:
    leases = heartbeats(silent=6, total=6)
    assert started(plan_of(the_cluster(a_check(), ill("n1"), *healthy(2, "x"), heartbeats=leases))) == ["n1"]


def switched(power: str, *nodes: str, phase: Phase = Phase.POWERING_OFF) -> dict[str, NodeIncident]:
    command = Command(power=power, at=T0, attempt=1, token="t")
    status = IncidentStatus(phase=phase, command=command)
    return {node: NodeIncident(metadata=Meta(name=node), spec=IncidentSpec(node=node), status=status) for node in nodes}


def test_nor_for_whoever_goes_on_of_machines_that_we_have_just_switched_off() -> None:
    """Two that go off at once would keep each other from being proved."""
    nodes, leases = healthy(5), heartbeats(silent=3, total=5)
    for power, phase, counted in (
        ("Off", Phase.POWERING_OFF, (1, 3)),
        ("On", Phase.CANCELLING, (3, 5)),
        ("Off", Phase.CLOSED, (3, 5)),
    ):
        others = {INCIDENTS: switched(power, "w1", "w2", phase=phase)}
        cluster = the_cluster(a_check(), *nodes, heartbeats=leases, others=others)
        assert overdue_heartbeats(cluster, goes_on=True) == counted
        assert overdue_heartbeats(cluster) == (3, 5)


def test_nothing_new_begins_while_those_that_we_have_switched_off_may_be_silent_for_the_same_reason() -> None:
    nodes, leases = [ill("w3"), *healthy(3)[:2]], heartbeats(silent=0, total=3)
    silent = leases | {key: a_heartbeat(f"w{key[-1]}", T0 - MINUTE) for key in leases if key[-1] in "13"}
    assert (
        started(plan_of(the_cluster(a_check(), *nodes, heartbeats=silent, others={INCIDENTS: switched("Off", "w1")})))
        == []
    )
    proved = {INCIDENTS: proved_down("w1")}
    assert started(plan_of(the_cluster(a_check(), *nodes, heartbeats=silent, others=proved))) == ["w3"]


def proved_down(*nodes: str, phase: Phase = Phase.FREEING) -> dict[str, NodeIncident]:
    status = IncidentStatus(phase=phase, proof=Proof(Grade.POWER, T0, "its power was read as off twice"))
    return {node: NodeIncident(metadata=Meta(name=node), spec=IncidentSpec(node=node), status=status) for node in nodes}


def test_nobody_expects_heartbeats_of_machines_that_are_proved_to_be_down() -> None:
    """Else whoever switches most of a small cluster off would doubt its sight for ever, and never free what ran there."""
    nodes, leases = healthy(5), heartbeats(silent=3, total=5)
    down = {INCIDENTS: proved_down("w1", "w2")}
    over = {INCIDENTS: proved_down("w1", "w2", phase=Phase.CLOSED)}
    assert overdue_heartbeats(the_cluster(a_check(), *nodes, heartbeats=leases)) == (3, 5)
    assert overdue_heartbeats(the_cluster(a_check(), *nodes, heartbeats=leases, others=down)) == (1, 3)
    assert overdue_heartbeats(the_cluster(a_check(), *nodes, heartbeats=leases, others=over)) == (3, 5)


def test_a_heartbeat_is_overdue_when_its_own_duration_is_over() -> None:
    leases = [a_heartbeat(f"w{place}", T0 - 40 * SECOND) for place in (1, 2)]
    nodes = [ill("w1"), *healthy(4)[1:]]
    assert started(plan_of(the_cluster(a_check(), *nodes, heartbeats={one.key: one for one in leases}))) == ["w1"]
    late = T0 + timedelta(milliseconds=1)
    cluster = the_cluster(a_check(), *nodes, now=late, heartbeats={one.key: one for one in leases})
    assert started(plan_of(cluster)) == []


LENGTHS = (None, -5, 0, 1, 40, 3600, 10**12)
RENEWALS = (None, T0, T0 - SECOND, T0 - 41 * SECOND, T0 + HOUR, T0.replace(year=1), T0.replace(year=9999))


@pytest.mark.parametrize("holder", ["w1", "", None])
@pytest.mark.parametrize("seconds", LENGTHS)
@pytest.mark.parametrize("renewed", RENEWALS)
def test_whether_a_heartbeat_is_overdue_is_what_its_end_says(
    renewed: datetime | None, seconds: int | None, holder: str | None
) -> None:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds, renew_time=renewed)
    lease = Lease(metadata=Meta(name="w1", namespace="kube-node-lease"), spec=spec)
    ends = ends_at(lease)
    counted = overdue_heartbeats(the_cluster(a_check(), *healthy(1), heartbeats={lease.key: lease}))
    assert counted == ((0, 0) if ends is None else (int(ends < T0), 1))


def test_whoever_waits_for_heartbeats_looks_again_soon_because_they_wake_nobody() -> None:
    nodes = [ill("w1"), *healthy(4)[1:]]
    plan = plan_of(the_cluster(a_check(), *nodes, heartbeats=heartbeats(silent=3, total=4)))
    assert plan.wake_at is not None
    assert plan.wake_at - T0 <= SECOND


def test_a_doubt_is_told_in_words_that_stay_the_same_while_it_lasts() -> None:
    """Heartbeats come and go all the time; a status that counts them would be written all the time, too."""
    world = World(a_check(), [ill("w1"), *healthy(6)[1:]])
    world.extra = {"heartbeats": heartbeats(silent=4, total=6)}
    world.settle()
    world.extra = {"heartbeats": heartbeats(silent=5, total=6)}
    plan = world.decide()
    assert plan.actions == ()
    assert gate_of(plan, "SelfDoubt").value == "5 of 6 heartbeats overdue"


def test_nobody_asks_for_doubts_while_no_node_is_unhealthy() -> None:
    plan = plan_of(the_cluster(a_check(), *healthy(4), heartbeats=heartbeats(silent=4, total=4)))
    assert condition_of(plan, "RemediationAllowed").status == "True"


def test_when_we_see_again_remediation_begins() -> None:
    world = World(a_check(), [ill("n1"), *healthy(2)])
    world.extra = {"blind": (Blindness("nodes", T0, "connection refused"),)}
    world.settle()
    world.extra = {}
    world.settle()
    assert world.in_flight() == {"n1"}


def test_a_remediation_of_a_node_that_cannot_be_read_is_not_taken_for_a_leftover() -> None:
    unread = (Unread("nodes", "n1", "Expected `str`, got `int`"),)
    plan = plan_of(the_cluster(a_check(), *healthy(2), foos=[a_remediation("n1")], unread=unread))
    assert ended(plan) == []
    assert node_of(plan, "n1").remediations


# What was begun while we can no longer see it


def in_the_dark() -> Any:
    resource = {"apiVersion": "test.defib.dev/v1alpha1", "kind": "FooRemediation", "namespace": "ns", "name": "n1"}
    entry = {"resource": resource | {"uid": "1"}, "started": "2029-12-31T23:50:00Z", "templateName": "foo"}
    return {
        "observedNodes": 3,
        "healthyNodes": 2,
        "unhealthyNodes": [{"name": "n1", "remediations": [entry]}],
        "phase": "Remediating",
    }


@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_what_was_begun_is_not_forgotten_when_we_may_no_longer_see_remediations(ready: str) -> None:
    """Neither is the lock given back: the remediator is still at work, whether we see it or not."""
    cluster = the_cluster(
        a_check(status=in_the_dark()),
        ill("n1", ready=ready),
        *healthy(2),
        absent={"foos": "foos is forbidden"},
        locks=[a_lock("n1", "NodeHealthCheck-workers")],
    )
    plan = plan_of(cluster)
    assert [type(action).__name__ for action in plan.actions] == ["WriteStatus"]
    assert node_of(plan, "n1").remediations
    assert (status_of(plan).phase, condition_of(plan, "Disabled").reason) == ("Disabled", "MissingPermission")
    assert "foos is forbidden" in written(plan)["reason"]


def test_nothing_times_out_while_we_doubt_our_sight() -> None:
    foos, lock = [a_remediation("n1")], a_lock("n1", "NodeHealthCheck-workers")
    late = T0 + 31 * MINUTE

    def plan(**more: Any) -> Plan:
        return plan_of(the_cluster(a_check(), ill("n1"), *healthy(5), now=late, foos=foos, locks=[lock], **more))

    in_doubt = plan(doubts=("our clock is wrong",))
    assert of_type(in_doubt, MarkRemediation) == of_type(in_doubt, ReleaseLock) == []
    assert len(of_type(in_doubt, HoldLock)) == 1
    entry = node_of(in_doubt, "n1")
    assert entry.reason == "Remediating"
    assert entry.message == (
        "FooRemediation ns/n1 has not brought the node back in time, as far as we can tell; "
        "it is not given up yet: we do not trust our own sight: our clock is wrong"
    )
    assert in_doubt.wake_at == late + SECOND
    assert node_of(plan(), "n1").reason == "TimedOut"


def test_a_remediation_that_cannot_be_read_is_a_doubt_for_the_checks_that_make_such() -> None:
    bars = a_check("bars", remediationTemplate=template_ref("bar", BAR_TEMPLATE), selector={"matchLabels": {"x": "y"}})
    nodes = [ill("n1"), ill("n2", labels={"x": "y"}), *healthy(9), *healthy(9, "v", labels={"x": "y"})]
    foos = a_check("foos", selector={"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]})
    unread = (Unread("foos", "ns/n9", "it is garbled"),)
    plan = plan_of(the_cluster([foos, bars], *nodes, unread=unread))
    assert started(plan) == ["n2"]
    assert gate_of(plan, "SelfDoubt", check="foos").message == (
        "we do not trust our own sight: foos ns/n9 cannot be read: it is garbled"
    )


def test_a_lock_of_ours_from_the_future_is_renewed() -> None:
    lock = a_lock("n1", "NodeHealthCheck-workers", renewed=T0 + 3 * HOUR)
    plan = plan_of(the_cluster(a_check(), ill("n1"), *healthy(5), foos=[a_remediation("n1")], locks=[lock]))
    assert len(of_type(plan, HoldLock)) == 1
