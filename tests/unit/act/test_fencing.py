"""What is done to nodes, pods and machines: never without the proof, never to another one, and nothing foreign is undone."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from defib.act.executor import HELD_BY_THE_BRAKE
from defib.act.fencing import ATTACHMENTS, TRIES
from defib.act.outcome import Done, Stale, Withheld
from defib.act.places import in_turn
from defib.kube.client import Deletion, Merge
from defib.kube.errors import Forbidden, KubeError, ServerFailed
from defib.kube.kinds import NODE_INCIDENTS, PODS
from defib.model.action import (
    Action,
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    DropIncident,
    FreePod,
    OpenIncident,
    RestoreNode,
    TaintNode,
    Target,
    UntaintNode,
)
from defib.model.health_check import KindRef
from defib.model.incident import Phase
from defib.model.mandate import Mandate
from defib.model.node import OUT_OF_SERVICE, TAINTED_BY_US, Taint
from defib.model.saved import Saved, to_save
from defib.simulate.faults import Fault, LoseAnswer, Refuse
from defib.simulate.virtual_time import START
from tests.unit.act.fenced import INCIDENTS, Scene, fence
from tests.unit.act.stage import MACHINES, PLACE, Stage, stamp

MACHINE = KindRef("machine.openshift.io/v1beta1", "Machine")
MARK = ("capi.metal3.io/unhealthy", "")
OURS = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
FOREIGN = {"key": "example.com/dedicated", "value": "gpu", "effect": "NoSchedule"}
Change = Callable[[Scene], Awaitable[None]]


def taints(scene: Scene) -> list[dict[str, Any]]:
    """As they are stored, in order."""
    return list(scene.stored("nodes", "n1")["spec"].get("taints", []))


async def give(scene: Scene, *some: dict[str, Any]) -> None:
    await scene.mend_node(spec={"taints": list(some)})


def taint(scene: Scene) -> TaintNode:
    return TaintNode(incident=scene.incident, node="n1", node_uid=scene.node().uid)


def untaint(scene: Scene) -> UntaintNode:
    return UntaintNode(node="n1", node_uid=scene.node().uid)


def deletion(scene: Scene) -> DeleteNode:
    node = scene.node()
    return DeleteNode(incident=scene.incident, node="n1", node_uid=node.uid, saved=to_save(node))


def freeing(scene: Scene, name: str = "db-0") -> FreePod:
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}], "terminationGracePeriodSeconds": 25}
    scene.stage.server.put("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    uid = scene.stage.uid("pods", f"default/{name}")
    return FreePod(incident=scene.incident, node="n1", namespace="default", name=name, uid=uid)


def detaching(scene: Scene, node: str = "n1", **meta: Any) -> DeleteAttachment:
    spec = {"attacher": "csi.example.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}}
    scene.stage.server.put(str(ATTACHMENTS), {"metadata": {"name": "va-1", **meta}, "spec": spec})
    uid = scene.stage.uid(str(ATTACHMENTS), "va-1")
    return DeleteAttachment(incident=scene.incident, node="n1", name="va-1", uid=uid)


def attachment(scene: Scene) -> Any:
    return scene.stored(str(ATTACHMENTS), "va-1")


async def shows(scene: Scene, **status: Any) -> None:
    """The kubelet says so of its pod."""
    await scene.stage.world.patch(PODS.at("db-0", "default"), Merge({"status": status}), subresource="status")


def pod(scene: Scene, name: str = "db-0") -> Any:
    return scene.stored("pods", f"default/{name}")


# Nothing without the proof


async def has_no_proof(scene: Scene) -> None:
    await scene.note(phase=Phase.FREEING.value)


async def has_gone_on(scene: Scene) -> None:
    await scene.proved()
    await scene.note(phase=Phase.CANCELLING.value)


async def is_gone(scene: Scene) -> None:
    await scene.remove(NODE_INCIDENTS.at("n1"))


async def is_another(scene: Scene) -> None:
    await scene.proved()
    scene.incident = msgspec.structs.replace(scene.incident, uid="of an earlier one")


UNPROVED: list[tuple[Change, str]] = [
    (has_no_proof, "NodeIncident n1 has no proof that the machine is down"),
    (has_gone_on, "NodeIncident n1 has gone on since"),
    (is_gone, "NodeIncident n1 has gone on since"),
    (is_another, "NodeIncident n1 has gone on since"),
]
DESTROYERS: list[Callable[[Scene], Action]] = [taint, deletion, freeing, detaching]


@pytest.mark.parametrize("destroyer", DESTROYERS)
@pytest.mark.parametrize(("change", "why"), UNPROVED)
def test_nothing_is_taken_away_without_the_proof_as_it_is_written_down_now(
    destroyer: Callable[[Scene], Action], change: Change, why: str
) -> None:
    async def story(scene: Scene) -> None:
        await change(scene)
        assert await scene.do(destroyer(scene)) == Stale(why)
        assert scene.writes() == []

    fence(story)


@pytest.mark.parametrize("destroyer", DESTROYERS)
def test_nothing_is_taken_away_under_the_brake_or_without_a_mandate(destroyer: Callable[[Scene], Action]) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = destroyer(scene)
        scene.stage.stop = lambda: "the brake is on"
        assert await scene.do(action) == Withheld("the brake is on")
        scene.stage.stop = str
        assert await scene.do(action, Mandate("old", ends=scene.stage.clock.monotonic())) == Withheld(
            "our mandate has ended"
        )
        assert scene.writes() == []

    fence(story)


@pytest.mark.parametrize("destroyer", DESTROYERS)
def test_what_takes_something_away_does_not_even_begin_under_the_brake(destroyer: Callable[[Scene], Action]) -> None:
    async def story(scene: Scene) -> None:
        assert isinstance(destroyer(scene), HELD_BY_THE_BRAKE)

    fence(story)


def test_pods_and_volumes_come_after_everything_else() -> None:
    """There may be thousands of them."""

    async def story(scene: Scene) -> None:
        many: list[Action] = [detaching(scene), freeing(scene)]
        assert in_turn([*many, taint(scene)], ()) == [taint(scene), *many]

    fence(story)


# Taints, labels and annotations


def test_our_taint_is_added_to_those_of_others_and_taken_away_from_among_them() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        await give(scene, FOREIGN)
        assert isinstance(await scene.do(taint(scene)), Done)
        assert taints(scene) == [FOREIGN, OURS | {"timeAdded": stamp(START)}]
        assert scene.node().annotations[TAINTED_BY_US] == stamp(START)
        assert isinstance(await scene.do(untaint(scene)), Done)
        assert taints(scene) == [FOREIGN]
        assert TAINTED_BY_US not in scene.node().annotations
        assert [kind for kind, _ in scene.stage.noted] == ["nodes", "nodes"]

    fence(story)


def test_a_node_that_has_it_or_has_it_no_more_is_not_written() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        assert isinstance(await scene.do(untaint(scene)), Done)
        await give(scene, OURS)
        assert isinstance(await scene.do(taint(scene)), Done)
        assert scene.writes() == []

    fence(story)


def test_the_last_taint_can_be_taken_away() -> None:
    async def story(scene: Scene) -> None:
        await give(scene, OURS)
        assert isinstance(await scene.do(untaint(scene)), Done)
        assert taints(scene) == []

    fence(story)


def restoring(scene: Scene) -> RestoreNode:
    saved = Saved(labels={"rack": "7"}, annotations={"a": "1"}, taints=[Taint(key="k", effect="NoSchedule")])
    return RestoreNode(node="n1", node_uid=scene.node().uid, saved=saved)


def test_what_was_saved_is_given_back_and_what_is_there_wins() -> None:
    async def story(scene: Scene) -> None:
        await scene.mend_node(metadata={"labels": {"rack": "8", "new": "x"}, "annotations": {"b": "2"}})
        await give(scene, FOREIGN)
        assert isinstance(await scene.do(restoring(scene)), Done)
        node = scene.node()
        assert node.labels == {"rack": "8", "new": "x"}
        assert node.annotations == {"a": "1", "b": "2"}
        assert [one["key"] for one in taints(scene)] == [FOREIGN["key"], "k"]
        assert isinstance(await scene.do(restoring(scene)), Done)
        assert len(scene.writes()) == 1, "there is nothing left to give back"

    fence(story)


def test_a_node_that_was_cordoned_before_it_was_deleted_is_cordoned_again() -> None:
    async def story(scene: Scene) -> None:
        again = RestoreNode(node="n1", node_uid=scene.node().uid, saved=Saved(unschedulable=True))
        assert isinstance(await scene.do(again), Done)
        assert scene.node().spec.unschedulable
        assert isinstance(await scene.do(again), Done)
        assert len(scene.writes()) == 1, "there is nothing left to give back"

    fence(story)


WRITERS: list[Callable[[Scene], Action]] = [taint, untaint, restoring]


@pytest.mark.parametrize("writer", WRITERS)
def test_who_loses_a_race_looks_again_and_tries_again_a_few_times(writer: Callable[[Scene], Action]) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        if writer is untaint:
            await give(scene, OURS, FOREIGN)
        scene.conflicts("nodes", times=TRIES - 1)
        assert isinstance(await scene.do(writer(scene)), Done)
        assert scene.stage.asked()[-2 * TRIES :] == ["get nodes 200", "patch nodes 409"] * (TRIES - 1) + [
            "get nodes 200",
            "patch nodes 200",
        ]

    fence(story)


@pytest.mark.parametrize("writer", WRITERS)
def test_who_always_loses_leaves_it_to_the_next_pass(writer: Callable[[Scene], Action]) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        if writer is untaint:
            await give(scene, OURS)
        before = scene.stored("nodes", "n1")
        scene.conflicts("nodes", times=None)
        assert await scene.do(writer(scene)) == Stale("node n1 changes faster than it can be written")
        assert scene.stored("nodes", "n1") == before

    fence(story)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_others_write_in_between_is_kept(writer: Callable[[Scene], Action]) -> None:
    """The write carries the version that was looked at, so it cannot undo what it did not see."""

    async def story(scene: Scene) -> None:
        await scene.proved()
        ours = [OURS] if writer is untaint else []
        await give(scene, *ours)

        async def happen() -> None:
            await scene.mend_node(metadata={"labels": {"team": "a"}}, spec={"taints": [*ours, FOREIGN]})

        assert isinstance(await scene.meanwhile(writer(scene), "nodes", happen), Done)
        assert scene.node().labels["team"] == "a"
        assert FOREIGN in taints(scene)
        assert "patch nodes 409" in scene.stage.asked()

    fence(story)


@pytest.mark.parametrize("writer", WRITERS)
def test_another_node_of_that_name_is_left_alone(writer: Callable[[Scene], Action]) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = writer(scene)
        await scene.stage.remove_node("n1")
        assert await scene.do(action) == Stale("node n1 is gone, or another one")
        scene.stage.add_node("n1")
        assert await scene.do(action) == Stale("node n1 is gone, or another one")
        assert scene.writes() == []

    fence(story)


# Nodes


def test_a_node_is_deleted_in_the_very_version_whose_metadata_was_saved() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        assert await scene.do(deletion(scene)) == Done()
        assert scene.stored("nodes", "n1") is None
        assert scene.stage.asked() == ["get nodeincidents 200", "get nodes 200", "delete nodes 200"]

    fence(story)


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"labels": {"late": "x"}}},
        {"metadata": {"annotations": {"late": "x"}}},
        {"spec": {"taints": [FOREIGN]}},
    ],
    ids=["label", "annotation", "taint"],
)
@pytest.mark.parametrize("in_between", [False, True])
def test_a_node_that_has_something_that_was_not_saved_stays(more: dict[str, Any], in_between: bool) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = deletion(scene)

        async def happen() -> None:
            await scene.mend_node(**more)

        if in_between:  # after our look: then the version no longer fits
            end = await scene.meanwhile(action, "nodes", happen)
            assert "delete nodes 409" in scene.stage.asked()
        else:
            await happen()
            end = await scene.do(action)
        assert end == Stale("node n1 has something that was not saved yet")
        assert scene.stored("nodes", "n1") is not None

    fence(story)


def test_a_heartbeat_in_between_is_no_reason_to_keep_a_node() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()

        async def happen() -> None:
            await scene.stage.turn("False")

        assert await scene.meanwhile(deletion(scene), "nodes", happen) == Done()
        assert scene.writes() == ["delete nodes 409", "delete nodes 200"]

    fence(story)


def test_another_node_of_that_name_is_not_deleted() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()

        async def happen() -> None:
            await scene.stage.remove_node("n1")
            scene.stage.add_node("n1")

        assert await scene.meanwhile(deletion(scene), "nodes", happen) == Done()
        assert scene.stored("nodes", "n1") is not None
        assert scene.writes() == ["delete nodes 409"]

    fence(story)


def test_a_node_that_is_gone_already_is_done_and_one_that_always_changes_is_left_to_the_next_pass() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = deletion(scene)
        scene.conflicts("nodes", times=None, verb="delete")
        assert await scene.do(action) == Stale("node n1 changes faster than it can be deleted")
        scene.stage.server.faults.clear()
        scene.stage.fault(Fault(effect=Refuse(code=404), verbs=("delete",), resource="nodes", times=1))
        assert await scene.do(action) == Done()
        await scene.stage.remove_node("n1")
        assert await scene.do(action) == Done()

    fence(story)


# Volumes


def test_a_volume_is_detached_by_whoever_attached_it() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = detaching(scene, finalizers=["external-attacher/csi-example-com"])
        assert await scene.do(action) == Done()
        assert attachment(scene)["metadata"]["deletionTimestamp"]
        assert attachment(scene)["metadata"]["finalizers"] == ["external-attacher/csi-example-com"]
        assert await scene.do(action) == Done(), "what is on its way is not deleted again"
        assert scene.writes() == ["delete volumeattachments 200"]

    fence(story)


def test_an_attachment_that_is_gone_is_done_and_a_namesake_is_left_alone() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = detaching(scene)
        await scene.remove(ATTACHMENTS.at("va-1"))
        assert await scene.do(action) == Done()
        detaching(scene)
        assert await scene.do(action) == Done()
        assert attachment(scene) is not None
        assert scene.writes() == []

    fence(story)


def test_a_namesake_that_is_attached_in_between_is_left_alone() -> None:
    """Attachments are named after volume and node, so the next one there has the same name."""

    async def story(scene: Scene) -> None:
        await scene.proved()
        action = detaching(scene)

        async def happen() -> None:
            await scene.remove(ATTACHMENTS.at("va-1"))
            detaching(scene)

        assert await scene.meanwhile(action, str(ATTACHMENTS), happen) == Done()
        assert "deletionTimestamp" not in attachment(scene)["metadata"]
        assert scene.writes() == ["delete volumeattachments 409"]

    fence(story)


def test_an_attachment_that_goes_in_between_is_done() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = detaching(scene)

        async def happen() -> None:
            await scene.remove(ATTACHMENTS.at("va-1"))

        assert await scene.meanwhile(action, str(ATTACHMENTS), happen) == Done()
        assert scene.writes() == ["delete volumeattachments 404"]

    fence(story)


def test_an_attachment_of_another_node_is_left_alone() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        assert await scene.do(detaching(scene, node="n2")) == Stale("attachment va-1 is of another node")
        assert scene.writes() == []

    fence(story)


def test_that_we_may_not_detach_is_an_error_for_whoever_asked() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = detaching(scene)
        scene.stage.fault(Fault(effect=Refuse(code=403), verbs=("delete",), resource=str(ATTACHMENTS)))
        with pytest.raises(Forbidden):
            await scene.do(action)

    fence(story)


# Pods


def test_a_pod_is_marked_as_failed_and_why_before_it_is_deleted_at_once() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        ready = {"type": "Ready", "status": "False"}
        action = freeing(scene)
        await shows(scene, phase="Running", conditions=[ready, {"type": "DisruptionTarget", "status": "False"}])
        await scene.stage.world.patch(
            PODS.at("db-0", "default"), Merge({"metadata": {"finalizers": ["example.com/f"]}})
        )
        assert await scene.do(action) == Done()
        status = pod(scene)["status"]
        message = "node n1 was proved to be down"
        assert (status["phase"], status["reason"], status["message"]) == ("Failed", "NodeFenced", message)
        because = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByDefib", "message": message}
        assert status["conditions"] == [ready, because | {"lastTransitionTime": stamp(START)}]
        assert pod(scene)["metadata"]["deletionGracePeriodSeconds"] == 0
        assert pod(scene)["metadata"]["finalizers"] == ["example.com/f"], "what holds it belongs to others"
        assert scene.writes() == ["patch pods/status 200", "delete pods 200"]

    fence(story)


def test_a_pod_that_waits_for_its_kubelet_is_not_waited_for_any_longer() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)
        await shows(scene, phase="Running")
        await scene.stage.world.delete(PODS.at("db-0", "default"), Deletion(uid=action.uid))
        assert pod(scene)["metadata"]["deletionGracePeriodSeconds"] == 25
        assert await scene.do(action) == Done()
        assert pod(scene) is None
        assert scene.writes() == ["patch pods/status 200", "delete pods 200"]

    fence(story)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_keeps_its_end(phase: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)
        await shows(scene, phase=phase)
        assert await scene.do(action) == Done()
        assert scene.writes() == ["delete pods 200"]
        assert pod(scene) is None

    fence(story)


def test_a_pod_that_is_gone_is_done_and_a_namesake_is_left_alone() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)
        await scene.remove(PODS.at("db-0", "default"))
        assert await scene.do(action) == Done()
        freeing(scene)
        assert await scene.do(action) == Done()
        assert pod(scene)["status"]["phase"] == "Pending"
        assert scene.writes() == []

    fence(story)


def test_a_namesake_that_comes_in_between_is_left_alone() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)

        async def happen() -> None:
            await scene.remove(PODS.at("db-0", "default"))
            freeing(scene)

        assert await scene.meanwhile(action, "pods", happen) == Done()  # the one that was meant is gone
        assert pod(scene)["status"]["phase"] == "Pending"
        assert "deletionTimestamp" not in pod(scene)["metadata"]

    fence(story)


@pytest.mark.parametrize("verb", ["patch", "delete"])
def test_a_pod_that_goes_while_it_is_freed_is_done(verb: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        scene.stage.fault(Fault(effect=Refuse(code=404), verbs=(verb,), resource="pods"))
        assert await scene.do(freeing(scene)) == Done()

    fence(story)


def test_a_pod_that_could_not_be_marked_is_not_deleted() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)
        scene.stage.fault(Fault(effect=Refuse(code=500), verbs=("patch",), resource="pods"))
        with pytest.raises(ServerFailed):
            await scene.do(action)
        scene.stage.server.faults.clear()
        scene.conflicts("pods", times=TRIES)
        assert await scene.do(action) == Stale("pod default/db-0 has changed in between")
        assert not any(asked.startswith("delete") for asked in scene.writes())

    fence(story)


def test_a_pod_that_kubernetes_marks_at_the_same_moment_is_freed_at_once_and_not_seconds_later() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)
        scene.conflicts("pods", times=1)
        assert await scene.do(action) == Done()
        assert any(asked.startswith("delete") for asked in scene.writes())

    fence(story)


@pytest.mark.parametrize("verb", ["patch", "delete"])
def test_who_loses_a_race_for_a_pod_looks_again_at_once(verb: str) -> None:
    """Kubernetes marks the same pods at the same moment, because of our taint."""

    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)
        scene.conflicts("pods", times=TRIES - 1, verb=verb)
        assert await scene.do(action) == Done()
        assert pod(scene) is None
        assert sum(asked.startswith(verb) for asked in scene.writes()) == TRIES

    fence(story)


def test_a_pod_whose_end_was_written_and_the_answer_lost_is_deleted_by_the_next_try() -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        action = freeing(scene)
        scene.stage.fault(Fault(effect=LoseAnswer(), verbs=("patch",), resource="pods", times=1))
        with pytest.raises(KubeError):
            await scene.do(action)
        assert await scene.do(action) == Done()
        assert pod(scene) is None

    fence(story)


# Machines


def put_machine(stage: Stage, name: str = "m1") -> Target:
    stage.server.put(str(MACHINES), {"metadata": {"name": name, "namespace": PLACE}})
    return Target(kind=MACHINE, namespace=PLACE, name=name, uid=stage.uid(str(MACHINES), f"{PLACE}/{name}"))


def replacing(scene: Scene) -> DeleteMachine:
    """Any namespaced object can stand for the host: it only gets an annotation."""
    return DeleteMachine(
        incident=scene.incident, node="n1", machine=put_machine(scene.stage), host=scene.cause, mark=MARK
    )


def machine(scene: Scene) -> Any:
    return scene.stored(str(MACHINES), f"{PLACE}/m1")


def host(scene: Scene) -> Any:
    return scene.stored("fooremediations.example.com", f"{PLACE}/n1")


def test_the_host_is_marked_before_its_machine_is_deleted() -> None:
    async def story(scene: Scene) -> None:
        await scene.note(phase=Phase.REPLACING.value)
        assert await scene.do(replacing(scene)) == Done()
        assert scene.writes() == ["patch fooremediations 200", "delete machines 200"]
        assert host(scene)["metadata"]["annotations"][MARK[0]] == MARK[1]
        assert machine(scene) is None

    fence(story)


@pytest.mark.parametrize("code", [409, 500])
def test_a_machine_whose_host_could_not_be_marked_stays(code: int) -> None:
    async def story(scene: Scene) -> None:
        await scene.note(phase=Phase.REPLACING.value)
        action = replacing(scene)
        scene.stage.fault(Fault(effect=Refuse(code=code), verbs=("patch",), client="defib"))
        if code == 409:
            assert await scene.do(action) == Stale("FooRemediation remedies/n1 has changed in between")
        else:
            with pytest.raises(ServerFailed):
                await scene.do(action)
        assert machine(scene) is not None

    fence(story)


def test_a_host_that_is_gone_needs_no_mark_and_another_one_gets_none() -> None:
    async def story(scene: Scene) -> None:
        await scene.note(phase=Phase.REPLACING.value)
        action = replacing(scene)
        other = msgspec.structs.replace(scene.cause, uid="another")
        assert await scene.do(msgspec.structs.replace(action, host=other)) == Stale(
            "FooRemediation remedies/n1 is another one now"
        )
        assert machine(scene) is not None
        scene.stage.server.store.remove("fooremediations.example.com", host(scene))
        assert await scene.do(action) == Done()
        assert machine(scene) is None

    fence(story)


def test_a_machine_without_a_host_is_deleted_and_another_one_of_that_name_is_not() -> None:
    async def story(scene: Scene) -> None:
        await scene.note(phase=Phase.REPLACING.value)
        action = msgspec.structs.replace(replacing(scene), host=None)
        assert await scene.do(action) == Done()
        put_machine(scene.stage)
        assert await scene.do(action) == Done()
        assert machine(scene) is not None
        assert scene.writes() == ["delete machines 200"]

    fence(story)


def test_another_machine_that_comes_in_between_is_not_deleted() -> None:
    async def story(scene: Scene) -> None:
        await scene.note(phase=Phase.REPLACING.value)

        async def happen() -> None:
            await scene.remove(MACHINES.at("m1", PLACE))
            put_machine(scene.stage)

        assert await scene.meanwhile(replacing(scene), str(MACHINES), happen) == Done()
        assert machine(scene) is not None
        assert scene.writes()[-1] == "delete machines 409"

    fence(story)


@pytest.mark.parametrize("phase", [Phase.NEEDS_PERSON, Phase.FREEING, Phase.CANCELLING])
def test_no_machine_is_deleted_before_all_attempts_have_failed(phase: Phase) -> None:
    async def story(scene: Scene) -> None:
        await scene.proved()
        await scene.note(phase=phase.value)
        action = replacing(scene)
        assert await scene.do(action) == Stale("NodeIncident n1 has gone on since")
        await scene.note(phase=Phase.REPLACING.value)
        scene.stage.stop = lambda: "the brake is on"
        assert await scene.do(action) == Withheld("the brake is on")
        assert scene.writes() == []

    fence(story)


# Incidents


def opening(instead_of: Target | None = None) -> OpenIncident:
    cause = {"apiVersion": "example.com/v1", "kind": "FooRemediation", "name": "n1", "uid": "u", "namespace": PLACE}
    body = {"metadata": {"name": "n1"}, "spec": {"node": "n1", "cause": cause}}
    return OpenIncident(node="n1", body=body, instead_of=instead_of)


def test_an_incident_is_opened_once() -> None:
    async def story(scene: Scene) -> None:
        await is_gone(scene)
        opened = await scene.do(opening())
        assert isinstance(opened, Done)
        assert opened.result is not None
        assert scene.stage.noted == [(INCIDENTS, opened.result)]
        assert await scene.do(opening()) == Stale("there is an incident of node n1 already")

    fence(story)


def test_a_closed_incident_makes_room_for_the_next_one() -> None:
    async def story(scene: Scene) -> None:
        await scene.note(phase=Phase.CLOSED.value)
        assert isinstance(await scene.do(opening(scene.incident)), Done)
        assert scene.record().uid != scene.incident.uid
        assert scene.writes() == ["delete nodeincidents 200", "create nodeincidents 201"]

    fence(story)


def test_an_incident_that_is_open_or_another_one_stays() -> None:
    async def story(scene: Scene) -> None:
        another = Stale("NodeIncident n1 is another one now")
        assert await scene.do(opening(scene.incident)) == another
        await scene.note(phase=Phase.CLOSED.value)
        assert await scene.do(opening(msgspec.structs.replace(scene.incident, uid="of an earlier one"))) == another
        assert scene.writes() == []

    fence(story)


def test_an_incident_that_is_opened_again_in_between_stays() -> None:
    async def story(scene: Scene) -> None:
        await scene.note(phase=Phase.CLOSED.value)

        async def happen() -> None:
            await scene.note(phase=Phase.OPEN.value)

        end = await scene.meanwhile(opening(scene.incident), INCIDENTS, happen)
        assert end == Stale("NodeIncident n1 is another one now")
        assert scene.writes() == ["delete nodeincidents 409"]

    fence(story)


def test_a_closed_incident_that_nobody_needs_is_dropped_and_an_open_one_is_not() -> None:
    async def story(scene: Scene) -> None:
        drop = DropIncident(incident=scene.incident)
        assert await scene.do(drop) == Stale("NodeIncident n1 is another one now")
        await scene.note(phase=Phase.CLOSED.value)
        assert await scene.do(drop) == Done()
        assert scene.stored(INCIDENTS, "n1") is None
        assert await scene.do(drop) == Done()
        assert scene.writes() == ["delete nodeincidents 200"]

    fence(story)
