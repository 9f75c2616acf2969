"""The way of an incident through its phases: which row is taken when, and what is written down with it."""

from typing import Any

import pytest

from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.table import TRANSITIONS
from defib.model.action import DeleteMachine, Target
from defib.model.cluster import Blindness
from defib.model.failure import Failure
from defib.model.health_check import KindRef
from defib.model.incident import Confirmation, Entry, Grade, IncidentSpec, Outcome, Phase
from defib.model.node import Node
from defib.model.power import FenceCheck, PowerSeen
from defib.model.power_cycle import HandOver, Workloads
from defib.model.saved import Saved
from tests.builders import MINUTE, SECOND, T0, a_node
from tests.unit.decide.fencing.cases import (
    BRAKE,
    BY_HAND,
    METAL3_PATH,
    NODE,
    OFF,
    ON,
    PATH,
    PROOF,
    SEEN_ON,
    UNKNOWN,
    a_case,
    a_command,
    a_host,
    a_pod,
    a_policy,
    after,
    an_attachment,
    an_order,
    back,
    change,
    failed,
    goes_to,
    look_at,
    off,
    on,
    seen,
    tainted,
    writes,
)

MACHINE = Target(kind=KindRef("machine.openshift.io/v1beta1", "Machine"), namespace="m", name="m-1", uid="m-1")
WITHDRAWN = an_order(withdrawn="the remediation is being deleted")
DELETING = an_order(policy=a_policy(workloads=Workloads.DELETE_NODE))
LATE = 10**6


# Beginning


def test_it_begins_when_nothing_stands_against_it() -> None:
    case = a_case(Phase.OPEN, node_uid="", boot_id="", power=None)
    assert goes_to(case) is Phase.LOOKING
    assert writes(case) == {"node_uid": "uid-n1", "boot_id": "boot-1", "power": PATH}


def test_rm27_a_machine_that_never_became_a_node_begins_too() -> None:
    """RM-27."""
    case = a_case(Phase.OPEN, node=None, order=an_order(node="", name="m-1"))
    assert goes_to(case) is Phase.LOOKING
    assert writes(case) == {"node_uid": "", "boot_id": "", "power": PATH}


def test_it_waits_while_something_stands_against_it() -> None:
    assert goes_to(a_case(Phase.OPEN, obstacle=BRAKE, at=LATE)) is None


def test_an_order_that_is_withdrawn_before_it_began_is_over() -> None:
    case = a_case(Phase.OPEN, order=WITHDRAWN)
    assert goes_to(case) is Phase.CLOSED
    assert writes(case) == {"outcome": Outcome.CANCELLED}


# Looking at the power


def test_a_machine_that_is_on_is_switched_off() -> None:
    case = a_case(Phase.LOOKING, at=2, seen=seen(on(1)))
    assert goes_to(case) is Phase.POWERING_OFF
    assert writes(case)["seen_on"].at == after(1)
    assert writes(case)["was_off"] is False


def test_a_bmc_that_says_off_from_the_beginning_is_switched_on_first() -> None:
    case = a_case(Phase.LOOKING, at=2, seen=seen(off(1)))
    assert goes_to(case) is Phase.TESTING
    assert writes(case) == {"was_off": True}


def test_what_was_read_before_it_failed_does_not_spare_a_bmc_that_says_off() -> None:
    """A BMC may have begun to lie when its machine began to fail."""
    tried = {"n1": FenceCheck(PATH, T0 - MINUTE, "", ON)}
    for known in ({"fences": tried}, {"seen_on": SEEN_ON}):
        assert goes_to(a_case(Phase.LOOKING, at=2, seen=seen(off(1)), **known)) is Phase.TESTING


def test_a_machine_that_cannot_be_read_is_switched_off_without_a_look() -> None:
    assert goes_to(a_case(Phase.LOOKING, seen=seen(can_read=False))) is Phase.POWERING_OFF


def test_a_power_that_is_not_known_is_read_until_the_time_is_up() -> None:
    assert goes_to(a_case(Phase.LOOKING, at=59, seen=seen(look_at(UNKNOWN, 1)))) is None
    assert goes_to(a_case(Phase.LOOKING, at=60, seen=seen(look_at(UNKNOWN, 1)))) is Phase.RESTING


