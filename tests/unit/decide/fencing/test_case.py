"""What counts as a proof that a machine is down, as a machine that is on, and as a node that is back."""

from datetime import timedelta

import pytest

from defib.decide.fencing.case import LATE_OFF, Case
from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.proofs import BMO_POLL
from defib.model.cluster import Blindness
from defib.model.incident import Confirmation, Entry, Grade, IncidentSpec, Phase, PowerReading
from defib.model.node import Node, Taint
from defib.model.pod import Pod
from defib.model.power import FenceCheck, PowerPath
from defib.model.power_cycle import Workloads
from defib.model.saved import Saved
from tests.builders import HOUR, MINUTE, SECOND, T0, a_node
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
    a_look,
    a_pod,
    a_policy,
    after,
    an_attachment,
    an_order,
    back,
    change,
    failed,
    look_at,
    off,
    on,
    seen,
    tainted,
    tolerates_everything,
)


def test_what_was_sent_counts_also_where_the_phase_begins_in_the_future_by_our_clock() -> None:
    """Else a replica whose clock is behind would send it at every pass."""
    case = a_case(Phase.POWERING_ON, since=after(30), at=20, seen=seen(told=ON, at=15))
    assert case.was_sent(ON) == after(15)
    assert a_case(Phase.POWERING_ON, since=after(30), at=20, seen=seen(told=ON, at=5)).was_sent(ON) is None


def test_what_was_sent_in_this_phase_counts_although_its_time_began_anew() -> None:
    """A moment in which we doubted our sight is no reason to tell the machine once more."""
    began = Entry(at=after(0), phase=Phase.POWERING_OFF, message="it is on")
    timeline = [Entry(at=after(-9), phase=Phase.LOOKING, message="nothing stands against it"), began]
    case = a_case(Phase.POWERING_OFF, since=after(8), timeline=timeline, at=9, seen=seen(told=OFF, at=5))
    assert case.was_sent(OFF) == after(5)
    earlier = a_case(Phase.POWERING_OFF, since=after(8), timeline=timeline, at=9, seen=seen(told=OFF, at=-5))
    assert earlier.was_sent(OFF) is None


ANY_PROOF = an_order(policy=a_policy(accepts=tuple(Grade)))


def powering_off(*looks: object, **more: object) -> Case:
    told = {"told": OFF} | {key: more.pop(key) for key in ("can_read",) if key in more}
    more = {"seen_on": SEEN_ON, "command": a_command(OFF), "at": 20} | more
    return a_case(Phase.POWERING_OFF, seen=seen(*looks, **told), **more)  # type: ignore[arg-type]


# Proofs by power


def test_two_off_readings_far_enough_apart_prove_that_it_is_down() -> None:
    proof = powering_off(off(1), off(1.5)).proof
    assert proof is not None
    assert proof.grade is Grade.POWER
    assert [(one.state, one.at) for one in proof.readings or ()] == [("Off", after(1)), ("Off", after(1.5))]


@pytest.mark.parametrize(
    "looks",
    [(), (off(1),), (off(1), off(1.499)), (off(1), on(1.5)), (on(1), off(1.5)), (off(1), look_at(UNKNOWN, 2))],
    ids=["none", "one", "too close", "on again", "just now", "unknown"],
)
def test_anything_less_proves_nothing(looks: tuple[object, ...]) -> None:
    assert powering_off(*looks).proof is None


def test_what_was_read_in_between_must_not_say_anything_else() -> None:
    assert powering_off(off(1), on(1.2), off(1.6)).proof is None
    assert powering_off(off(1), look_at(UNKNOWN, 1.2), off(1.6)).proof is None
    assert powering_off(on(0.5), off(1), off(1.2), off(1.6)).proof is not None


def test_what_was_read_before_it_was_told_to_go_off_proves_nothing() -> None:
    case = a_case(Phase.POWERING_OFF, at=20, seen=seen(off(1), off(2), told=OFF, at=2), seen_on=SEEN_ON)
    assert case.proof is None


