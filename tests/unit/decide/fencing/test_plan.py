"""One look, one plan: what is written down, done and reported for every machine that is to be power-cycled."""

from typing import Any

import msgspec
import pytest

from defib.decide.fencing.case import VOLUME_ATTACHMENT
from defib.decide.fencing.plan import Fencing, plan_fencing
from defib.decide.rules import LOOK_AGAIN, Rules
from defib.model import medik8s
from defib.model.action import (
    DeleteAttachment,
    FreePod,
    HoldLock,
    OpenIncident,
    ReadPower,
    ReleaseLock,
    ReportRemediation,
    SetFinalizers,
    SwitchPower,
    TaintNode,
)
from defib.model.cluster import Cluster, Served, Unread
from defib.model.incident import (
    INCIDENT,
    INCIDENTS,
    MESSAGE_MAX,
    TIMELINE_MAX,
    Cause,
    Entry,
    IncidentSpec,
    NodeIncident,
    Outcome,
    Phase,
    Proof,
)
from defib.model.meta import Meta, Unstructured
from defib.model.node import Lease, LeaseSpec
from defib.model.power import PowerSeen
from defib.model.power_cycle import FINALIZER, LOCK_HOLDER, REMEDIATION
from defib.model.saved import Saved
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.fencing.cases import (
    NODE,
    OFF,
    ON,
    PATH,
    PROOF,
    SEEN_ON,
    UNKNOWN,
    a_command,
    a_look,
    a_pod,
    after,
    an_attachment,
    an_incident,
    back,
    change,
    failed,
    look_at,
    off,
    on,
    seen,
    tainted,
)

RULES = Rules()
CAUSE = Cause(api_version=REMEDIATION.api_version, kind=REMEDIATION.name, name="n1", namespace="ops", uid="pcr-1")
SPEC = {"power": {"driver": "redfish", "address": "https://bmc-n1"}}
MASTER = {"node-role.kubernetes.io/control-plane": ""}


def an_item(name: str = "n1", spec: Any = SPEC, **meta: Any) -> Unstructured:
    usual: dict[str, Any] = {
        "name": name,
        "namespace": "ops",
        "uid": f"pcr-{name}".replace("pcr-n1", "pcr-1"),
        "generation": 1,
        "finalizers": [FINALIZER],
    }
    return Unstructured(
        api_version=REMEDIATION.api_version, kind=REMEDIATION.name, metadata=Meta(**(usual | meta)), spec=spec
    )


def incident(phase: Phase, *, spec: dict[str, Any] | None = None, **status: Any) -> NodeIncident:
    usual: dict[str, Any] = {"node": "n1", "cause": CAUSE}
    return an_incident(phase, spec=IncidentSpec(**(usual | (spec or {}))), **status)


def a_lock(node: str = "n1", by: str = LOCK_HOLDER, renewed: Any = T0) -> dict[str, Lease]:
    meta = Meta(name=medik8s.lock_of(node), namespace=RULES.lock_namespace, uid=f"lock-{node}", resource_version="2")
    spec = LeaseSpec(holder_identity=by, lease_duration_seconds=600, renew_time=renewed)
    return {f"{RULES.lock_namespace}/{meta.name}": Lease(metadata=meta, spec=spec)}


def sight(
    *incidents: NodeIncident, items: tuple[Unstructured, ...] = (), seen: PowerSeen | None = None, **more: Any
) -> Cluster:
    others = {
        INCIDENTS: {one.name: one for one in incidents},
        "pcrs": {one.key: one for one in items or (an_item(),)},
    } | more.pop("others", {})
    return a_look(
        others=others,
        kinds={REMEDIATION: Served("pcrs", namespaced=True)},
        locks=more.pop("locks", a_lock()),
        power={"i-1": seen} if seen is not None else {},
        **more,
    )


def plan(*incidents: NodeIncident, **more: Any) -> Fencing:
    rules = more.pop("rules", RULES)
    return plan_fencing(sight(*incidents, **more), rules)


def first(found: Fencing, kind: type) -> Any:
    return next(action for action in found.actions if isinstance(action, kind))


def kinds(found: Fencing) -> set[type]:
    return {type(action) for action in found.actions}