@pytest.mark.parametrize(("said", "was_off"), [(True, False), (False, True), (None, True)])
def test_of_a_host_it_is_noted_whether_it_was_on(said: bool | None, was_off: bool) -> None:
    case = a_case(Phase.LOOKING, order=an_order(path=METAL3_PATH), **a_host(poweredOn=said))
    assert goes_to(case) is Phase.POWERING_OFF
    assert writes(case) == {"was_off": was_off}


def test_a_bmc_that_follows_goes_on_to_be_switched_off() -> None:
    case = a_case(Phase.TESTING, at=3, seen=seen(off(1), on(2), told=ON))
    assert goes_to(case) is Phase.POWERING_OFF
    assert writes(case)["seen_on"].at == after(2)


def test_a_bmc_that_says_off_whatever_happens_never_comes_to_a_proof() -> None:
    says_off = seen(off(1), off(2), off(59), told=ON)
    assert goes_to(a_case(Phase.TESTING, at=59, seen=says_off)) is None
    assert goes_to(a_case(Phase.TESTING, at=60, seen=says_off)) is Phase.RESTING
    assert goes_to(a_case(Phase.TESTING, at=60, seen=says_off, attempt=3)) is Phase.NEEDS_PERSON


def test_on_that_is_read_before_it_was_told_to_go_on_tests_nothing() -> None:
    assert goes_to(a_case(Phase.TESTING, at=3, seen=seen(on(1)))) is None


# Proof and workloads


def test_a_proof_is_written_down_before_anything_depends_on_it() -> None:
    """I1."""
    case = a_case(Phase.POWERING_OFF, at=5, seen=seen(off(1), off(2), told=OFF), seen_on=SEEN_ON)
    assert goes_to(case) is Phase.FREEING
    wrote = writes(case)
    assert wrote.pop("proof").grade is Grade.POWER
    assert wrote == {"tainted": True, "node_uid": "uid-n1", "boot_id": "boot-1"}


def test_rm10_what_a_node_has_is_written_down_before_it_is_deleted() -> None:
    """RM-10."""
    node = a_node("n1", ready="Unknown", labels={"rack": "7"}, annotations={"a.b/c": ""})
    looks = seen(off(1), off(2), told=OFF)
    case = a_case(Phase.POWERING_OFF, at=5, node=node, order=DELETING, seen=looks, seen_on=SEEN_ON)
    assert writes(case)["saved"] == Saved(labels={"rack": "7"}, annotations={"a.b/c": ""})
    assert "tainted" not in writes(case)


def test_a_taint_that_somebody_else_has_put_there_is_not_ours_to_remove() -> None:
    """I7."""
    looks = {"at": 5, "seen": seen(off(1), off(2), told=OFF), "seen_on": SEEN_ON, "node": tainted(NODE)}
    assert writes(a_case(Phase.POWERING_OFF, **looks))["tainted"] is False
    assert writes(a_case(Phase.POWERING_OFF, **looks, tainted=True))["tainted"] is True


def test_a_node_that_is_gone_needs_no_word_about_it() -> None:
    case = a_case(Phase.POWERING_OFF, at=5, node=None, seen=seen(off(1), off(2), told=OFF), seen_on=SEEN_ON)
    assert set(writes(case)) == {"proof"}


def test_a_node_that_started_or_registered_before_the_proof_has_not_come_back_since() -> None:
    """I8: it is said to be ready for a while, and its machine is off."""
    late = back("boot-3", uid="uid-2")
    proved = a_case(Phase.POWERING_OFF, at=5, node=late, seen=seen(off(1), off(2), told=OFF), seen_on=SEEN_ON)
    wrote = writes(proved)
    assert (wrote["node_uid"], wrote["boot_id"], wrote["tainted"]) == ("uid-2", "boot-3", True)
    assert not a_case(Phase.POWERING_ON, at=6, node=late, **wrote).is_back


def test_a_machine_that_only_a_person_can_switch_is_a_persons() -> None:
    assert goes_to(a_case(Phase.POWERING_OFF, order=an_order(path=BY_HAND))) is Phase.NEEDS_PERSON
    assert goes_to(a_case(Phase.POWERING_ON, order=an_order(path=BY_HAND), proof=PROOF)) is Phase.NEEDS_PERSON


def test_a_driver_that_refuses_once_is_asked_again() -> None:
    refused = {"failures": failed("power off n1"), "seen": seen(can_read=False)}
    assert goes_to(a_case(Phase.POWERING_OFF, at=3, **refused)) is None