def test_without_an_off_of_this_process_there_is_no_proof() -> None:
    assert a_case(Phase.POWERING_OFF, at=20, seen=seen(off(1), off(2)), seen_on=SEEN_ON).proof is None
    assert a_case(Phase.POWERING_OFF, at=20, seen=seen(off(1), off(2), told=ON), seen_on=SEEN_ON).proof is None


def test_what_was_sent_or_read_in_an_earlier_phase_proves_nothing() -> None:
    case = powering_off(off(1), off(2), since=after(0.5))
    assert case.was_sent(OFF) is None
    assert case.proof is None
    assert [look.reading.at for look in powering_off(off(1), off(2), since=after(2)).looks] == [after(2)]


def test_a_bmc_that_was_never_seen_to_say_on_proves_nothing() -> None:
    assert powering_off(off(1), off(2), seen_on=None).proof is None


def test_a_heartbeat_after_the_reading_contradicts_it() -> None:
    case = powering_off(off(1), off(2), heartbeat=after(1.7))
    assert case.proof is None
    assert case.contradicts
    assert not powering_off(off(1), off(2)).contradicts
    assert not powering_off(on(1), heartbeat=after(1.7)).contradicts


def test_readings_after_the_last_heartbeat_prove_it_again() -> None:
    last = after(1.7)
    case = powering_off(off(1), off(2, heartbeat=last), off(2.5, heartbeat=last), heartbeat=last)
    assert case.proof is not None


def test_a_node_without_heartbeats_is_proved_by_its_power_alone() -> None:
    assert powering_off(off(1, heartbeat=None), off(2, heartbeat=None), heartbeat=None).proof is not None


def test_a_grade_that_is_not_accepted_is_no_proof() -> None:
    order = an_order(policy=a_policy(accepts=(Grade.PERSON,)))
    assert powering_off(off(1), off(2), order=order).proof is None


def test_a_host_that_was_off_before_we_asked_is_believed_only_after_a_poll_of_its_operator() -> None:
    """3.6: what it says may be as old as its last look."""
    order, poll = an_order(path=METAL3_PATH), BMO_POLL.total_seconds()
    early, late = (off(poll - 1), off(poll)), (off(poll + 1), off(poll + 2))
    assert powering_off(*early, order=order, was_off=True, seen_on=None, at=100).proof is None
    assert powering_off(*late, order=order, was_off=True, seen_on=None, at=100).proof is not None
    assert powering_off(off(1), off(2), order=order, seen_on=None).proof is not None


# Proofs by time and by people


def unreadable(**more: object) -> Case:
    quiet = {"heartbeat": T0 - MINUTE}
    return powering_off(can_read=False, **({"at": 30, "order": ANY_PROOF} | quiet | more))


def test_a_driver_that_cannot_read_gives_grade_c_at_best() -> None:
    proof = unreadable().proof
    assert proof is not None
    assert proof.grade is Grade.TIME
    assert unreadable(at=29.9).proof is None


def test_grade_c_is_not_accepted_unless_somebody_says_so() -> None:
    assert unreadable(order=an_order()).proof is None


def test_a_driver_that_can_read_never_gives_grade_c() -> None:
    assert powering_off(order=ANY_PROOF, at=300).proof is None


def test_a_node_that_is_ready_is_not_down_whatever_time_or_people_say() -> None:
    confirmed = IncidentSpec(node="n1", confirmed_off=Confirmation(by="ann", at=after(5)))
    assert unreadable(node=back()).proof is None
    assert a_case(Phase.NEEDS_PERSON, node=back("boot-1"), spec=confirmed, at=20).proof is None


def confirmed(at: float, **more: object) -> Case:
    spec = IncidentSpec(node="n1", confirmed_off=Confirmation(by="ann@example.com", at=after(at)))
    return a_case(Phase.NEEDS_PERSON, spec=spec, **({"at": 3700} | more))