def written(found: Fencing) -> dict[str, Any]:
    """What is merged into the status of the incident; nothing when nothing is."""
    about = [one for one in found.actions if isinstance(one, ReportRemediation) and one.target.kind == INCIDENT]
    assert len(about) <= 1
    return about[0].status if about else {}


# Opening


def test_without_an_order_there_is_nothing_to_do() -> None:
    assert plan_fencing(a_look(), RULES).actions == ()


def test_a_remediation_is_held_before_its_incident_is_opened() -> None:
    found = plan(items=(an_item(finalizers=[]),))
    assert kinds(found) == {SetFinalizers}


def test_an_incident_is_opened_before_anything_is_done() -> None:
    opened = first(plan(), OpenIncident)
    assert opened.body == {
        "metadata": {"name": "n1"},
        "spec": {"node": "n1", "cause": msgspec.to_builtins(CAUSE)},
    }
    assert opened.instead_of is None
    assert first(plan(node=a_node("n1", labels=MASTER)), OpenIncident).body["spec"]["controlPlane"] is True


def test_it_is_opened_even_if_something_stands_against_it_so_that_a_person_can_see_it() -> None:
    assert OpenIncident in kinds(plan(rules=Rules(brake_setting=True)))


def test_a_closed_incident_of_somebody_else_makes_room() -> None:
    other = change(incident(Phase.CLOSED), spec=IncidentSpec(node="n1", cause=change(CAUSE, uid="other")))
    opened = first(plan(other), OpenIncident)
    assert opened.instead_of is not None
    assert opened.instead_of.uid == "i-1"


def test_rm15_what_is_closed_is_not_opened_again() -> None:
    """RM-15: no reboot loop."""
    found = plan(incident(Phase.CLOSED, outcome=Outcome.RECOVERED))
    assert kinds(found) <= {ReportRemediation, ReleaseLock}
    assert written(found) == {}


def test_rm15_what_has_succeeded_is_not_begun_again_when_its_incident_is_long_gone() -> None:
    """RM-15."""
    succeeded = {"type": medik8s.SUCCEEDED, "status": "True", "reason": "Closed"}
    over = change(an_item(), status={"conditions": [succeeded]})
    assert OpenIncident not in kinds(plan(items=(over,)))


def test_two_orders_for_one_node_never_have_two_incidents() -> None:
    """I2."""
    second = an_item("n1-again", annotations={medik8s.NODE_NAME: "n1"})
    found = plan(incident(Phase.POWERING_OFF), items=(an_item(), second))
    assert OpenIncident not in kinds(found)
    (told,) = [one for one in found.actions if isinstance(one, ReportRemediation) and one.target.name == "n1-again"]
    assert {one["reason"] for one in told.status["conditions"]} == {"OtherIncident"}


@pytest.mark.parametrize(
    "more",
    [
        {"items": (an_item(deletion_timestamp=T0),)},
        {"items": (an_item(annotations={medik8s.TIMED_OUT: "now"}),)},
        {"items": (an_item(spec={}),)},
        {"unread": (Unread(INCIDENTS, "n1", "no"),)},
        {"absent": {INCIDENTS: "forbidden"}},
    ],
    ids=["deleted", "timed out", "invalid", "unreadable", "no incidents"],
)
def test_nothing_is_opened_for_what_cannot_or_must_not_begin(more: Any) -> None:
    assert OpenIncident not in kinds(plan(**more))


def test_a_machine_that_is_being_switched_under_another_name_is_left_alone_meanwhile() -> None:
    """I2: a machine has one power, whatever it is called."""
    other = change(CAUSE, uid="machine-1", kind="Machine", name="m1")
    at_work = change(
        incident(Phase.POWERING_OFF, spec={"node": "", "cause": other}, power=PATH),
        metadata=Meta(name="m1.machine-1", uid="i-2", resource_version="1"),
    )
    waiting = plan(incident(Phase.OPEN), at_work)
    assert written(waiting)["reason"] == "OtherIncident"
    elsewhere = change(at_work, status=change(at_work.status, power=change(PATH, address="https://bmc-n2")))
    assert written(plan(incident(Phase.OPEN), elsewhere))["phase"] == Phase.LOOKING