def test_the_machine_stays_off_until_its_workloads_are_free() -> None:
    freeing: dict[str, Any] = {"proof": PROOF, "tainted": True, "at": 9}
    assert goes_to(a_case(Phase.FREEING, **freeing, node=tainted(NODE), pods=[a_pod()])) is None
    assert goes_to(a_case(Phase.FREEING, **freeing, node=tainted(NODE))) is Phase.POWERING_ON


def test_rm17_workloads_that_do_not_go_do_not_keep_the_machine_off_for_ever() -> None:
    """RM-17."""
    case = a_case(Phase.FREEING, at=120, proof=PROOF, node=tainted(NODE), pods=[a_pod()], seen=seen(off(1)))
    assert goes_to(case) is Phase.POWERING_ON


@pytest.mark.parametrize("node", [tainted(NODE), None], ids=["tainted", "deleted"])
@pytest.mark.parametrize(
    "more",
    [
        {"volumes": [an_attachment("n1")]},
        {"volumes": [an_attachment("n1", deletion_timestamp=T0, finalizers=["its attacher"])]},
        {
            "volumes": [an_attachment("n1")],
            "failures": {"detach va-n1": Failure(why="no", times=9, again_in=SECOND, forbidden=True)},
        },
        {"blind": (Blindness("volumeattachments", T0, "watch lost"),)},
    ],
    ids=["attached", "stuck", "forbidden", "out of sight"],
)
def test_volumes_that_do_not_go_do_not_keep_the_machine_off_for_ever(more: Any, node: Node | None) -> None:
    """Until then they are waited for, also where the Node is gone."""
    proved: dict[str, Any] = {"proof": PROOF, "seen": seen(off(1))}
    assert goes_to(a_case(Phase.FREEING, at=119, **proved, node=node, **more)) is None
    assert goes_to(a_case(Phase.FREEING, at=120, **proved, node=node, **more)) is Phase.POWERING_ON


def test_a_machine_that_shows_life_is_not_freed_any_further() -> None:
    case = a_case(Phase.FREEING, at=9, proof=PROOF, pods=[a_pod()], node=back(), heartbeat=after(5))
    assert goes_to(case) is Phase.POWERING_ON


@pytest.mark.parametrize("known", [seen(off(1), on(2)), seen(off(2), told=ON)], ids=["is read as on", "was told so"])
def test_a_machine_that_is_on_after_all_is_not_freed_and_its_proof_is_gone(known: PowerSeen) -> None:
    """I1: the record is from another time. Where there is no proof, a person may confirm it."""
    case = a_case(Phase.FREEING, at=9, proof=PROOF, pods=[a_pod()], seen=known)
    assert goes_to(case) is Phase.POWERING_ON
    assert writes(case) == {"proof": None}
    heard = a_case(Phase.FREEING, at=9, proof=PROOF, pods=[a_pod()], seen=seen(off(2)), heartbeat=after(5))
    assert (goes_to(heard), writes(heard)) == (Phase.POWERING_ON, {}), "it was off, and somebody switched it on"


@pytest.mark.parametrize(
    ("more", "then"),
    [
        ({"attempt": 1}, Phase.RESTING),
        ({"attempt": 3}, Phase.NEEDS_PERSON),
        (
            {"attempt": 3, "order": an_order(policy=a_policy(hand_over=HandOver.DELETE_MACHINE), machine=MACHINE)},
            Phase.REPLACING,
        ),
    ],
)
def test_a_proof_that_nobody_could_hold_against_the_machine_is_dropped_in_the_end(more: Any, then: Phase) -> None:
    """As where a machine is told to go off, and its power cannot be read. A person may still confirm it."""
    silent: dict[str, Any] = {"proof": PROOF, "pods": [a_pod()], "seen": seen(look_at(UNKNOWN, 8))} | more
    assert goes_to(a_case(Phase.FREEING, at=119, **silent)) is None
    case = a_case(Phase.FREEING, at=120, **silent)
    assert goes_to(case) is then
    assert writes(case)["proof"] is None


def test_whoever_comes_when_all_is_free_need_not_read_the_power_to_switch_it_on() -> None:
    assert goes_to(a_case(Phase.FREEING, at=9, proof=PROOF, node=tainted(NODE))) is Phase.POWERING_ON


# Coming back