def test_a_person_who_confirms_is_named_in_the_proof() -> None:
    proof = confirmed(3600).proof
    assert proof is not None
    assert (proof.grade, proof.by) == (Grade.PERSON, "ann@example.com")
    assert proof.how == "ann@example.com confirmed at 2030-01-01 01:00:00 UTC that it is off"


def test_a_confirmation_counts_for_its_attempt_only() -> None:
    begun = [Entry(at=after(5), phase=Phase.LOOKING, message=""), Entry(at=after(100), phase=Phase.LOOKING, message="")]
    assert confirmed(50, timeline=begun[:1]).proof is not None
    assert confirmed(50, timeline=begun).proof is None
    assert confirmed(101, timeline=begun).proof is not None
    assert confirmed(-1).proof is None


def test_a_confirmation_counts_no_more_once_the_machine_was_told_to_go_on() -> None:
    """I1: we may have switched on what a person had switched off."""
    assert confirmed(50, command=a_command(ON, 49)).proof is not None
    assert confirmed(50, command=a_command(ON, 50)).proof is None
    assert confirmed(50, command=a_command(OFF, 60)).proof is not None


def test_a_person_is_not_believed_once_the_machine_was_seen_on_after_their_word() -> None:
    """We may have switched it on ourselves meanwhile, to see whether its BMC tells the truth."""
    on = PowerReading(state=ON.value, at=after(50))
    assert confirmed(50, command=a_command(OFF, 60), seen_on=on).proof is None
    assert confirmed(51, command=a_command(OFF, 60), seen_on=on).proof is not None


# On


def test_a_machine_is_on_when_it_is_read_so_twice_after_it_was_told_to() -> None:
    assert a_case(Phase.POWERING_ON, at=9, seen=seen(on(1), on(2), told=ON), proof=PROOF).is_on
    assert not a_case(Phase.POWERING_ON, at=9, seen=seen(on(1), told=ON), proof=PROOF).is_on
    assert not a_case(Phase.POWERING_ON, at=9, seen=seen(on(1), off(2), told=ON), proof=PROOF).is_on
    assert not a_case(Phase.POWERING_ON, at=9, seen=seen(on(1), on(2)), proof=PROOF).is_on


def test_without_a_proof_an_off_may_still_be_on_its_way_and_on_is_believed_late() -> None:
    """I8: a BMC says yes, and switches seconds later."""
    late = LATE_OFF.total_seconds()
    assert not a_case(Phase.CANCELLING, at=40, seen=seen(on(1), on(late - 1), told=ON)).is_on
    assert a_case(Phase.CANCELLING, at=40, seen=seen(on(1), on(late), told=ON)).is_on


def test_a_machine_that_cannot_be_read_is_on_when_it_was_told_to() -> None:
    case = a_case(Phase.POWERING_ON, at=9, seen=seen(told=ON, at=1, can_read=False), proof=PROOF)
    assert case.is_on
    assert not a_case(Phase.CANCELLING, at=40, seen=seen(told=ON, at=1, can_read=False)).is_on
    assert a_case(Phase.CANCELLING, at=40, seen=seen(told=ON, at=31, can_read=False)).is_on


def test_that_it_was_on_is_known_from_this_phase_alone() -> None:
    read = a_case(Phase.LOOKING, at=3, seen=seen(on(1), off(2)))
    assert read.seen_on is not None
    assert read.seen_on.at == after(1)
    check = FenceCheck(PATH, T0 - HOUR, "", ON)
    assert a_case(Phase.LOOKING, at=3, seen=seen(off(2)), fences={"n1": check}).seen_on is None