def test_an_incident_that_cannot_be_read_is_told() -> None:
    told = first(plan(unread=(Unread(INCIDENTS, "n1", "no phase"),)), ReportRemediation)
    assert {one["reason"] for one in told.status["conditions"]} == {"IncidentUnreadable"}


# Going from phase to phase


def test_a_phase_is_entered_by_one_write_and_nothing_is_done_in_the_same_pass() -> None:
    found = plan(incident(Phase.OPEN))
    status = written(found)
    assert (status["phase"], status["reason"], status["nodeUID"]) == (Phase.LOOKING, "LookingAtPower", "uid-n1")
    assert status["since"] == msgspec.to_builtins(T0)
    assert [entry["phase"] for entry in status["timeline"]] == [Phase.LOOKING]
    assert ReadPower not in kinds(found)


def test_a_write_is_for_the_very_version_that_was_judged() -> None:
    entered = next(
        one
        for one in plan(incident(Phase.OPEN)).actions
        if isinstance(one, ReportRemediation) and one.target.kind == INCIDENT
    )
    assert (entered.target.uid, entered.version) == ("i-1", "7")


def test_a_proof_is_in_the_record_before_the_taint_is_planned() -> None:
    """I1."""
    proved = seen(off(1), off(2), told=OFF)
    off_now = incident(Phase.POWERING_OFF, seen_on=SEEN_ON, command=a_command(OFF))
    found = plan(off_now, at=3, seen=proved)
    assert written(found)["proof"]["grade"] == "A"
    assert len(written(found)["proof"]["readings"]) == 2
    assert written(found)["tainted"] is True
    assert TaintNode not in kinds(found)
    assert TaintNode in kinds(plan(incident(Phase.FREEING, proof=PROOF, tainted=True), at=4, seen=proved))


PROVED: dict[str, Any] = {"seen": seen(off(1), off(2), told=OFF), "at": 3}


def lost(found: Fencing) -> list[tuple[str, bool, str]]:
    """What is told of pods on their own, once it is written."""
    tells = [event for action in found.actions if isinstance(action, ReportRemediation) for event in action.tells]
    return [(event.check, event.is_warning, event.message) for event in tells if event.reason == "BarePodsLost"]


def test_pods_that_nobody_makes_again_are_named_when_the_machine_is_proved_to_be_down() -> None:
    pods = [a_pod("web"), a_pod("alone", owner="")]
    found = plan(incident(Phase.POWERING_OFF, seen_on=SEEN_ON), pods=pods, **PROVED)
    message = "no controller makes these pods again (1): d/alone"
    assert written(found)["timeline"][-1]["message"] == f"it is proved to be down; {message}"
    assert lost(found) == [("n1", True, f"n1: {message}")]


def test_where_none_are_lost_nobody_is_told() -> None:
    found = plan(incident(Phase.POWERING_OFF, seen_on=SEEN_ON), pods=[a_pod("web")], **PROVED)
    assert written(found)["timeline"][-1]["message"] == "it is proved to be down"
    assert lost(found) == []


def test_pods_that_come_in_sight_later_are_named_then_and_once() -> None:
    """Before they are ended. What is written decides, so a crash changes nothing."""
    begun = [Entry(at=T0, phase=Phase.FREEING, message="it is proved to be down")]
    known: dict[str, Any] = {"proof": PROOF, "tainted": True, "reason": "PodsLeaving"}
    look: dict[str, Any] = {"node": tainted(NODE), "pods": [a_pod("alone", owner="")], **PROVED}
    unseen = plan(incident(Phase.FREEING, timeline=begun, **known), **(look | {"pods": None}))
    assert "timeline" not in written(unseen)
    found = plan(incident(Phase.FREEING, timeline=begun, **known), **look)
    assert [entry["phase"] for entry in written(found)["timeline"]] == [Phase.FREEING, Phase.FREEING]
    assert len(lost(found)) == 1
    assert FreePod not in kinds(found)
    told = msgspec.convert(written(found)["timeline"], list[Entry])
    again = plan(incident(Phase.FREEING, timeline=told, **known), **look)
    assert "timeline" not in written(again)
    assert lost(again) == []
    assert FreePod in kinds(again)