def test_a_machine_that_is_on_is_waited_for() -> None:
    case = a_case(Phase.POWERING_ON, at=3, seen=seen(on(1), on(2), told=ON), proof=PROOF, command=a_command(ON))
    assert goes_to(case) is Phase.RETURNING
    assert goes_to(a_case(Phase.RETURNING, at=30)) is None


@pytest.mark.parametrize("phase", [Phase.POWERING_ON, Phase.RETURNING, Phase.RESTING, Phase.CANCELLING])
def test_a_node_that_is_back_is_restored_from_wherever_it_is(phase: Phase) -> None:
    assert goes_to(a_case(phase, at=3, node=back(), heartbeat=after(2), proof=PROOF)) is Phase.RESTORING


def test_it_is_over_when_nothing_of_ours_is_left() -> None:
    case = a_case(Phase.RESTORING, at=3, node=back(), tainted=True, heartbeat=after(2))
    assert goes_to(case) is Phase.CLOSED
    assert writes(case) == {"outcome": Outcome.RECOVERED}
    assert goes_to(a_case(Phase.RESTORING, at=3, node=tainted(back()), tainted=True)) is None
    assert goes_to(a_case(Phase.RESTORING, at=3, node=back(), saved=Saved(labels={"a": "b"}))) is None


@pytest.mark.parametrize("phase", [Phase.RESTORING, Phase.CANCELLING, Phase.NEEDS_PERSON])
def test_it_is_not_over_while_nobody_sees_the_node(phase: Phase) -> None:
    """What was seen last may be from before it was tainted."""
    blind = (Blindness("nodes", T0, "watch lost"),)
    looks: dict[str, Any] = {"at": 3, "node": NODE, "tainted": True, "order": WITHDRAWN}
    assert goes_to(a_case(phase, **looks)) is Phase.CLOSED
    assert goes_to(a_case(phase, **looks, blind=blind)) is None


def test_rm14_what_asked_for_it_is_told_last_and_only_then_it_is_over() -> None:
    """RM-14."""
    finish = (DeleteMachine(incident=MACHINE, node="n1", machine=MACHINE),)
    assert goes_to(a_case(Phase.RESTORING, at=3, node=back(), order=an_order(finish=finish))) is None


# Failing


FAILING = [Phase.LOOKING, Phase.TESTING, Phase.POWERING_OFF, Phase.POWERING_ON, Phase.RETURNING]
REPLACEABLE = an_order(policy=a_policy(hand_over=HandOver.DELETE_MACHINE), machine=MACHINE)


@pytest.mark.parametrize("phase", FAILING)
def test_rm17_what_takes_too_long_is_tried_again_after_a_rest(phase: Phase) -> None:
    """RM-17."""
    assert goes_to(a_case(phase, at=LATE)) is Phase.RESTING
    assert goes_to(a_case(phase, at=LATE, attempt=2)) is Phase.RESTING


@pytest.mark.parametrize("phase", FAILING)
def test_after_the_last_attempt_it_is_a_persons_or_the_machine_is_replaced(phase: Phase) -> None:
    """RM-19, RM-20: handed over only where somebody said so, and where there is somebody who replaces it."""
    assert goes_to(a_case(phase, at=LATE, attempt=3)) is Phase.NEEDS_PERSON
    assert goes_to(a_case(phase, at=LATE, attempt=3, order=REPLACEABLE)) is Phase.REPLACING
    assert goes_to(a_case(phase, at=LATE, attempt=1, order=REPLACEABLE)) is Phase.RESTING
    without = change(REPLACEABLE, machine=None)
    assert goes_to(a_case(phase, at=LATE, attempt=3, order=without)) is Phase.NEEDS_PERSON
    unasked = an_order(machine=MACHINE)
    assert goes_to(a_case(phase, at=LATE, attempt=3, order=unasked)) is Phase.NEEDS_PERSON


@pytest.mark.parametrize("phase", [Phase.RESTORING, Phase.CANCELLING, Phase.REPLACING])
def test_rm17_what_cannot_be_tried_again_is_a_persons(phase: Phase) -> None:
    """RM-17."""
    stuck = {"saved": Saved(labels={"a": "b"}), "command": a_command(OFF)}
    assert goes_to(a_case(phase, at=LATE, order=REPLACEABLE, **stuck)) is Phase.NEEDS_PERSON