def test_the_way_that_the_order_names_now_is_taken_and_without_one_the_way_it_was() -> None:
    corrected = PowerPath(driver="ipmi", address="10.0.0.1")
    assert a_case(Phase.LOOKING, order=an_order(path=corrected)).path == corrected
    assert a_case(Phase.LOOKING, order=an_order(path=Obstacle("NoPowerPath", "no label"))).path == PATH


# Back


def test_rm35_a_node_is_back_when_it_is_ready_with_another_boot() -> None:
    """RM-35."""
    assert a_case(Phase.RETURNING, node=back(), heartbeat=after(1), at=2).is_back
    assert not a_case(Phase.RETURNING, node=back("boot-1"), heartbeat=after(1), at=2).is_back
    assert not a_case(Phase.RETURNING, node=back(""), heartbeat=after(1), at=2).is_back
    unready = a_node("n1", ready="Unknown", boot="boot-2")
    assert not a_case(Phase.RETURNING, node=unready, heartbeat=after(1), at=2).is_back
    assert not a_case(Phase.RETURNING, node=None, at=2).is_back


def test_rm35_a_new_node_is_back_whatever_its_boot() -> None:
    """RM-35: it was deleted, and has registered again."""
    assert a_case(Phase.RETURNING, node=back("boot-1", uid="uid-2"), heartbeat=after(1), at=2).is_back


def test_rm35_where_no_new_boot_is_asked_for_ready_will_do() -> None:
    """RM-35."""
    order = an_order(policy=a_policy(needs_new_boot=False))
    assert a_case(Phase.RETURNING, order=order, node=back("boot-1"), heartbeat=after(1), at=2).is_back


@pytest.mark.parametrize("phase", [Phase.POWERING_ON, Phase.RETURNING, Phase.RESTING, Phase.NEEDS_PERSON])
def test_a_node_that_only_looks_ready_because_nobody_noticed_yet_is_not_back(phase: Phase) -> None:
    """I8: Kubernetes says Ready for most of a minute after a machine was switched off."""
    order = an_order(policy=a_policy(needs_new_boot=False))
    assert not a_case(phase, order=order, node=back("boot-1"), heartbeat=T0, at=2, proof=PROOF).is_back
    assert a_case(phase, order=order, node=back("boot-1"), heartbeat=after(1), at=2, proof=PROOF).is_back


def test_rm35_a_node_with_another_boot_is_back_whatever_its_clock_says() -> None:
    """RM-35: heartbeats carry the time of the node, and a machine may have lost its own with its power."""
    assert a_case(Phase.RETURNING, node=back(), heartbeat=T0 - HOUR, at=2, proof=PROOF).is_back


def test_a_node_without_heartbeats_is_back_when_it_says_so() -> None:
    order = an_order(policy=a_policy(needs_new_boot=False))
    assert a_case(Phase.RETURNING, order=order, node=back("boot-1"), heartbeat=None, at=2).is_back


def test_a_node_is_back_for_good_when_no_off_can_be_on_its_way_to_it() -> None:
    told = {"node": back(), "heartbeat": after(85), "command": a_command(OFF)}
    assert not a_case(Phase.RESTING, at=89, **told).is_back_for_good
    assert a_case(Phase.RESTING, at=90, **told).is_back_for_good
    assert a_case(Phase.RESTING, at=89, **told, proof=PROOF).is_back_for_good
    assert a_case(Phase.RESTING, at=89, node=back(), heartbeat=after(85)).is_back_for_good


def test_a_machine_that_shows_life_after_its_proof_is_noticed() -> None:
    """I1: a proof is about the past. What runs there now must not be taken from it."""
    looks = seen(off(-2), off(-1), told=OFF, at=-3)
    assert not a_case(Phase.FREEING, at=9, seen=looks, proof=PROOF).has_stirred
    assert a_case(Phase.FREEING, at=9, seen=looks, proof=PROOF, heartbeat=after(5)).has_stirred
    assert a_case(Phase.FREEING, at=9, proof=PROOF, node=back(), heartbeat=after(5)).has_stirred
    assert a_case(Phase.FREEING, at=9, seen=seen(off(-1), on(1)), proof=PROOF).has_stirred
    assert a_case(Phase.FREEING, at=9, seen=seen(told=ON), proof=PROOF).has_stirred, (
        "we went on, and the record went back"
    )
    # The Node was deleted, and its heartbeat with it.
    assert not a_case(Phase.FREEING, at=9, seen=looks, proof=PROOF, heartbeat=None, node=None).has_stirred