def test_the_timeline_keeps_the_latest() -> None:
    long = [Entry(at=T0, phase="Open", message=str(number)) for number in range(TIMELINE_MAX)]
    timeline = written(plan(incident(Phase.OPEN, timeline=long)))["timeline"]
    assert len(timeline) == TIMELINE_MAX
    assert timeline[0]["message"] == "1"
    assert timeline[-1]["phase"] == Phase.LOOKING


@pytest.mark.parametrize(
    ("case", "outcome", "message"),
    [
        (
            {"incident": incident(Phase.RESTORING), "node": back()},
            Outcome.RECOVERED,
            "the node is back; nothing of ours is left",
        ),
        (
            {"incident": incident(Phase.CANCELLING), "items": (an_item(deletion_timestamp=T0),)},
            Outcome.CANCELLED,
            "the remediation is being deleted; nothing of ours is left",
        ),
        (
            {"incident": incident(Phase.REPLACING), "node": None},
            Outcome.REPLACED,
            "it was handed over; the machine is gone",
        ),
    ],
    ids=["recovered", "cancelled", "replaced"],
)
def test_how_it_ended_is_told(case: dict[str, Any], outcome: Outcome, message: str) -> None:
    status = written(plan(case.pop("incident"), **case))
    assert (status["phase"], status["outcome"], status["message"]) == (Phase.CLOSED, outcome, message)


def test_why_an_attempt_failed_stays_to_be_read() -> None:
    stuck = incident(Phase.POWERING_OFF, attempt=3)
    status = written(plan(stuck, at=60, seen=seen(on(59), told=OFF)))
    assert (status["phase"], status["reason"]) == (Phase.NEEDS_PERSON, "StillOn")
    assert status["timeline"][-1]["message"].startswith("StillOn: ")


def test_a_message_is_never_too_long_for_the_api_server() -> None:
    stuck = incident(Phase.POWERING_OFF, attempt=3)
    status = written(plan(stuck, at=60, failures=failed("power off n1", why="x" * 5000)))
    assert len(status["message"]) == MESSAGE_MAX
    assert len(status["timeline"][-1]["message"]) == MESSAGE_MAX


def test_what_is_said_is_written_when_it_changes_and_only_then() -> None:
    same = incident(
        Phase.RETURNING, reason="WaitingForNode", message="it waits until the node is ready, with a new boot ID"
    )
    assert written(plan(same)) == {}
    assert written(plan(incident(Phase.RETURNING))) == {
        "reason": "WaitingForNode",
        "message": "it waits until the node is ready, with a new boot ID",
    }


def test_a_command_comes_before_words() -> None:
    """Both are writes of one version of the incident: of two, one would fail."""
    found = plan(incident(Phase.POWERING_OFF))
    assert SwitchPower in kinds(found)
    assert written(found) == {}


def test_time_that_was_held_back_begins_anew() -> None:
    held = incident(Phase.FREEING, proof=PROOF, tainted=True, reason="Brake", message="the brake is on")
    assert written(plan(held, at=10**5))["since"] == msgspec.to_builtins(after(10**5))


def test_nothing_is_told_to_a_machine_before_its_time_has_begun_anew() -> None:
    """One write of the incident at a time; and what is read of the machine must count for this phase."""
    held = incident(Phase.POWERING_OFF, reason="SelfDoubt", message="too much is silent at once")
    found = plan(held, at=10)
    assert written(found)["since"] == msgspec.to_builtins(after(10))
    assert SwitchPower not in kinds(found)


def test_a_machine_that_was_told_to_go_off_is_gone_on_with_while_too_many_are_silent_for_another_to_be_told() -> None:
    """I5: of three nodes one was told to go off and has not been proved to be, and another one falls silent."""
    late = LeaseSpec(holder_identity="-", lease_duration_seconds=40, renew_time=T0 - MINUTE)
    on_time = change(late, renew_time=T0)
    meta = {name: Meta(name=name, namespace="kube-node-lease") for name in ("n1", "n2", "n3")}
    beats = {
        f"kube-node-lease/{name}": Lease(metadata=meta[name], spec=on_time if name == "n3" else late) for name in meta
    }
    other = change(
        an_incident(Phase.POWERING_OFF, spec=IncidentSpec(node="n2", cause=change(CAUSE, name="n2", uid="pcr-n2"))),
        metadata=Meta(name="n2", uid="i-2"),
    )
    told = change(other, status=change(other.status, command=a_command(OFF)))
    nodes = {name: a_node(name, ready="Unknown") for name in meta}
    items = (an_item(), an_item("n2"))

    def begun(mine: NodeIncident, others: NodeIncident) -> set[str]:
        cluster = change(sight(mine, others, items=items, locks=a_lock() | a_lock("n2")), nodes=nodes, heartbeats=beats)
        found = plan_fencing(cluster, RULES)
        return {action.incident.name for action in found.actions if isinstance(action, SwitchPower)}

    assert begun(incident(Phase.POWERING_OFF), other) == set()
    assert begun(incident(Phase.POWERING_OFF), told) == {"n2"}
    assert begun(incident(Phase.POWERING_OFF, proof=PROOF, command=a_command(OFF)), told) == {"n1", "n2"}