def test_nothing_that_was_proved_before_counts_for_the_next_attempt() -> None:
    case = a_case(Phase.RESTING, at=30, proof=PROOF, node=a_node("n1", ready="Unknown", boot="boot-2", uid="uid-2"))
    assert goes_to(case) is Phase.LOOKING
    assert writes(case) == {
        "attempt": 2,
        "proof": None,
        "was_off": False,
        "seen_on": None,
        "node_uid": "uid-2",
        "boot_id": "boot-2",
        "power": PATH,
    }
    assert goes_to(a_case(Phase.RESTING, at=29)) is None


def test_a_node_that_is_gone_is_still_known_in_the_next_attempt() -> None:
    assert writes(a_case(Phase.RESTING, at=30, node=None)) == {
        "attempt": 2,
        "proof": None,
        "was_off": False,
        "seen_on": None,
    }


def test_the_next_attempt_waits_for_what_stands_against_it() -> None:
    assert goes_to(a_case(Phase.RESTING, at=LATE, obstacle=Obstacle("Lock", "somebody has it"))) is None


def test_a_machine_is_replaced_when_it_is_gone_with_its_node() -> None:
    gone = an_order()
    case = a_case(Phase.REPLACING, node=None, order=gone)
    assert goes_to(case) is Phase.CLOSED
    assert writes(case) == {"outcome": Outcome.REPLACED}
    assert goes_to(a_case(Phase.REPLACING, order=gone)) is None
    assert goes_to(a_case(Phase.REPLACING, node=None, order=REPLACEABLE)) is None


# Withdrawing


BEGUN = [Phase.LOOKING, Phase.TESTING, Phase.POWERING_OFF, Phase.FREEING, Phase.RETURNING, Phase.RESTING]


@pytest.mark.parametrize("phase", BEGUN)
def test_rm16_a_withdrawn_order_is_cancelled_from_every_phase(phase: Phase) -> None:
    """RM-16, RM-23: above going on, and above giving up."""
    looks = seen(off(1), off(2), told=OFF)
    for at in (5, LATE):
        assert goes_to(a_case(phase, at=at, order=WITHDRAWN, seen=looks, seen_on=SEEN_ON)) is Phase.CANCELLING


def test_a_withdrawn_order_leaves_the_machine_on_from_every_phase() -> None:
    """RM-16, RM-23: from wherever it is not powered on anyway, withdrawing leads to where it is."""
    leads_on = {Phase.CANCELLING, Phase.POWERING_ON, Phase.RESTORING, Phase.NEEDS_PERSON, Phase.REPLACING, Phase.CLOSED}
    for phase in set(Phase) - leads_on:
        reached = goes_to(a_case(phase, at=1, order=WITHDRAWN))
        assert reached in (Phase.CANCELLING, Phase.CLOSED), phase


def test_what_was_never_switched_is_cancelled_at_once() -> None:
    case = a_case(Phase.CANCELLING, order=WITHDRAWN)
    assert goes_to(case) is Phase.CLOSED
    assert writes(case) == {"outcome": Outcome.CANCELLED}


def test_what_was_perhaps_switched_is_cancelled_when_it_is_surely_on() -> None:
    """I8: it was written down that it goes off; whether it was sent, nobody knows."""
    told: dict[str, Any] = {"order": WITHDRAWN, "command": a_command(OFF)}
    assert goes_to(a_case(Phase.CANCELLING, at=5, **told)) is None
    assert goes_to(a_case(Phase.CANCELLING, at=5, **told, seen=seen(on(1), on(2), told=ON))) is None
    assert goes_to(a_case(Phase.CANCELLING, at=40, **told, seen=seen(on(1), on(39), told=ON))) is Phase.CLOSED
    assert goes_to(a_case(Phase.CANCELLING, at=40, **told, seen=seen(on(1), off(39), told=ON))) is None


def test_a_node_that_was_tainted_or_deleted_is_restored_before_it_is_over() -> None:
    told: dict[str, Any] = {"order": WITHDRAWN, "at": 40, "proof": PROOF, "seen": seen(on(1), on(39), told=ON)}
    saved = Saved(labels={"rack": "7"})
    assert goes_to(a_case(Phase.CANCELLING, **told, tainted=True, node=tainted(NODE))) is None
    assert goes_to(a_case(Phase.CANCELLING, **told, saved=saved, node=None)) is None