# Workloads


@pytest.mark.parametrize(
    ("server", "deletes"), [((0, 0), False), ((1, 27), True), ((1, 28), False), ((1, 30), False), ((2, 0), False)]
)
def test_rm25_the_taint_is_used_where_the_server_knows_it(server: tuple[int, int], deletes: bool) -> None:
    """RM-25."""
    assert a_case(Phase.FREEING, server=server).deletes_node is deletes


@pytest.mark.parametrize("server", [(1, 20), (1, 30)])
def test_rm25_a_policy_beats_the_version(server: tuple[int, int]) -> None:
    """RM-25."""
    for workloads, deletes in ((Workloads.TAINT, False), (Workloads.DELETE_NODE, True)):
        order = an_order(policy=a_policy(workloads=workloads))
        assert a_case(Phase.FREEING, order=order, server=server).deletes_node is deletes


def test_pods_that_must_go_come_in_the_order_of_their_priority() -> None:
    found = a_case(Phase.FREEING, pods=[a_pod("a"), a_pod("b", priority=9), a_pod("c")]).pods
    assert [pod.name for pod in found or ()] == ["b", "a", "c"]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(annotations={"kubernetes.io/config.mirror": "x"}, owner="Node"),
        a_pod(tolerations=tolerates_everything(), owner="DaemonSet"),
        a_pod(tolerations=tolerates_everything(), created=1),
        a_pod(tolerations=tolerates_everything(), created=1, deletion_timestamp=after(2)),
        a_pod(phase="Succeeded"),
        a_pod(phase="Failed"),
    ],
    ids=["mirror", "of a DaemonSet", "put there again", "put there again and leaving", "succeeded", "failed"],
)
@pytest.mark.parametrize("node", [tainted(NODE), None], ids=["tainted", "deleted"])
def test_pods_that_stay_are_not_waited_for(pod: object, node: Node | None) -> None:
    case = a_case(Phase.FREEING, at=5, proof=PROOF, pods=[pod], node=node)
    assert case.pods == ()
    assert case.is_freed


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(tolerations=tolerates_everything()),
        a_pod(tolerations=tolerates_everything(), created=0),
        a_pod(tolerations=tolerates_everything(), owner=""),
        a_pod(owner="DaemonSet"),
        a_pod(created=1),
    ],
    ids=["tolerates", "as old as the proof", "tolerates on its own", "DaemonSet", "late"],
)
@pytest.mark.parametrize("node", [tainted(NODE), None], ids=["tainted", "deleted"])
def test_pods_that_kubernetes_would_leave_there_for_ever_must_go_too(pod: Pod, node: Node | None) -> None:
    """They hold their volumes. What does not tolerate the taint goes whenever it came."""
    case = a_case(Phase.FREEING, at=5, proof=PROOF, pods=[pod], node=node)
    assert case.pods == (pod,)
    assert not case.is_freed


def test_a_pod_that_was_marked_by_us_and_not_deleted_must_go_still() -> None:
    """Whoever marked it died before the next word."""
    marked = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDefib"}]
    theirs = [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]
    pods = [a_pod(name, phase="Failed") for name in "ab"]
    ours, other = (
        change(pod, status=change(pod.status, conditions=conditions))
        for pod, conditions in zip(pods, (marked, theirs), strict=True)
    )
    assert a_case(Phase.FREEING, pods=[ours, other]).pods == (ours,)


