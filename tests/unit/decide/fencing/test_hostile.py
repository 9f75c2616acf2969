"""What must not be believed, and what must not get in the way: clocks that differ, odd objects, half a proof."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from defib.decide.fencing.plan import plan_fencing
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import HoldLock, OpenIncident, ReportRemediation
from defib.model.cluster import Cluster, Served
from defib.model.incident import INCIDENT, INCIDENTS, Confirmation, Grade, IncidentSpec, NodeIncident, Phase
from defib.model.meta import Meta, Unstructured
from defib.model.node import Lease, LeaseSpec
from defib.model.power import Look, PowerPath, PowerSeen, Reading, Sent
from defib.model.power_cycle import FINALIZER, REMEDIATION
from tests.builders import T0, a_node
from tests.unit.decide.fencing.cases import (
    NODE,
    OFF,
    ON,
    PATH,
    PROOF,
    SEEN_ON,
    a_case,
    a_policy,
    after,
    an_incident,
    an_order,
    back,
    change,
    goes_to,
    off,
    on,
    seen,
)

WITH_C = an_order(policy=a_policy(accepts=(Grade.TIME, Grade.PERSON)))
LATE = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
SPEC = {"power": {"driver": "redfish", "address": "https://bmc"}}


def confirmed(at: datetime) -> IncidentSpec:
    return IncidentSpec(node="n1", confirmed_off=Confirmation(by="anna", at=at))


# Half a proof


def test_a_machine_whose_kubelet_reports_is_not_down_because_time_has_passed() -> None:
    told = seen(told=OFF, at=1, can_read=False)
    silent = a_case(Phase.POWERING_OFF, at=62, order=WITH_C, seen=told, heartbeat=after(3))
    assert silent.proof is not None
    for heartbeat in (after(30), after(61)):
        assert a_case(Phase.POWERING_OFF, at=62, order=WITH_C, seen=told, heartbeat=heartbeat).proof is None
    assert a_case(Phase.POWERING_OFF, at=35, order=WITH_C, seen=told, heartbeat=after(3)).proof is None, (
        "too early to say"
    )


def test_a_person_is_not_believed_against_heartbeats_or_a_reading() -> None:
    said = confirmed(after(10))
    assert a_case(Phase.NEEDS_PERSON, at=62, spec=said, heartbeat=T0).proof is not None
    assert a_case(Phase.NEEDS_PERSON, at=62, spec=said, heartbeat=after(40)).proof is None
    assert a_case(Phase.NEEDS_PERSON, at=62, spec=said, heartbeat=T0, seen=seen(on(61))).proof is None
    assert a_case(Phase.NEEDS_PERSON, at=62, spec=said, heartbeat=T0, seen=seen(on(5))).proof is not None


def test_a_word_from_the_future_is_no_word() -> None:
    assert a_case(Phase.NEEDS_PERSON, at=62, spec=confirmed(LATE), heartbeat=T0).proof is None


def test_the_time_of_a_confirmation_is_told_as_it_was() -> None:
    said = confirmed(after(10).astimezone(timezone(timedelta(hours=1))))
    proof = a_case(Phase.NEEDS_PERSON, at=62, spec=said, heartbeat=T0).proof
    assert proof is not None
    assert f"{after(10):%H:%M:%S} UTC" in proof.how


def test_what_was_read_or_sent_by_another_way_says_nothing() -> None:
    other = PowerPath(driver="redfish", address="https://another")
    looks = tuple(Look(Reading(OFF, after(second)), T0, path) for second in (2, 3) for path in (other,))
    fine = tuple(change(look, path=PATH) for look in looks)
    status = {"seen_on": SEEN_ON, "heartbeat": T0}
    sent = Sent(OFF, after(1), PATH)
    assert a_case(Phase.POWERING_OFF, at=4, seen=PowerSeen(fine, sent), **status).proof is not None
    assert a_case(Phase.POWERING_OFF, at=4, seen=PowerSeen(looks, sent), **status).proof is None
    assert a_case(Phase.POWERING_OFF, at=4, seen=PowerSeen(fine, change(sent, path=other)), **status).proof is None


# A node whose clock is ahead of ours


def test_a_machine_is_switched_on_again_even_if_its_node_seems_to_be_back_already() -> None:
    lenient = an_order(policy=a_policy(needs_new_boot=False))
    ahead: dict[str, Any] = {"order": lenient, "node": back("boot-1"), "heartbeat": after(9), "at": 4, "proof": PROOF}
    assert goes_to(a_case(Phase.FREEING, **ahead)) is not Phase.POWERING_ON, "it is not alive because a clock is ahead"
    assert goes_to(a_case(Phase.POWERING_ON, **ahead)) is None
    assert goes_to(a_case(Phase.POWERING_ON, **ahead, seen=seen(told=ON, at=1))) is Phase.RESTORING


# What must not get in the way


def an_item(spec: Any, name: str = "n1") -> Unstructured:
    return Unstructured(metadata=Meta(name=name, namespace="ops", uid=f"p-{name}", finalizers=[FINALIZER]), spec=spec)


def sight(item: Unstructured, *incidents: NodeIncident) -> Cluster:
    return Cluster(
        now=T0,
        nodes={"n1": NODE, "n2": a_node("n2")},
        kinds={REMEDIATION: Served("pcrs", namespaced=True)},
        others={"pcrs": {item.key: item}, INCIDENTS: {one.name: one for one in incidents}},
    )


@pytest.mark.parametrize(
    "item",
    [
        an_item({"power": {"driver": "redfish", "address": "{label:node-restriction.kubernetes.io/none}"}}),
        an_item({"power": {}}),
        an_item(SPEC, "nobody"),
    ],
    ids=["no way to its power", "invalid", "no such node"],
)
def test_what_cannot_begin_opens_nothing_and_takes_no_lock(item: Unstructured) -> None:
    """It would be in the way of a NodeHealthCheck that could do something for the node."""
    found = plan_fencing(sight(item), Rules())
    assert not [one for one in found.actions if isinstance(one, OpenIncident | HoldLock)]
    assert [one for one in found.actions if isinstance(one, ReportRemediation)], "and it says why"


def test_what_is_held_back_takes_no_lock_either() -> None:
    item = an_item(SPEC)
    held = change(an_incident(Phase.OPEN), spec=IncidentSpec(node="n1", cause=change(IncidentSpec().cause, uid="p-n1")))
    braked = plan_fencing(sight(item, held), Rules(brake_setting=True))
    assert not [one for one in braked.actions if isinstance(one, HoldLock)]
    assert [one for one in plan_fencing(sight(item, held), Rules()).actions if isinstance(one, HoldLock)]


def test_a_lock_of_somebody_else_is_waited_for_and_not_taken() -> None:
    item = an_item(SPEC)
    meta = Meta(name=medik8s.lock_of("n1"), namespace=medik8s.LOCK_NAMESPACE)
    spec = LeaseSpec(holder_identity="maintenance", lease_duration_seconds=600, renew_time=T0)
    held = change(an_incident(Phase.OPEN), spec=IncidentSpec(node="n1", cause=change(IncidentSpec().cause, uid="p-n1")))
    locks = {f"{meta.namespace}/{meta.name}": Lease(metadata=meta, spec=spec)}
    found = plan_fencing(change(sight(item, held), locks=locks), Rules())
    assert not [one for one in found.actions if isinstance(one, HoldLock)]


@pytest.mark.parametrize("since", [LATE, datetime(1, 1, 1, tzinfo=UTC)])
def test_a_closed_incident_with_a_time_that_makes_no_sense_harms_nothing(since: datetime) -> None:
    odd = an_incident(Phase.CLOSED, since=since)
    assert plan_fencing(sight(an_item(SPEC, "n2"), odd), Rules()).actions


def test_a_time_that_another_leader_wrote_too_far_ahead_is_set_right() -> None:
    ahead = change(
        an_incident(Phase.POWERING_OFF, since=after(3600)),
        spec=IncidentSpec(node="n1", cause=change(IncidentSpec().cause, uid="p-n1")),
    )
    found = plan_fencing(sight(an_item(SPEC), ahead), Rules())
    (report,) = [one for one in found.actions if isinstance(one, ReportRemediation) and one.target.kind == INCIDENT]
    assert report.status["since"] == T0.isoformat().replace("+00:00", "Z")


def test_off_is_said_of_a_machine_that_was_read_so_and_of_no_other() -> None:
    """The whole of it, once more: without one part there is no proof."""
    whole: dict[str, Any] = {"at": 4, "seen": seen(off(2), off(3), told=OFF, at=1), "seen_on": SEEN_ON, "heartbeat": T0}
    assert a_case(Phase.POWERING_OFF, **whole).proof is not None
    for part in (
        {"seen": seen(off(3), told=OFF, at=1)},
        {"seen_on": None},
        {"heartbeat": after(3)},
        {"seen": seen(off(2), off(3))},
    ):
        assert a_case(Phase.POWERING_OFF, **(whole | part)).proof is None