@pytest.mark.parametrize(("proof", "held"), [(None, True), (PROOF, False)])
def test_what_is_proved_is_freed_only_while_most_others_are_heard_or_proved_as_well(
    proof: Proof | None, held: bool
) -> None:
    """I5: of six nodes one is proved to be down, another one was told to go off, and two more are silent."""
    late = LeaseSpec(holder_identity="-", lease_duration_seconds=40, renew_time=T0 - MINUTE)
    names = [f"n{number}" for number in range(1, 7)]
    beats = {
        f"kube-node-lease/{name}": Lease(
            metadata=Meta(name=name, namespace="kube-node-lease"),
            spec=change(late, renew_time=T0) if name in ("n5", "n6") else late,
        )
        for name in names
    }
    other = change(
        an_incident(
            Phase.POWERING_OFF,
            spec=IncidentSpec(node="n2", cause=change(CAUSE, name="n2", uid="pcr-n2")),
            command=a_command(OFF),
            proof=proof,
        ),
        metadata=Meta(name="n2", uid="i-2"),
    )
    mine = incident(Phase.FREEING, proof=PROOF, command=a_command(OFF))
    cluster = change(
        sight(mine, other, items=(an_item(), an_item("n2")), locks=a_lock() | a_lock("n2")),
        nodes={name: a_node(name, ready="Unknown") for name in names},
        heartbeats=beats,
    )
    told = next(
        action.status["reason"]
        for action in plan_fencing(cluster, RULES).actions
        if isinstance(action, ReportRemediation) and action.target.kind == INCIDENT and action.target.name == "n1"
    )
    assert (told == "SelfDoubt") is held


def test_what_a_node_gets_before_it_is_deleted_is_saved_too() -> None:
    """RM-11."""
    item = an_item(spec=SPEC | {"workloads": "DeleteNode"})
    freeing = incident(Phase.FREEING, proof=PROOF, saved=Saved(labels={}, annotations={}))
    fresh = a_node("n1", ready="Unknown", labels={"rack": "7"})
    assert written(plan(freeing, items=(item,), node=fresh))["saved"]["labels"] == {"rack": "7"}


def test_a_policy_that_changes_to_the_taint_writes_down_that_the_taint_is_ours() -> None:
    item = an_item(spec=SPEC | {"workloads": "OutOfServiceTaint"})
    freeing = incident(Phase.FREEING, proof=PROOF, saved=Saved())
    found = plan(freeing, items=(item,))
    assert written(found)["tainted"] is True
    assert TaintNode not in kinds(found)


# Causes that are gone


def test_what_was_begun_for_a_cause_that_is_gone_is_undone() -> None:
    """RM-16, RM-23."""
    gone: dict[str, Any] = {"others": {"pcrs": {}}}
    assert written(plan(incident(Phase.POWERING_OFF), **gone))["phase"] == Phase.CANCELLING
    found = plan(incident(Phase.CANCELLING, command=a_command(OFF)), **gone)
    command = first(found, SwitchPower)
    assert (command.power, command.path) == (ON, PATH)


def test_a_cause_that_is_only_out_of_sight_is_not_gone() -> None:
    off_now = incident(Phase.POWERING_OFF)
    unseen = sight(off_now)
    unseen = change(unseen, others={INCIDENTS: {"n1": off_now}})
    assert plan_fencing(unseen, RULES).actions == ()


def test_a_closed_incident_whose_cause_is_gone_is_left_alone() -> None:
    assert plan(incident(Phase.CLOSED), others={"pcrs": {}}, locks={}).actions == ()


