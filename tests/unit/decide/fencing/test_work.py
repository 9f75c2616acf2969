"""What is done in each phase, again and again until its next row fits; and what is not done."""

from datetime import timedelta
from typing import Any

import pytest

from defib.decide.fencing.case import Case
from defib.decide.fencing.lost import NOBODY
from defib.decide.fencing.order import Obstacle
from defib.decide.fencing.work import next_command, next_reading, pace, work
from defib.model.action import (
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    FreePod,
    MarkRemediation,
    ReadPower,
    RestoreNode,
    SwitchPower,
    TaintNode,
    Target,
    UntaintNode,
)
from defib.model.cluster import Blindness
from defib.model.health_check import KindRef
from defib.model.incident import Confirmation, Entry, Grade, IncidentSpec, Phase, Proof
from defib.model.metal3 import HOST
from defib.model.node import Node, Taint
from defib.model.power import Look, PowerSeen, Reading
from defib.model.power_cycle import Workloads
from defib.model.saved import Saved
from tests.builders import MINUTE, SECOND, T0
from tests.unit.decide.fencing.cases import (
    BRAKE,
    BY_HAND,
    CAUSE,
    METAL3_PATH,
    NODE,
    OFF,
    ON,
    PATH,
    PROOF,
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
    look_at,
    off,
    on,
    seen,
    tainted,
)

MACHINE = Target(kind=KindRef("machine.openshift.io/v1beta1", "Machine"), namespace="m", name="m-1", uid="m-1")
DELETING = an_order(policy=a_policy(workloads=Workloads.DELETE_NODE))


def kinds(case: Any) -> list[type]:
    return [type(action) for action in work(case)]


def power(case: Any) -> list[object]:
    return [action.power for action in work(case) if isinstance(action, SwitchPower)]


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.RETURNING, Phase.RESTING, Phase.CLOSED])
def test_some_phases_only_wait(phase: Phase) -> None:
    assert work(a_case(phase, at=5, command=a_command(OFF))) == ()


# Power


def test_looking_is_reading_and_nothing_else() -> None:
    (read,) = work(a_case(Phase.LOOKING))
    assert read == ReadPower(incident_uid="i-1", node="n1", path=PATH)


def test_a_reading_names_the_one_that_is_known_already() -> None:
    (read,) = work(a_case(Phase.LOOKING, at=2, seen=seen(off(1))))
    assert isinstance(read, ReadPower)
    assert read.after == after(1)


def test_a_command_carries_all_that_must_still_be_so() -> None:
    (command,) = work(a_case(Phase.POWERING_OFF, attempt=2, order=an_order(unless_ready=True)))
    assert isinstance(command, SwitchPower)
    assert (command.power, command.attempt, command.version, command.node_uid) == (OFF, 2, "7", "uid-n1")
    assert (command.incident.uid, command.cause, command.path) == ("i-1", CAUSE, PATH)
    assert command.unless_ready


@pytest.mark.parametrize(
    ("phase", "wanted"),
    [(Phase.TESTING, ON), (Phase.POWERING_OFF, OFF), (Phase.POWERING_ON, ON), (Phase.CANCELLING, ON)],
)
def test_a_machine_is_told_then_read_then_told_again(phase: Phase, wanted: Any) -> None:
    other = on if wanted is OFF else off
    command = {"command": a_command(OFF)}
    assert power(a_case(phase, **command)) == [wanted]
    assert kinds(a_case(phase, at=1, **command, seen=seen(told=wanted))) == [ReadPower]
    assert kinds(a_case(phase, at=9.9, **command, seen=seen(other(1), told=wanted))) == [ReadPower]
    assert kinds(a_case(phase, at=10, **command, seen=seen(other(1), told=wanted))) == [SwitchPower, ReadPower]


def test_what_another_process_has_sent_is_sent_once_more() -> None:
    """Nobody knows whether it came to that: the record is written before the command is sent."""
    assert power(a_case(Phase.POWERING_OFF, at=5, command=a_command(OFF))) == [OFF]


def test_a_machine_that_obeys_is_not_told_again() -> None:
    assert kinds(a_case(Phase.POWERING_OFF, at=20, seen=seen(off(1), told=OFF))) == [ReadPower]