def test_a_finished_pod_that_is_leaving_is_waited_for() -> None:
    assert a_case(Phase.FREEING, pods=[a_pod(phase="Failed", deletion_timestamp=T0)]).pods != ()


def test_rm24_workloads_are_free_when_kubernetes_knows_and_pods_and_volumes_are_gone() -> None:
    """RM-24."""
    told = tainted(NODE)
    assert a_case(Phase.FREEING, node=told).is_freed
    assert not a_case(Phase.FREEING).is_freed
    assert not a_case(Phase.FREEING, node=told, pods=[a_pod()]).is_freed
    assert not a_case(Phase.FREEING, node=told, volumes=[an_attachment("n1")]).is_freed
    assert not a_case(Phase.FREEING, node=None, volumes=[an_attachment("n1")]).is_freed
    assert a_case(Phase.FREEING, node=told, volumes=[an_attachment("n2")]).is_freed
    assert a_case(Phase.FREEING, node=None).is_freed
    assert a_case(Phase.FREEING, node=back(uid="uid-2")).is_freed


def test_a_node_that_is_to_be_deleted_is_told_by_nothing_less() -> None:
    order = an_order(policy=a_policy(workloads=Workloads.DELETE_NODE))
    assert not a_case(Phase.FREEING, order=order, node=tainted(NODE)).is_told
    assert a_case(Phase.FREEING, order=order, node=None).is_told


def test_what_is_out_of_sight_is_not_gone() -> None:
    told, blind = tainted(NODE), (Blindness("volumeattachments", T0, "watch lost"),)
    assert a_case(Phase.FREEING, node=told, pods=None).pods is None
    assert not a_case(Phase.FREEING, node=told, pods=None).is_freed
    assert not a_case(Phase.FREEING, node=told, blind=(Blindness("pods on n1", T0, "watch lost"),)).is_freed
    assert not a_case(Phase.FREEING, node=told, absent={"pods on n1": "forbidden"}).is_freed
    assert not a_case(Phase.FREEING, node=told, blind=blind).is_freed
    assert not a_case(Phase.FREEING, cluster=change(a_look(node=told), kinds={})).is_freed


def test_a_volume_that_is_attached_again_since_the_proof_is_not_waited_for() -> None:
    """Whoever was put there again wants it there."""
    old, new = an_attachment("n1", created=0), an_attachment("n1", created=1)
    for node in (tainted(NODE), None):
        assert not a_case(Phase.FREEING, at=5, proof=PROOF, node=node, volumes=[old]).is_freed
        assert a_case(Phase.FREEING, at=5, proof=PROOF, node=node, volumes=[new]).is_freed


def test_volumes_that_nobody_lets_us_see_are_not_waited_for() -> None:
    assert a_case(Phase.FREEING, node=tainted(NODE), absent={"volumeattachments": "forbidden"}).is_freed


def test_rm27_a_machine_without_a_node_has_no_workloads() -> None:
    """RM-27."""
    assert a_case(Phase.FREEING, order=an_order(node="", name="m-1"), node=None, pods=None).is_freed


def test_rm11_a_node_is_clean_when_our_taint_is_gone_and_what_was_saved_is_there() -> None:
    """RM-11."""
    saved = Saved(labels={"rack": "7"})
    assert a_case(Phase.RESTORING, node=back()).is_clean
    assert not a_case(Phase.RESTORING, node=tainted(back()), tainted=True).is_clean
    assert a_case(Phase.RESTORING, node=tainted(back())).is_clean
    assert not a_case(Phase.RESTORING, node=back(), saved=saved).is_clean
    assert not a_case(Phase.RESTORING, node=None, saved=saved).is_clean
    assert a_case(Phase.RESTORING, node=a_node("n1", labels={"rack": "8"}), saved=saved).is_clean


