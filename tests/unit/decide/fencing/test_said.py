"""What a person reads of an incident in each phase: one word that stays the same, and one sentence."""

from typing import Any

import pytest

from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.said import said
from defib.model.action import Target
from defib.model.health_check import KindRef
from defib.model.incident import Grade, Phase
from tests.unit.decide.fencing.cases import (
    BRAKE,
    BY_HAND,
    NODE,
    OFF,
    ON,
    PROOF,
    UNKNOWN,
    a_case,
    a_command,
    a_pod,
    a_policy,
    after,
    an_attachment,
    an_order,
    back,
    failed,
    look_at,
    off,
    on,
    seen,
    tainted,
)

LOCK = Obstacle("Lock", "somebody works on the node")
MACHINE = Target(kind=KindRef("machine.openshift.io/v1beta1", "Machine"), namespace="m", name="m-1", uid="m-1")
WITHDRAWN = an_order(withdrawn="the remediation is being deleted")


@pytest.mark.parametrize(
    ("phase", "more", "reason"),
    [
        (Phase.OPEN, {}, "Starting"),
        (Phase.OPEN, {"obstacle": LOCK}, "Lock"),
        (Phase.LOOKING, {}, "ReadingPower"),
        (Phase.LOOKING, {"at": 2, "seen": seen(look_at(UNKNOWN, 1))}, "PowerUnknown"),
        (Phase.LOOKING, {"failures": failed("read power n1")}, "PowerFailed"),
        (Phase.TESTING, {}, "TestingPower"),
        (Phase.TESTING, {"at": 2, "seen": seen(off(1), told=ON)}, "PowerDoubtful"),
        (Phase.TESTING, {"failures": failed("power on n1")}, "PowerFailed"),
        (Phase.POWERING_OFF, {}, "PoweringOff"),
        (Phase.POWERING_OFF, {"hold": BRAKE}, "Brake"),
        (Phase.POWERING_OFF, {"at": 2, "seen": seen(off(1), told=OFF), "heartbeat": after(1.5)}, "PowerContradicted"),
        (Phase.POWERING_OFF, {"failures": failed("power off n1")}, "PowerFailed"),
        (Phase.POWERING_OFF, {"at": 9, "seen": seen(on(8), told=OFF)}, "PoweringOff"),
        (Phase.POWERING_OFF, {"at": 11, "seen": seen(on(10), told=OFF)}, "StillOn"),
        (Phase.FREEING, {}, "TellingKubernetes"),
        (Phase.FREEING, {"hold": BRAKE}, "Brake"),
        (Phase.FREEING, {"proof": PROOF}, "ReadingPower"),
        (Phase.FREEING, {"proof": PROOF, "hold": BRAKE}, "Brake"),
        (Phase.FREEING, {"proof": PROOF, "at": 2, "seen": seen(look_at(UNKNOWN, 1))}, "PowerUnknown"),
        (Phase.FREEING, {"proof": PROOF, "at": 2, "seen": seen(off(-1), look_at(UNKNOWN, 1))}, "TellingKubernetes"),
        (Phase.FREEING, {"proof": PROOF, "at": 60, "seen": seen(off(1))}, "TellingKubernetes"),
        (Phase.FREEING, {"proof": PROOF, "at": 60, "seen": seen(off(1), look_at(UNKNOWN, 59))}, "PowerUnknown"),
        (Phase.FREEING, {"failures": failed("taint n1")}, "NodeNotWritten"),
        (Phase.FREEING, {"failures": failed("delete node n1")}, "NodeNotWritten"),
        (Phase.FREEING, {"node": tainted(NODE), "pods": None}, "PodsOutOfSight"),
        (Phase.FREEING, {"node": tainted(NODE), "pods": [a_pod()]}, "PodsLeaving"),
        (Phase.FREEING, {"node": tainted(NODE), "volumes": [an_attachment("n1")]}, "VolumesDetaching"),
        (
            Phase.FREEING,
            {"node": tainted(NODE), "volumes": [an_attachment("n1")], "failures": failed("detach va-n1")},
            "VolumesNotDetached",
        ),
        (
            Phase.FREEING,
            {"node": tainted(NODE), "volumes": [an_attachment("n1")], "failures": failed("detach va-n2")},
            "VolumesDetaching",
        ),
        (Phase.POWERING_ON, {}, "PoweringOn"),
        (Phase.POWERING_ON, {"failures": failed("power on n1")}, "PowerFailed"),
        (Phase.RETURNING, {}, "WaitingForNode"),
        (Phase.RETURNING, {"node": None}, "WaitingForNode"),
        (Phase.RETURNING, {"node": back("boot-1")}, "SameBoot"),
        (Phase.RESTORING, {}, "Restoring"),
        (Phase.RESTORING, {"failures": failed("untaint n1")}, "NodeNotWritten"),
        (Phase.RESTORING, {"failures": failed("restore n1")}, "NodeNotWritten"),
        (Phase.RESTING, {}, "WaitingToRetry"),
        (Phase.RESTING, {"obstacle": LOCK}, "Lock"),
        (Phase.CANCELLING, {"order": WITHDRAWN}, "Cancelling"),
        (Phase.CANCELLING, {"order": WITHDRAWN, "failures": failed("power on n1")}, "PowerFailed"),
        (Phase.REPLACING, {}, "ReplacingMachine"),
        (Phase.REPLACING, {"hold": BRAKE}, "Brake"),
        (
            Phase.REPLACING,
            {"order": an_order(machine=MACHINE), "failures": failed("delete machine m-1")},
            "MachineNotDeleted",
        ),
        (Phase.NEEDS_PERSON, {"reason": "StillOn", "message": "still"}, "StillOn"),
        (Phase.NEEDS_PERSON, {"order": an_order(path=BY_HAND)}, "WaitsForConfirmation"),
        (Phase.NEEDS_PERSON, {"order": an_order(path=BY_HAND), "proof": PROOF}, "WaitsForPowerOn"),
        (Phase.CLOSED, {"reason": "Closed", "message": "over"}, "Closed"),
    ],
)
def test_each_phase_has_its_words(phase: Phase, more: Any, reason: str) -> None:
    so = said(a_case(phase, **more))
    assert so.reason == reason
    assert so.message