def test_a_machine_that_cannot_be_read_is_not_read() -> None:
    assert work(a_case(Phase.POWERING_OFF, at=1, seen=seen(told=OFF, can_read=False))) == ()


@pytest.mark.parametrize("phase", [Phase.LOOKING, Phase.POWERING_OFF])
def test_without_a_way_to_the_power_nothing_is_tried(phase: Phase) -> None:
    assert work(a_case(phase, order=an_order(path=Obstacle("NoPowerPath", "no")), power=None)) == ()


def test_the_brake_keeps_us_from_switching_off_and_from_nothing_that_brings_back() -> None:
    """I5, I14."""
    assert work(a_case(Phase.POWERING_OFF, hold=BRAKE)) == ()
    for phase in (Phase.TESTING, Phase.POWERING_ON, Phase.CANCELLING, Phase.NEEDS_PERSON):
        assert power(a_case(phase, hold=BRAKE, command=a_command(OFF))) == [ON]


def test_cancelling_switches_on_only_what_we_may_have_switched_off() -> None:
    """I8."""
    assert work(a_case(Phase.CANCELLING)) == ()
    assert power(a_case(Phase.CANCELLING, command=a_command(OFF))) == [ON]
    assert power(a_case(Phase.CANCELLING, command=a_command(ON))) == [ON]  # by another process, or in vain
    assert (
        work(a_case(Phase.CANCELLING, at=5, command=a_command(OFF), proof=PROOF, seen=seen(on(1), on(2), told=ON)))
        == ()
    )


def test_what_waits_for_a_person_is_told_to_go_on_now_and_then() -> None:
    """I8: a BMC that was dead may come to life again."""
    told = {"command": a_command(OFF)}
    assert power(a_case(Phase.NEEDS_PERSON, at=5, **told)) == [ON]
    assert power(a_case(Phase.NEEDS_PERSON, at=339, **told, seen=seen(off(41), told=ON, at=40))) == []
    assert power(a_case(Phase.NEEDS_PERSON, at=340, **told, seen=seen(off(41), told=ON, at=40))) == [ON]
    assert work(a_case(Phase.NEEDS_PERSON, at=5)) == ()


def test_what_a_person_has_switched_off_is_not_switched_on_under_their_hands() -> None:
    """Its node is still said to be ready: the confirmation will be believed in a moment."""
    confirmed = IncidentSpec(node="n1", confirmed_off=Confirmation(by="ann", at=after(5)))
    told: dict[str, Any] = {"at": 9, "command": a_command(OFF), "node": back("boot-1"), "spec": confirmed}
    assert work(a_case(Phase.NEEDS_PERSON, **told)) == ()
    assert power(a_case(Phase.NEEDS_PERSON, **told, order=an_order(withdrawn="deleted"))) == [ON]
    assert power(a_case(Phase.NEEDS_PERSON, **told, order=an_order(policy=a_policy(accepts=(Grade.POWER,))))) == [ON]
    assert power(a_case(Phase.NEEDS_PERSON, **told, proof=PROOF)) == [ON]


def test_what_only_a_person_can_switch_is_left_to_that_person() -> None:
    assert work(a_case(Phase.NEEDS_PERSON, at=5, command=a_command(OFF), order=an_order(path=BY_HAND))) == ()


@pytest.mark.parametrize(
    ("waited", "pause"),
    [(0, 0.5), (14, 0.5), (15, 2), (59, 2), (60, 10), (599, 10), (600, 60), (10**6, 60)],
)
def test_the_longer_it_takes_the_less_often_the_power_is_read(waited: int, pause: float) -> None:
    assert pace(a_case(Phase.POWERING_ON, at=waited)) == timedelta(seconds=pause)


def test_the_next_reading_comes_after_a_pause_and_the_first_at_once() -> None:
    assert next_reading(a_case(Phase.LOOKING, at=3)) == after(3)
    assert next_reading(a_case(Phase.LOOKING, at=3, seen=seen(off(2.9)))) == after(2.9) + SECOND / 2
    assert work(a_case(Phase.LOOKING, at=3, seen=seen(off(2.9)))) == ()