def test_rm12_taints_that_are_not_to_come_back_are_not_missed() -> None:
    """RM-12."""
    saved, order = (
        Saved(taints=[Taint(key="gpu", effect="NoSchedule")]),
        an_order(policy=a_policy(restores_taints=False)),
    )
    assert not a_case(Phase.RESTORING, node=back(), saved=saved).is_clean
    assert a_case(Phase.RESTORING, order=order, node=back(), saved=saved).is_clean


# Time


LIMITS = {
    Phase.LOOKING: MINUTE,
    Phase.TESTING: MINUTE,
    Phase.POWERING_OFF: MINUTE,
    Phase.FREEING: 2 * MINUTE,
    Phase.POWERING_ON: MINUTE,
    Phase.RETURNING: 10 * MINUTE,
    Phase.RESTORING: 10 * MINUTE,
    Phase.RESTING: 30 * SECOND,
    Phase.CANCELLING: LATE_OFF + 11 * MINUTE,
    Phase.REPLACING: HOUR,
}


@pytest.mark.parametrize("phase", Phase)
def test_rm17_every_phase_that_waits_has_a_limit(phase: Phase) -> None:
    """RM-17: what has none has not begun, is over, or is a person's."""
    endless = {Phase.OPEN, Phase.NEEDS_PERSON, Phase.CLOSED}
    assert a_case(phase).limit == LIMITS.get(phase)
    assert (phase in LIMITS) is (phase not in endless)


def test_a_host_that_was_off_before_has_the_time_of_a_poll_more() -> None:
    order = an_order(path=METAL3_PATH)
    assert a_case(Phase.POWERING_OFF, order=order, was_off=True).limit == MINUTE + BMO_POLL
    assert a_case(Phase.POWERING_OFF, order=order).limit == MINUTE
    assert a_case(Phase.POWERING_OFF, was_off=True).limit == MINUTE


@pytest.mark.parametrize(("attempt", "rest"), [(1, 30), (2, 60), (3, 120), (11, 30720), (40, 30720)])
def test_rest_between_attempts_doubles_up_to_a_point(attempt: int, rest: int) -> None:
    assert a_case(Phase.RESTING, attempt=attempt).limit == timedelta(seconds=rest)


def test_time_is_up_at_the_deadline() -> None:
    assert not a_case(Phase.LOOKING, at=59.9).time_is_up
    assert a_case(Phase.LOOKING, at=60).time_is_up
    assert not a_case(Phase.NEEDS_PERSON, at=10**6).time_is_up


def test_a_phase_that_another_clock_has_dated_into_the_future_begins_now() -> None:
    assert a_case(Phase.LOOKING, at=0, since=after(300)).since == T0


@pytest.mark.parametrize("phase", [Phase.POWERING_OFF, Phase.FREEING, Phase.REPLACING])
def test_whoever_holds_us_back_does_not_use_up_the_time(phase: Phase) -> None:
    assert not a_case(phase, at=10**5, hold=BRAKE).time_is_up
    assert not a_case(phase, at=10**5, reason="Brake").time_is_up
    assert a_case(phase, at=10**5).time_is_up


def test_the_brake_does_not_stop_the_time_of_what_brings_a_machine_back() -> None:
    assert a_case(Phase.POWERING_ON, at=10**5, hold=BRAKE).time_is_up


# What did not work


def test_only_what_has_no_driver_at_all_is_a_persons_to_switch() -> None:
    assert a_case(Phase.POWERING_OFF, order=an_order(path=BY_HAND)).is_by_hand
    assert not a_case(Phase.POWERING_OFF, failures=failed("power off n1"), seen=seen(can_read=False)).is_by_hand


@pytest.mark.parametrize("key", ["power off n1", "power on n1", "read power n1"])
def test_why_a_machine_did_not_obey_is_known(key: str) -> None:
    assert a_case(Phase.POWERING_OFF, failures=failed(key)).refusal == "the BMC said no"
    assert a_case(Phase.POWERING_OFF, failures=failed("power off n2")).refusal == ""