def test_a_machine_that_nobody_can_reach_is_told_with_what_it_answered() -> None:
    assert said(a_case(Phase.POWERING_OFF, failures=failed("power off n1"))).message == "the BMC said no"


def test_a_volume_that_we_may_not_detach_is_told_with_what_the_api_server_answered() -> None:
    refused = failed("detach va-n1", why="volumeattachments is forbidden")
    case = a_case(Phase.FREEING, node=None, volumes=[an_attachment("n1")], failures=refused)
    assert said(case).message == "volumeattachments is forbidden"


def test_a_machine_without_a_way_to_its_power_is_told_why() -> None:
    order = an_order(path=Obstacle("NoPowerPath", "node n1 has no label bmc"))
    assert said(a_case(Phase.LOOKING, order=order, power=None)) == Obstacle("NoPowerPath", "node n1 has no label bmc")
    assert said(a_case(Phase.LOOKING, order=order)).reason == "ReadingPower"


def test_who_is_to_confirm_is_told_how() -> None:
    so = said(a_case(Phase.NEEDS_PERSON, order=an_order(path=BY_HAND)))
    assert "defib confirm-down n1" in so.message


def test_nobody_is_asked_for_a_confirmation_that_would_not_count() -> None:
    order = an_order(path=BY_HAND, policy=a_policy(accepts=(Grade.POWER,)))
    assert said(a_case(Phase.NEEDS_PERSON, order=order)).reason != "WaitsForConfirmation"


def test_what_is_said_does_not_run_with_the_clock() -> None:
    """Each word that changes is a write."""
    for phase in Phase:
        early, late = a_case(phase, at=1, command=a_command(OFF)), a_case(phase, at=9, command=a_command(OFF))
        assert said(early) == said(late)


def test_the_next_attempt_is_announced() -> None:
    assert said(a_case(Phase.RESTING, attempt=2)).message == "attempt 3 of 3 begins 1m after the last"