def test_the_next_command_comes_when_nothing_has_come_of_the_last() -> None:
    assert next_command(a_case(Phase.POWERING_OFF, at=3), OFF) == after(3)
    assert next_command(a_case(Phase.POWERING_OFF, at=3, seen=seen(told=OFF, at=1)), OFF) == after(11)
    assert next_command(a_case(Phase.NEEDS_PERSON, at=33, seen=seen(told=ON, at=31)), ON) == after(31) + 5 * MINUTE
    early = seen(told=ON, at=1, can_read=False)
    assert next_command(a_case(Phase.CANCELLING, at=3, seen=early), ON) == after(30)
    assert next_command(a_case(Phase.POWERING_ON, at=3, seen=early, proof=PROOF), ON) == after(1) + 5 * MINUTE
    unreadable = seen(told=OFF, at=1, can_read=False)
    assert next_command(a_case(Phase.POWERING_OFF, at=3, seen=unreadable), OFF) == after(1) + 5 * MINUTE


# Workloads


def freeing(**more: Any) -> Any:
    """This process has just read it as off."""
    at = more.get("at", 3)
    usual: dict[str, Any] = {"at": at, "proof": PROOF, "tainted": True, "seen": seen(off(at))}
    return a_case(Phase.FREEING, **(usual | more))


TO_FREE: tuple[dict[str, Any], ...] = (
    {"pods": [a_pod()]},
    {"node": tainted(NODE), "pods": [a_pod()]},
    {"node": tainted(NODE), "volumes": [an_attachment("n1")]},
    {"order": DELETING, "saved": Saved()},
)


@pytest.mark.parametrize("todo", TO_FREE, ids=["taint", "pods", "volumes", "node"])
@pytest.mark.parametrize(
    "known",
    [
        seen(),
        seen(told=OFF),
        seen(off(29), on(29.5)),
        seen(off(29.9)),
        seen(look_at(UNKNOWN, 50)),
        seen(off(29), look_at(UNKNOWN, 50)),
        seen(Look(Reading(OFF, after(59)), T0, BY_HAND)),
    ],
    ids=["not read", "told", "on since", "long ago", "unknown", "unknown since", "of another machine"],
)
def test_nothing_is_freed_by_what_is_written_until_this_process_has_read_the_machine_as_off(
    todo: dict[str, Any], known: PowerSeen
) -> None:
    """I1: etcd may have been restored from a backup, and the machine is on again since."""
    assert kinds(freeing(**todo, at=60, seen=known)) == [ReadPower]


@pytest.mark.parametrize("todo", TO_FREE, ids=["taint", "pods", "volumes", "node"])
def test_a_machine_that_was_read_as_off_half_a_minute_ago_is_not_read_again(todo: dict[str, Any]) -> None:
    for known in (seen(off(30)), seen(off(30), look_at(UNKNOWN, 59)), seen(off(29), off(30), told=OFF, at=28)):
        assert ReadPower not in kinds(freeing(**todo, at=60, seen=known))
        assert work(freeing(**todo, at=60, seen=known)) != ()


def test_a_metal3_host_must_have_been_off_for_as_long_as_its_operator_may_not_look_at_it() -> None:
    """What stands in the host comes from the same backup. Who has switched it off in this life has waited already."""
    host: dict[str, Any] = {"order": an_order(path=METAL3_PATH), **a_host(poweredOn=False), "pods": [a_pod()]}
    minute = [off(second) for second in range(0, 60, 10)]
    assert kinds(freeing(**host, at=50, seen=seen(*minute[:5]))) == [ReadPower]
    assert work(freeing(**host, at=51, seen=seen(*minute))) == (), "once in ten seconds"
    assert kinds(freeing(**host, at=60, seen=seen(*minute))) == [ReadPower]
    assert kinds(freeing(**host, at=60, seen=seen(*minute, off(60)))) == [TaintNode]
    assert kinds(freeing(**host, at=3, seen=seen(off(2), told=OFF, at=1))) == [TaintNode]


@pytest.mark.parametrize("grade", [Grade.TIME, Grade.PERSON])
def test_what_was_proved_in_another_way_is_not_read(grade: Grade) -> None:
    proof = Proof(grade=grade, at=T0, how="in another way")
    assert kinds(freeing(seen=seen(), proof=proof, pods=[a_pod()])) == [TaintNode]