# Control plane


def two_masters(*phases: Phase) -> Cluster:
    names = ("n1", "n2")
    items = tuple(an_item(name) for name in names)
    opened = {
        name: change(
            incident(
                phase, spec={"node": name, "control_plane": True, "cause": change(CAUSE, name=name, uid=item.uid)}
            ),
            metadata=Meta(name=name, uid=f"i-{name}", resource_version="7"),
        )
        for name, phase, item in zip(names, phases, items, strict=True)
    }
    nodes = {
        name: a_node(name, labels=MASTER, ready="Unknown" if name in names else "True")
        for name in (*names, "n3", "n4", "n5")
    }
    cluster = sight(items=items, others={INCIDENTS: opened}, locks=a_lock("n1") | a_lock("n2"))
    return change(cluster, nodes=nodes)


def entered(found: Fencing) -> set[str]:
    reports = [one for one in found.actions if isinstance(one, ReportRemediation) and one.target.kind == INCIDENT]
    return {one.target.name for one in reports if one.status.get("phase") == Phase.LOOKING}


def test_of_two_control_plane_nodes_that_could_begin_at_once_one_begins() -> None:
    """I4: the first is not written down yet when the second is looked at."""
    assert entered(plan_fencing(two_masters(Phase.OPEN, Phase.OPEN), RULES)) == {"n1"}
    assert entered(plan_fencing(two_masters(Phase.OPEN, Phase.POWERING_OFF), RULES)) == set()
    assert entered(plan_fencing(two_masters(Phase.CLOSED, Phase.OPEN), RULES)) == {"n2"}


# Locks


def test_the_lock_is_taken_when_it_is_opened_and_renewed_while_it_lasts() -> None:
    """I2."""
    claim = first(plan(incident(Phase.OPEN), locks={}), HoldLock).claim
    assert (claim.node, claim.node_uid, claim.holder, claim.known) == ("n1", "uid-n1", LOCK_HOLDER, None)
    assert HoldLock not in kinds(plan(incident(Phase.RETURNING), at=299))
    assert HoldLock in kinds(plan(incident(Phase.RETURNING), at=300))


def test_a_lock_of_somebody_else_is_left_alone() -> None:
    """I2, I7."""
    theirs = a_lock(by="node-maintenance")
    for phase in (Phase.OPEN, Phase.RETURNING, Phase.CLOSED, Phase.NEEDS_PERSON):
        assert not kinds(plan(incident(phase), locks=theirs)) & {HoldLock, ReleaseLock}


@pytest.mark.parametrize("phase", [Phase.CLOSED, Phase.NEEDS_PERSON])
@pytest.mark.parametrize("node", [NODE, None], ids=["node", "no node"])
def test_the_lock_is_given_back_when_it_is_over_or_a_persons(phase: Phase, node: Any) -> None:
    released = first(plan(incident(phase), node=node), ReleaseLock)
    assert (released.uid, released.version) == ("lock-n1", "2")


def test_the_lock_of_what_nobody_asked_for_any_more_is_given_back_as_it_ends() -> None:
    assert ReleaseLock in kinds(plan(incident(Phase.CANCELLING), others={"pcrs": {}}))


def test_no_lock_is_taken_for_what_is_not_wanted_any_more() -> None:
    item = an_item(deletion_timestamp=T0)
    assert HoldLock not in kinds(plan(incident(Phase.CANCELLING, command=a_command(OFF)), items=(item,), locks={}))


# Waking


def wakes(found: Fencing) -> float | None:
    return (found.wake_at - T0) / SECOND if found.wake_at is not None else None


def test_it_wakes_to_detach_what_kubernetes_has_not() -> None:
    freeing = incident(Phase.FREEING, proof=PROOF, tainted=True)
    look: dict[str, Any] = {"node": tainted(NODE), "volumes": [an_attachment("n1")], "seen": PROVED["seen"]}
    assert wakes(plan(freeing, at=3, **look)) == 10
    assert DeleteAttachment in kinds(plan(freeing, at=10, **look))
    assert (wakes(plan(freeing, at=10, **look)) or 0) > 119


