"""Before anything is taken away it is looked at once more, live: what has an owner after all stays as it is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from defib.act.leftovers import collect
from defib.act.outcome import Done, MembersRead, Stale, Withheld
from defib.hollow.metal3 import HOSTS
from defib.kube.client import Merge
from defib.kube.errors import Forbidden
from defib.kube.kinds import LEASES, NODES
from defib.model import medik8s
from defib.model.action import EndRemediation, Target
from defib.model.incident import Phase
from defib.model.leftover import BY_US, MANAGED_BY, DropMember, LetHostGo, ReadMembers, TakeTaintOff
from defib.model.mandate import Mandate
from defib.model.metal3 import HOST, KEPT_OFF_BY, KEPT_OFF_FOR, REBOOT_HARD
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US
from defib.simulate.faults import Fault, Refuse
from testbed.bmc.metal3 import metal3_definitions
from tests.unit.act.fenced import CRDS, INCIDENTS, Scene, fence
from tests.unit.act.stage import CHECKS, FOO, FOOS, PLACE, Stage, play

SINCE = "2029-12-31T23:00:00Z"
OURS = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": SINCE}
FOREIGN = {"key": "example.com/dedicated", "value": "gpu", "effect": "NoSchedule"}
KEY = "reboot.metal3.io/defib"
OTHER = "reboot.metal3.io/somebody-else"
ENDED = Mandate("old", ends=-1.0)

Change = Callable[[Scene], Awaitable[None]]


async def shows(scene: Scene, ready: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    await scene.stage.world.patch(NODES.at("n1"), Merge({"status": status}), subresource="status")


async def leave_taint(scene: Scene) -> TakeTaintOff:
    await scene.note(phase=Phase.CLOSED.value)
    await scene.mend_node(metadata={"annotations": {TAINTED_BY_US: SINCE}}, spec={"taints": [OURS, FOREIGN]})
    await shows(scene, "True")
    return TakeTaintOff(node="n1", node_uid=scene.node().uid)


def taints(scene: Scene) -> list[dict[str, Any]]:
    return list(scene.stored("nodes", "n1")["spec"].get("taints", []))


def test_only_our_taint_and_its_mark_go() -> None:
    async def story(scene: Scene) -> None:
        action = await leave_taint(scene)
        assert isinstance(await scene.do(action), Done)
        assert taints(scene) == [FOREIGN]
        assert TAINTED_BY_US not in scene.node().annotations

    fence(story)


def test_one_of_the_same_name_that_somebody_else_has_added_stays() -> None:
    async def story(scene: Scene) -> None:
        action = await leave_taint(scene)
        theirs = OURS | {"effect": "NoSchedule", "timeAdded": "2029-12-31T23:30:00Z"}
        await scene.mend_node(spec={"taints": [OURS, theirs]})
        assert isinstance(await scene.do(action), Done)
        assert taints(scene) == [theirs]

    fence(story)


async def incident_opens(scene: Scene) -> None:
    await scene.note(phase=Phase.FREEING.value)


async def node_fails(scene: Scene) -> None:
    await shows(scene, "Unknown")


async def taint_is_replaced(scene: Scene) -> None:
    await scene.mend_node(spec={"taints": [OURS | {"timeAdded": "2029-12-31T23:30:00Z"}, FOREIGN]})


async def mark_goes(scene: Scene) -> None:
    await scene.mend_node(metadata={"annotations": {TAINTED_BY_US: None}})


async def node_goes(scene: Scene) -> None:
    await scene.stage.remove_node("n1")


async def kind_goes(scene: Scene) -> None:
    effect = Refuse(code=404, reason="NotFound")
    scene.stage.fault(Fault(effect=effect, verbs=("list",), resource=INCIDENTS, client="defib"))


async def incident_is_garbled(scene: Scene) -> None:
    stored = scene.stored(INCIDENTS, "n1")
    scene.stage.server.store.put(INCIDENTS, {**stored, "status": 5})


@pytest.mark.parametrize(
    "change", [incident_is_garbled, incident_opens, node_fails, taint_is_replaced, mark_goes, node_goes, kind_goes]
)
def test_what_has_changed_since_keeps_the_taint_as_it_is(change: Change) -> None:
    async def story(scene: Scene) -> None:
        action = await leave_taint(scene)
        await change(scene)
        before = scene.stored("nodes", "n1")
        assert isinstance(await scene.do(action), Stale)
        assert scene.stored("nodes", "n1") == before
        assert scene.writes() == []

    fence(story)


def test_a_node_that_changes_in_this_very_moment_is_left_to_the_next_pass() -> None:
    async def story(scene: Scene) -> None:
        action = await leave_taint(scene)
        scene.conflicts("nodes", times=1)
        assert await scene.do(action) == Stale("node n1 has changed in between")
        assert taints(scene) == [OURS, FOREIGN]

    fence(story)


def test_incidents_that_may_not_be_listed_are_no_leave_to_act() -> None:
    async def story(scene: Scene) -> None:
        action = await leave_taint(scene)
        effect = Refuse(code=403, reason="Forbidden")
        scene.stage.fault(Fault(effect=effect, verbs=("list",), resource=INCIDENTS, client="defib"))
        with pytest.raises(Forbidden):
            await scene.do(action)
        assert taints(scene) == [OURS, FOREIGN]

    fence(story)


# Hosts


async def leave_host(scene: Scene, *, mark: str = KEY, **more: str) -> LetHostGo:
    for definition in metal3_definitions():
        if definition["metadata"]["name"] == str(HOSTS):
            scene.stage.server.put(CRDS, definition)
    annotations = {KEY: REBOOT_HARD, OTHER: REBOOT_HARD, "note": "x", KEPT_OFF_BY: mark} | more
    meta = {"name": "n1", "namespace": PLACE, "annotations": annotations}
    scene.stage.server.put(str(HOSTS), {"metadata": meta, "spec": {"online": True}})
    uid = scene.stage.uid(str(HOSTS), f"{PLACE}/n1")
    await scene.note(phase=Phase.CLOSED.value)
    return LetHostGo(node="n1", host=Target(kind=HOST, namespace=PLACE, name="n1", uid=uid), kept_off_by=mark)


def annotations(scene: Scene) -> dict[str, str]:
    return dict(scene.stored(str(HOSTS), f"{PLACE}/n1")["metadata"]["annotations"])


def test_a_host_loses_what_we_kept_it_off_by_and_nothing_else() -> None:
    async def story(scene: Scene) -> None:
        assert isinstance(await scene.do(await leave_host(scene)), Done)
        assert annotations(scene) == {OTHER: REBOOT_HARD, "note": "x"}

    fence(story)


@pytest.mark.parametrize("mark", ["note", "reboot.metal3.io/defib/x"])
def test_whatever_a_mark_names_only_what_keeps_a_host_off_is_taken_away(mark: str) -> None:
    async def story(scene: Scene) -> None:
        assert isinstance(await scene.do(await leave_host(scene, mark=mark)), Done)
        assert annotations(scene) == {KEY: REBOOT_HARD, OTHER: REBOOT_HARD, "note": "x"}

    fence(story)


def test_what_somebody_has_written_over_ours_stays() -> None:
    async def story(scene: Scene) -> None:
        action = await leave_host(scene, **{KEY: '{"mode":"soft"}'})
        assert isinstance(await scene.do(action), Done)
        assert annotations(scene) == {KEY: '{"mode":"soft"}', OTHER: REBOOT_HARD, "note": "x"}

    fence(story)


async def begins_on_host(scene: Scene) -> None:
    await scene.note(phase=Phase.POWERING_OFF.value, power={"driver": "metal3", "address": f"{PLACE}/n1"})


async def begins_somewhere(scene: Scene) -> None:
    await scene.note(phase=Phase.OPEN.value)


async def is_marked_anew(scene: Scene) -> None:
    meta = {"annotations": {KEPT_OFF_BY: OTHER}}
    await scene.stage.world.patch(HOSTS.at("n1", PLACE), Merge({"metadata": meta}))


async def frees_by_another_way(scene: Scene) -> None:
    await scene.note(phase=Phase.FREEING.value, power={"driver": "redfish", "address": "https://10.0.0.1"})


async def frees_by_hand(scene: Scene) -> None:
    await scene.note(phase=Phase.FREEING.value, power={"driver": "manual"})


@pytest.mark.parametrize(
    "change", [begins_on_host, begins_somewhere, is_marked_anew, frees_by_another_way, frees_by_hand]
)
def test_what_has_changed_since_keeps_the_host_off(change: Change) -> None:
    async def story(scene: Scene) -> None:
        action = await leave_host(scene)
        await change(scene)
        before = annotations(scene)
        assert isinstance(await scene.do(action), Stale)
        assert annotations(scene) == before

    fence(story)


@pytest.mark.parametrize(("node", "end"), [("n1", Done), ("", Stale)])
def test_an_incident_of_another_node_keeps_only_a_host_off_of_which_nobody_knows_whose_it_is(
    node: str, end: type
) -> None:
    async def story(scene: Scene) -> None:
        action = msgspec.structs.replace(await leave_host(scene), node=node)
        cause = {"apiVersion": "v1", "kind": "X", "name": "n9", "uid": "u"}
        other = {"metadata": {"name": "n9"}, "spec": {"node": "n9", "cause": cause}, "status": {"phase": "Open"}}
        scene.stage.server.put(INCIDENTS, other)
        assert isinstance(await scene.do(action), end)

    fence(story)


def test_a_machine_that_should_be_on_again_by_another_way_is_let_go() -> None:
    async def story(scene: Scene) -> None:
        action = await leave_host(scene, **{KEPT_OFF_FOR: "n1"})
        await scene.note(phase=Phase.RETURNING.value, power={"driver": "manual"})
        assert isinstance(await scene.do(action), Done)
        assert annotations(scene) == {OTHER: REBOOT_HARD, "note": "x"}, "and both marks go with it"

    fence(story)


def test_many_that_look_in_the_same_moment_share_one_list_of_incidents() -> None:
    async def story(scene: Scene) -> None:
        taint, host = await leave_taint(scene), await leave_host(scene)
        before, means = len(scene.stage.asked()), scene.stage.means()
        async with asyncio.TaskGroup() as group:
            ends = [group.create_task(collect(means, action, Mandate("test"))) for action in (taint, host)]
        assert [type(end.result()) for end in ends] == [Done, Done]
        lists = [asked for asked in scene.stage.asked()[before:] if "nodeincidents" in asked]
        assert len(lists) == 1

    fence(story)


# Remediations


def an_orphan(stage: Stage, *owners: tuple[str, str]) -> EndRemediation:
    """Each owner is a kind and a UID."""
    references = [{"apiVersion": medik8s.API_VERSION, "kind": kind, "name": "all", "uid": uid} for kind, uid in owners]
    stage.server.put(str(FOOS), {"metadata": {"name": "sick", "namespace": PLACE, "ownerReferences": references}})
    target = Target(kind=FOO, namespace=PLACE, name="sick", uid=stage.uid(str(FOOS), f"{PLACE}/sick"))
    return EndRemediation(check="all", node="sick", target=target, node_is_gone=True, is_leftover=True)


GONE = (medik8s.CHECK_KIND, "uid-gone")


def put_check(stage: Stage) -> tuple[str, str]:
    stage.server.put(str(CHECKS), {"metadata": {"name": "all"}, "spec": {}})
    return medik8s.CHECK_KIND, stage.uid(str(CHECKS), "all")


def test_a_remediation_whose_check_is_gone_is_ended_even_if_there_is_a_namesake() -> None:
    async def story(stage: Stage) -> None:
        put_check(stage)
        assert isinstance(await stage.do(an_orphan(stage, GONE)), Done)
        assert f"{PLACE}/sick" not in stage.server.store.collection(str(FOOS)).objects

    play(story)


@pytest.mark.parametrize("others", [(), (GONE,), (("Machine", "uid-m"),)])
def test_a_remediation_stays_if_any_of_its_checks_is_there_after_all(others: tuple[tuple[str, str], ...]) -> None:
    async def story(stage: Stage) -> None:
        check = put_check(stage)
        assert isinstance(await stage.do(an_orphan(stage, *others, check)), Stale)
        assert not any(asked.startswith("delete") for asked in stage.asked())

    play(story)


@pytest.mark.parametrize("owners", [(), (GONE, ("Machine", "uid-m"))])
def test_a_remediation_that_not_only_checks_own_is_no_leftover(owners: tuple[tuple[str, str], ...]) -> None:
    async def story(stage: Stage) -> None:
        assert isinstance(await stage.do(an_orphan(stage, *owners)), Stale)

    play(story)


def test_checks_that_nobody_can_list_or_read_may_be_the_owners() -> None:
    async def story(stage: Stage) -> None:
        action = an_orphan(stage, GONE)
        effect = Refuse(code=404, reason="NotFound")
        stage.fault(Fault(effect=effect, verbs=("list",), resource=str(CHECKS), client="defib", times=1))
        assert isinstance(await stage.do(action), Stale)
        put_check(stage)
        stored = stage.server.store.collection(str(CHECKS)).objects["all"].object
        garbled = {**stored, "metadata": {**stored["metadata"], "labels": 5}}
        stage.server.store.put(str(CHECKS), garbled)
        assert isinstance(await stage.do(action), Stale)

    play(story)


# Members


def put_lease(scene: Scene, name: str, **labels: str) -> DropMember:
    meta = {"name": name, "namespace": PLACE, "labels": labels}
    scene.stage.server.put(str(LEASES), {"metadata": meta, "spec": {"holderIdentity": "a"}})
    version = scene.stored(str(LEASES), f"{PLACE}/{name}")["metadata"]
    return DropMember(namespace=PLACE, name=name, uid=version["uid"], version=version["resourceVersion"])


def test_members_are_read_by_our_label_and_a_dead_one_is_dropped() -> None:
    async def story(scene: Scene) -> None:
        action = put_lease(scene, "defib-member-a", **{MANAGED_BY: BY_US})
        put_lease(scene, "defib-member-b")
        read = await scene.do(ReadMembers(namespace=PLACE))
        assert isinstance(read, MembersRead)
        assert [lease.name for lease in read.seen.leases] == ["defib-member-a"]
        assert isinstance(await scene.do(action), Done)
        assert scene.stored(str(LEASES), f"{PLACE}/defib-member-a") is None
        assert scene.stored(str(LEASES), f"{PLACE}/defib-member-b") is not None

    fence(story)


def test_a_member_that_has_renewed_its_lease_since_keeps_it() -> None:
    async def story(scene: Scene) -> None:
        action = put_lease(scene, "defib-member-a", **{MANAGED_BY: BY_US})
        await scene.stage.world.patch(LEASES.at("defib-member-a", PLACE), Merge({"spec": {"holderIdentity": "b"}}))
        assert isinstance(await scene.do(action), Stale)
        assert scene.stored(str(LEASES), f"{PLACE}/defib-member-a") is not None

    fence(story)


@pytest.mark.parametrize("leave", [leave_taint, leave_host])
def test_le_12_nothing_is_collected_once_the_mandate_has_ended(leave: Callable[[Scene], Awaitable[Any]]) -> None:
    async def story(scene: Scene) -> None:
        action = await leave(scene)
        assert isinstance(await scene.do(action, ENDED), Withheld)
        assert scene.writes() == []

    fence(story)