def test_while_everything_is_held_back_the_power_is_not_read_either() -> None:
    assert work(freeing(seen=seen(), hold=BRAKE, pods=[a_pod()])) == ()


def test_kubernetes_is_told_first() -> None:
    (taint,) = work(freeing(pods=[a_pod()]))
    assert isinstance(taint, TaintNode)
    assert (taint.incident.uid, taint.node, taint.node_uid) == ("i-1", "n1", "uid-n1")


def test_then_its_pods_are_ended() -> None:
    pods = [a_pod("a"), a_pod("b", priority=5)]
    freed = work(freeing(node=tainted(NODE), pods=pods))
    assert all(isinstance(action, FreePod) and action.incident.uid == "i-1" for action in freed)
    assert [(action.name, action.uid) for action in freed if isinstance(action, FreePod)] == [
        ("b", "uid-b"),
        ("a", "uid-a"),
    ]


def detached(case: Case) -> list[str]:
    todo = work(case)
    assert all(isinstance(action, DeleteAttachment) and action.incident.uid == "i-1" for action in todo)
    return [action.uid for action in todo if isinstance(action, DeleteAttachment) and action.node == "n1"]


def test_volumes_that_kubernetes_does_not_detach_within_seconds_are_detached_by_us() -> None:
    volumes = [an_attachment("n1"), an_attachment("n2")]
    assert detached(freeing(node=tainted(NODE), volumes=volumes, at=9.9)) == []
    assert detached(freeing(node=tainted(NODE), volumes=volumes, at=10)) == ["va-n1"]


def test_volumes_of_a_node_that_is_gone_are_detached_at_once() -> None:
    """Kubernetes would wait for six minutes."""
    volumes = [an_attachment("n1"), an_attachment("n2")]
    assert detached(freeing(order=DELETING, saved=Saved(), node=None, volumes=volumes, at=0)) == ["va-n1"]
    assert detached(freeing(node=None, volumes=volumes, at=0)) == ["va-n1"], "whoever deleted it"


@pytest.mark.parametrize(
    "more",
    [
        {"proof": None},
        {"hold": BRAKE},
        {"pods": None},
        {"blind": (Blindness("volumeattachments", T0, "watch lost"),)},
        {"volumes": [an_attachment("n1", deletion_timestamp=T0)]},
        {"volumes": [an_attachment("n1", created=1)]},
    ],
    ids=["no proof", "brake", "pods out of sight", "out of sight", "on its way", "attached again"],
)
@pytest.mark.parametrize("node", [tainted(NODE), None], ids=["tainted", "deleted"])
def test_volumes_that_are_not_ours_to_detach_now_are_left(more: Any, node: Node | None) -> None:
    """I1, I5."""
    assert work(freeing(**({"node": node, "at": 60, "volumes": [an_attachment("n1")]} | more))) == ()


def test_no_volume_is_detached_before_kubernetes_knows_and_every_pod_is_gone() -> None:
    late: dict[str, Any] = {"volumes": [an_attachment("n1")], "at": 60}
    assert kinds(freeing(**late)) == [TaintNode]
    assert kinds(freeing(order=DELETING, saved=Saved(), **late)) == [DeleteNode]
    assert kinds(freeing(node=tainted(NODE), pods=[a_pod()], **late)) == [FreePod]


def test_a_pod_on_its_own_is_ended_only_when_it_was_named() -> None:
    """Whoever comes after us would not know that it has been there."""
    pods = [a_pod("a"), a_pod("b", owner="")]
    named = Entry(at=T0, phase=Phase.FREEING, message=f"it is proved to be down; {NOBODY} (1): d/b")
    before = freeing(node=tainted(NODE), pods=pods)
    after_all = freeing(node=tainted(NODE), pods=pods, timeline=[named])
    assert [action.name for action in work(before) if isinstance(action, FreePod)] == ["a"]
    assert [action.name for action in work(after_all) if isinstance(action, FreePod)] == ["a", "b"]