def test_a_cancelled_order_whose_node_is_ready_as_it_was_is_not_a_persons() -> None:
    alive = tainted(back("boot-1"))
    told: dict[str, Any] = {"order": WITHDRAWN, "tainted": True, "node": alive, "command": a_command(ON)}
    case = a_case(Phase.CANCELLING, at=LATE, **told, seen=seen(on(LATE - 2), on(LATE - 1), told=ON))
    assert goes_to(case) is Phase.RESTORING
    ill = a_case(Phase.CANCELLING, at=LATE, **told | {"node": tainted(NODE)}, seen=seen(on(9), on(99), told=ON))
    assert goes_to(ill) is Phase.NEEDS_PERSON


# People


def test_a_person_who_confirms_lets_it_go_on() -> None:
    spec = IncidentSpec(node="n1", confirmed_off=Confirmation(by="ann", at=after(5)))
    case = a_case(Phase.NEEDS_PERSON, at=41, spec=spec)
    assert goes_to(case) is Phase.FREEING
    assert writes(case)["proof"].by == "ann"
    assert writes(case)["tainted"] is True
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=9, spec=spec, proof=PROOF)) is None
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=9, spec=spec, order=WITHDRAWN)) is Phase.CLOSED
    powering = a_case(Phase.POWERING_OFF, at=41, spec=spec)
    assert goes_to(powering) is Phase.FREEING


def test_a_machine_that_a_person_says_is_off_is_not_switched_on_to_test_its_bmc() -> None:
    spec = IncidentSpec(node="n1", confirmed_off=Confirmation(by="ann", at=after(5)))
    case = a_case(Phase.LOOKING, at=9, spec=spec, seen=seen(off(7), off(8)))
    assert goes_to(case) is Phase.POWERING_OFF
    assert writes(case) == {"was_off": True, "seen_on": None}
    assert goes_to(a_case(Phase.LOOKING, at=9, seen=seen(off(7), off(8)))) is Phase.TESTING


def test_a_confirmation_of_an_earlier_attempt_does_not_count() -> None:
    spec = IncidentSpec(node="n1", confirmed_off=Confirmation(by="ann", at=after(5)))
    timeline = [Entry(at=after(6), phase=Phase.LOOKING, message="")]
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=9, spec=spec, timeline=timeline)) is None


def test_a_person_who_brings_the_node_back_needs_to_say_nothing() -> None:
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=9, node=back(), heartbeat=after(5), proof=PROOF)) is Phase.RESTORING


def test_what_waits_for_a_person_ends_when_it_is_withdrawn_and_nothing_is_left() -> None:
    told: dict[str, Any] = {"order": WITHDRAWN, "command": a_command(OFF)}
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=5, order=WITHDRAWN)) is Phase.CLOSED
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=5, **told)) is None
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=40, **told, seen=seen(on(1), on(39), told=ON))) is Phase.CLOSED


def test_what_waits_for_a_person_ends_when_the_node_lives_and_nobody_wants_it_switched() -> None:
    """A BMC that is dead for good must not keep the next remediation of a node that is well from beginning."""
    alive: dict[str, Any] = {"node": tainted(back("boot-1")), "tainted": True, "command": a_command(OFF)}
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=100, heartbeat=after(95), **alive, order=WITHDRAWN)) is Phase.RESTORING
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=100, heartbeat=after(95), **alive)) is None
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=100, heartbeat=T0, **alive, order=WITHDRAWN)) is None
    assert goes_to(a_case(Phase.NEEDS_PERSON, at=20, heartbeat=after(19), **alive, order=WITHDRAWN)) is None


# The table as a whole


def test_what_is_over_stays_over() -> None:
    assert [row for row in TRANSITIONS if row.source is Phase.CLOSED] == []
    assert goes_to(a_case(Phase.CLOSED, at=LATE, order=WITHDRAWN, node=back())) is None


def test_every_row_says_when_in_words_of_its_own() -> None:
    """The picture in the guide is drawn from them."""
    said = [(row.source, row.target, row.name) for row in TRANSITIONS]
    assert len(set(said)) == len(said)
    assert all(row.name and not row.name.endswith(".") for row in TRANSITIONS)


@pytest.mark.parametrize("phase", Phase)
def test_workloads_are_freed_only_after_a_proof(phase: Phase) -> None:
    """I1: there is no other way to FreeingWorkloads."""
    into = {row.source for row in TRANSITIONS if row.target is Phase.FREEING}
    assert into == {Phase.POWERING_OFF, Phase.NEEDS_PERSON}
    if phase in into:
        assert goes_to(a_case(phase, at=LATE, attempt=9)) is not Phase.FREEING