def test_it_wakes_to_read_again_what_nobody_has_seen_of_a_machine_that_is_written_to_be_off() -> None:
    freeing = incident(Phase.FREEING, proof=PROOF, tainted=True)
    look: dict[str, Any] = {"node": tainted(NODE), "pods": [a_pod()], "at": 3}
    assert ReadPower in kinds(plan(freeing, **look))
    assert FreePod not in kinds(plan(freeing, **look))
    assert wakes(plan(freeing, seen=seen(look_at(UNKNOWN, 2.8)), **look)) == 3.3


def test_it_wakes_for_the_next_reading_the_next_command_and_the_deadline() -> None:
    assert wakes(plan(incident(Phase.LOOKING), at=1, seen=seen(off(0.8)))) is None  # it enters the next phase
    told = seen(on(1), told=OFF)
    assert wakes(plan(incident(Phase.POWERING_OFF), at=1.2, seen=told)) == 1.5
    late = seen(on(58), told=OFF, at=50)
    assert wakes(plan(incident(Phase.POWERING_OFF), at=59.5, seen=late)) == 60
    assert wakes(plan(incident(Phase.RETURNING))) == 600.001
    assert wakes(plan(incident(Phase.NEEDS_PERSON))) is None


def test_it_wakes_for_a_proof_by_time() -> None:
    item = an_item(spec=SPEC | {"acceptedProofs": ["C"]})
    unreadable = seen(told=OFF, at=5, can_read=False)
    assert wakes(plan(incident(Phase.POWERING_OFF), items=(item,), at=6, seen=unreadable)) == 35


def test_whatever_waits_for_others_looks_again_soon() -> None:
    """Heartbeats and locks cause no pass."""
    held = plan(incident(Phase.POWERING_OFF), rules=Rules(brake_setting=True))
    assert held.wake_at == T0 + LOOK_AGAIN
    assert plan(incident(Phase.OPEN), locks=a_lock(by="x")).wake_at == T0 + LOOK_AGAIN
    item = an_item(spec=SPEC | {"requireNewBoot": False})
    silent = plan(incident(Phase.RETURNING), items=(item,), node=back("boot-1"), at=9)
    assert silent.wake_at == after(9) + LOOK_AGAIN


# What must be in sight


def test_pods_are_followed_from_before_they_matter() -> None:
    assert plan(incident(Phase.POWERING_OFF)).nodes == {"n1"}
    assert plan(incident(Phase.FREEING, proof=PROOF)).nodes == {"n1"}
    assert plan(incident(Phase.RETURNING)).nodes == frozenset()


def test_volumes_and_causes_are_followed_while_anything_is_open() -> None:
    assert {VOLUME_ATTACHMENT, REMEDIATION} <= set(plan(incident(Phase.LOOKING)).kinds)


def test_the_power_of_open_incidents_is_remembered_and_of_no_others() -> None:
    assert plan(incident(Phase.NEEDS_PERSON)).open == {"i-1"}
    assert plan(incident(Phase.CLOSED)).open == frozenset()


# As a whole


def test_the_same_look_gives_the_same_plan() -> None:
    """I12."""
    look = sight(incident(Phase.FREEING, proof=PROOF, tainted=True), node=tainted(NODE))
    one = plan_fencing(look, RULES)
    assert plan_fencing(look, RULES, one) == one
    assert plan_fencing(look, RULES) == one


def test_whoever_waits_for_a_condition_of_an_incident_hears_of_it() -> None:
    off_twice = seen(off(2), off(3), told=OFF, at=1)
    proved = written(plan(incident(Phase.POWERING_OFF, seen_on=SEEN_ON), at=4, seen=off_twice))
    told = {one["type"]: one["status"] for one in proved["conditions"]}
    assert told == {"Closed": "False", "Fenced": "True", "NeedsPerson": "False"}
    stuck = written(plan(incident(Phase.POWERING_OFF, attempt=3), at=60, seen=seen(on(59), told=OFF)))
    told = {one["type"]: one["status"] for one in stuck["conditions"]}
    assert told == {"Closed": "False", "Fenced": "False", "NeedsPerson": "True"}
    over = written(plan(incident(Phase.RESTORING, proof=PROOF), node=back()))
    told = {one["type"]: one["status"] for one in over["conditions"]}
    assert told == {"Closed": "True", "Fenced": "True", "NeedsPerson": "False"}