def test_rm10_a_node_is_deleted_with_what_was_saved_of_it() -> None:
    """RM-10: without it, it is not deleted."""
    saved = Saved(labels={"rack": "7"})
    (delete,) = work(freeing(order=DELETING, saved=saved, tainted=False))
    assert isinstance(delete, DeleteNode)
    assert (delete.node_uid, delete.saved) == ("uid-n1", saved)
    assert work(freeing(order=DELETING, tainted=False)) == ()


def test_a_taint_is_put_only_where_it_is_written_down_that_it_is_ours() -> None:
    """Whoever comes after us must know that it is to be removed."""
    assert work(freeing(tainted=False)) == ()


@pytest.mark.parametrize("more", [{"proof": None}, {"hold": BRAKE}, {"order": an_order(node="", name="m")}])
def test_without_a_proof_or_with_the_brake_nothing_is_freed(more: Any) -> None:
    """I1, I5."""
    assert work(freeing(**more)) == ()
    assert work(freeing(node=tainted(NODE), pods=[a_pod()], **more)) == ()


@pytest.mark.parametrize("more", [{"proof": None}, {"hold": BRAKE}])
def test_without_a_proof_or_with_the_brake_no_node_is_deleted(more: Any) -> None:
    """I1, I5."""
    assert work(freeing(order=DELETING, saved=Saved(), **more)) == ()


# Restoring


def test_rm11_what_was_saved_comes_back_before_the_taint_goes() -> None:
    """RM-11."""
    saved = Saved(labels={"rack": "7"}, taints=[Taint(key="gpu", effect="NoSchedule")])
    (restore,) = work(a_case(Phase.RESTORING, node=tainted(back()), tainted=True, saved=saved))
    assert restore == RestoreNode(node="n1", node_uid="uid-n1", saved=saved)


def test_rm12_taints_come_back_unless_the_policy_says_not() -> None:
    """RM-12."""
    saved = Saved(labels={"rack": "7"}, annotations={"a": ""}, taints=[Taint(key="gpu", effect="NoSchedule")])
    order = an_order(policy=a_policy(restores_taints=False))
    (restore,) = work(a_case(Phase.RESTORING, node=back(), saved=saved, order=order))
    assert isinstance(restore, RestoreNode)
    assert restore.saved == Saved(labels={"rack": "7"}, annotations={"a": ""})


def test_our_taint_is_removed_and_nobody_elses() -> None:
    """I7."""
    (untaint,) = work(a_case(Phase.RESTORING, node=tainted(back()), tainted=True))
    assert untaint == UntaintNode(node="n1", node_uid="uid-n1")
    assert work(a_case(Phase.RESTORING, node=tainted(back()))) == ()
    blind = (Blindness("nodes", T0, "watch lost"),)
    assert work(a_case(Phase.RESTORING, node=tainted(back()), blind=blind)) == (), "it is not ours, seen or not"


def test_rm14_what_asked_for_it_is_told_when_nothing_else_is_left_to_do() -> None:
    """RM-14."""
    finish = (MarkRemediation(node="n1", target=MACHINE, annotations={"host.metal3.io/external-remediation": None}),)
    order = an_order(finish=finish)
    assert work(a_case(Phase.RESTORING, node=back(), order=order)) == finish
    assert kinds(a_case(Phase.RESTORING, node=tainted(back()), tainted=True, order=order)) == [UntaintNode]
    assert work(a_case(Phase.RESTORING, node=None, order=order)) == ()


# Handing over


def test_rm20_a_machine_is_handed_over_with_its_host_marked() -> None:
    """RM-20."""
    host = Target(kind=HOST, namespace="m", name="h", uid="h")
    (delete,) = work(a_case(Phase.REPLACING, order=an_order(machine=MACHINE, host=host)))
    assert isinstance(delete, DeleteMachine)
    assert (delete.machine, delete.host) == (MACHINE, host)
    assert delete.mark == ("capm3.metal3.io/unhealthy", "capm3/UnhealthyNode")


def test_rm19_without_a_machine_or_with_the_brake_nothing_is_handed_over() -> None:
    """RM-19, I5."""
    assert work(a_case(Phase.REPLACING)) == ()
    assert work(a_case(Phase.REPLACING, order=an_order(machine=MACHINE), hold=BRAKE)) == ()
