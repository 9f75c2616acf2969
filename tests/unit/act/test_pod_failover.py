"""Pods are deleted only from a node that is really as bad as it was, only the very ones, and by force only if so decided."""

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from defib.act.outcome import ClaimRead, Done, Failed, Stale, Withheld
from defib.act.pod_failover import why_it_stays
from defib.kube.client import Deletion, Merge
from defib.kube.errors import Forbidden
from defib.kube.kinds import CLAIMS, NODES, PODS
from defib.model.action import MovePod, ReadClaim, ReportRemediation, SetFinalizers
from defib.model.mandate import Mandate
from defib.model.meta import Meta
from defib.model.node import Condition, Node, NodeSpec, NodeStatus, Taint
from defib.simulate.faults import Fault, LoseAnswer, Refuse
from defib.simulate.virtual_time import START
from tests.unit.act.fenced import Scene, fence
from tests.unit.act.stage import FOO, FOOS, PLACE, Stage, play

change = msgspec.structs.replace


def put_pod(stage: Stage, name: str = "web-1", **spec: Any) -> MovePod:
    pod_spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}], "terminationGracePeriodSeconds": 25}
    whole = {"metadata": {"name": name, "namespace": "default"}, "spec": pod_spec | spec}
    stage.server.put("pods", whole)
    return MovePod(
        node="n1",
        node_uid=stage.uid("nodes", "n1"),
        namespace="default",
        name=name,
        uid=stage.uid("pods", f"default/{name}"),
        because="PodFailoverPolicy default/web",
        since=START,
    )


def pod(stage: Stage, name: str = "web-1") -> Any:
    stored = stage.server.store.get("pods", f"default/{name}")
    return stored.object if stored else None


def test_the_node_is_read_live_and_the_pod_keeps_its_own_grace() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.do(put_pod(stage)) == Done()
        assert stage.asked() == ["get nodes 200", "delete pods 200"]
        assert pod(stage)["metadata"]["deletionGracePeriodSeconds"] == 25

    play(scenario)


def test_seconds_that_somebody_asks_for_are_given() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.do(change(put_pod(stage), grace_seconds=7)) == Done()
        assert pod(stage)["metadata"]["deletionGracePeriodSeconds"] == 7

    play(scenario)


def test_by_force_it_is_gone_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        with capture_logs() as told:
            assert await stage.do(change(put_pod(stage), grace_seconds=0)) == Done()
        assert pod(stage) is None
        (line,) = [line for line in told if line["event"] == "pod leaves its failed node"]
        assert (line["pod"], line["node"], line["forced"]) == ("default/web-1", "n1", True)
        assert line["because"] == "PodFailoverPolicy default/web"

    play(scenario)


def test_one_that_is_leaving_already_is_gone_when_it_is_forced() -> None:
    async def scenario(stage: Stage) -> None:
        move = put_pod(stage)
        assert await stage.do(move) == Done()
        assert await stage.do(change(move, grace_seconds=0)) == Done()
        assert pod(stage) is None

    play(scenario)


@pytest.mark.parametrize("grace", [None, 7, 0])
def test_a_node_that_is_ready_again_keeps_its_pods(grace: int | None) -> None:
    async def scenario(stage: Stage) -> None:
        move = change(put_pod(stage), grace_seconds=grace)
        await stage.turn("True")
        assert await stage.do(move) == Stale("node n1 is ready again")
        assert "deletionTimestamp" not in pod(stage)["metadata"]

    play(scenario)


def a_node(ready: str, *taints: Taint, uid: str = "u") -> Node:
    status = NodeStatus(conditions=[Condition(type="Ready", status=ready)] if ready else None)
    return Node(metadata=Meta(name="n1", uid=uid), spec=NodeSpec(taints=list(taints)), status=status)


HARSH, MILD = Taint(key="a", effect="NoSchedule"), Taint(key="a", effect="PreferNoSchedule")
MOVE = MovePod(node="n1", node_uid="u", namespace="x", name="p", uid="pod", because="a policy", since=START)


@pytest.mark.parametrize(
    ("node", "action", "why"),
    [
        (None, MOVE, "node n1 is gone"),
        (a_node("Unknown", uid="other"), MOVE, "node n1 is another one now"),
        (a_node("False"), MOVE, ""),
        (a_node(""), MOVE, ""),
        (a_node("False"), change(MOVE, grace_seconds=0), ""),
        (a_node("True"), MOVE, "node n1 is ready again"),
        (a_node("True", HARSH), MOVE, "node n1 is ready again"),
        (a_node("True", HARSH), change(MOVE, taints=("b",)), "node n1 has lost its taint"),
        (a_node("True", HARSH), change(MOVE, taints=("b", "a")), ""),
        (a_node("True", HARSH), change(MOVE, taints=("*",), grace_seconds=5), ""),
        (a_node("True", MILD), change(MOVE, taints=("a",)), "node n1 has lost its taint"),
        (
            a_node("Unknown", HARSH),
            change(MOVE, taints=("a",)),
            "node n1 is not ready any more, which is another matter",
        ),
    ],
)
def test_a_pod_stays_unless_its_node_is_as_bad_as_it_was(node: Node | None, action: MovePod, why: str) -> None:
    assert why_it_stays(node, action) == why


def test_a_pod_leaves_a_node_that_is_alive_only_while_it_has_the_taint() -> None:
    async def scenario(stage: Stage) -> None:
        move = change(put_pod(stage), taints=("example.com/maintenance",))
        await stage.turn("True")
        assert await stage.do(move) == Stale("node n1 has lost its taint")
        taint = [{"key": "example.com/maintenance", "effect": "NoSchedule"}]
        await stage.world.patch(NODES.at("n1"), Merge({"spec": {"taints": taint}}))
        assert await stage.do(move) == Done()
        assert pod(stage)["metadata"]["deletionGracePeriodSeconds"] == 25
        await stage.turn("Unknown")
        assert await stage.do(move) == Stale("node n1 is not ready any more, which is another matter")

    play(scenario)


def put_claim(stage: Stage, *modes: str) -> ReadClaim:
    spec = {"accessModes": list(modes), "resources": {"requests": {"storage": "1Gi"}}}
    stage.server.put(str(CLAIMS), {"metadata": {"name": "data", "namespace": "default"}, "spec": spec})
    return ReadClaim("default", "data")


def test_a_claim_is_read_live_and_its_modes_are_told() -> None:
    async def scenario(stage: Stage) -> None:
        ask = put_claim(stage, "ReadWriteMany", "ReadOnlyMany")
        assert await stage.do(ask) == ClaimRead(frozenset({"ReadWriteMany", "ReadOnlyMany"}))
        assert stage.asked() == ["get persistentvolumeclaims 200"]

    play(scenario)


def test_a_claim_that_says_nothing_is_shared_by_nobody() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.do(put_claim(stage)) == ClaimRead(frozenset())

    play(scenario)


def test_that_a_claim_is_not_there_is_no_answer_for_it_may_be_made_any_moment() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.do(ReadClaim("default", "data")) == Failed("there is no PersistentVolumeClaim default/data")

    play(scenario)


def test_a_claim_that_cannot_be_read_is_a_failure_and_not_an_answer() -> None:
    async def scenario(stage: Stage) -> None:
        ask = put_claim(stage, "ReadWriteMany")
        stage.fault(Fault(effect=Refuse(code=403), verbs=("get",), resource=str(CLAIMS)))
        with pytest.raises(Forbidden):
            await stage.do(ask)

    play(scenario)


def test_reading_a_claim_is_no_deed_so_the_brake_does_not_stop_it() -> None:
    async def scenario(stage: Stage) -> None:
        stage.stop = lambda: "the brake is on"
        assert await stage.do(put_claim(stage, "ReadWriteMany")) == ClaimRead(frozenset({"ReadWriteMany"}))

    play(scenario)


def test_another_node_of_that_name_keeps_its_pods() -> None:
    async def scenario(stage: Stage) -> None:
        move = put_pod(stage)
        await stage.remove_node("n1")
        assert await stage.do(move) == Stale("node n1 is gone")
        stage.add_node("n1")
        assert await stage.do(move) == Stale("node n1 is another one now")
        assert "delete pods 200" not in stage.asked()

    play(scenario)


def test_the_brake_and_the_end_of_the_mandate_stop_it_after_the_look_at_the_node() -> None:
    async def scenario(stage: Stage) -> None:
        move = put_pod(stage)
        stage.stop = lambda: "the brake is on"
        assert await stage.do(move) == Withheld("the brake is on")
        stage.stop = str
        ended = Mandate("old", ends=stage.clock.monotonic())
        assert await stage.do(move, ended) == Withheld("our mandate has ended")
        assert stage.asked() == ["get nodes 200"] * 2

    play(scenario)


def test_a_pod_that_is_gone_or_replaced_by_a_namesake_is_done() -> None:
    async def scenario(stage: Stage) -> None:
        move = put_pod(stage)
        stage.server.store.remove("pods", pod(stage))
        assert await stage.do(move) == Done()
        put_pod(stage)
        assert await stage.do(move) == Done()
        assert stage.asked()[1::2] == ["delete pods 404", "delete pods 409"]
        assert "deletionTimestamp" not in pod(stage)["metadata"]

    play(scenario)


def test_a_lost_answer_is_no_second_deletion() -> None:
    async def scenario(stage: Stage) -> None:
        move = put_pod(stage)
        stage.fault(Fault(effect=LoseAnswer(), verbs=("delete",), times=1))
        executor = stage.executor()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(executor.run())
            await asyncio.sleep(0)
            for _ in range(4):
                executor.carry_out([move], Mandate("test"))
                await asyncio.sleep(1)  # virtual
            running.cancel()
        assert pod(stage)["metadata"]["deletionGracePeriodSeconds"] == 25
        assert stage.ended[-1] == (move, Done())

    play(scenario)


def test_a_refusal_is_raised_for_the_executor_to_remember() -> None:
    async def scenario(stage: Stage) -> None:
        move = put_pod(stage)
        stage.fault(Fault(effect=Refuse(code=403), verbs=("delete",), resource=str(PODS)))
        with pytest.raises(Forbidden):
            await stage.do(move)

    play(scenario)


def test_the_executor_starts_no_deletion_while_it_is_stopped() -> None:
    async def scenario(stage: Stage) -> None:
        stage.stop = lambda: "the brake is on"
        executor = stage.executor()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(executor.run())
            await asyncio.sleep(0)
            executor.carry_out([put_pod(stage)], Mandate("test"))
            assert executor.underway == ()
            running.cancel()

    play(scenario)


def finalizers(stage: Stage) -> Any:
    return stage.foos()[0]["metadata"].get("finalizers")


def test_a_finalizer_is_set_on_the_version_that_was_judged_and_shown_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo()
        version = stage.foos()[0]["metadata"]["resourceVersion"]
        hold = SetFinalizers(target=target, version=version, finalizers=("example.com/x",))
        assert isinstance(await stage.do(hold), Done)
        assert finalizers(stage) == ["example.com/x"]
        assert [name for name, _ in stage.noted] == [str(FOOS)]
        assert await stage.do(hold) == Stale(f"{target} is newer than what was judged")

    play(scenario)


def test_without_its_last_finalizer_a_deleted_remediation_is_gone_and_not_shown_again() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo(finalizers=["example.com/x"])
        await stage.world.delete(FOOS.at(target.name, PLACE), Deletion(uid=target.uid))
        version = stage.foos()[0]["metadata"]["resourceVersion"]
        free = SetFinalizers(target=target, version=version, finalizers=())
        assert isinstance(await stage.do(free), Done)
        assert stage.foos() == []
        assert stage.noted == []
        assert await stage.do(free) == Stale(f"{target} is gone")

    play(scenario)


def test_a_report_goes_into_the_status_of_the_version_that_was_judged() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo()
        version = stage.foos()[0]["metadata"]["resourceVersion"]
        report = ReportRemediation(target=target, version=version, status={"found": 2, "moved": None})
        assert isinstance(await stage.do(report), Done)
        assert stage.foos()[0]["status"] == {"found": 2}
        assert stage.asked() == ["patch fooremediations/status 200"]
        assert await stage.do(report) == Stale(f"{target} is newer than what was judged")

    play(scenario)


def test_a_report_on_an_incident_is_noted_as_one_of_ours() -> None:
    """It is followed as such: otherwise the next pass would judge, and write to, what it was before."""

    async def story(scene: Scene) -> None:
        version = scene.record().metadata.resource_version
        report = ReportRemediation(target=scene.incident, version=version, status={"phase": "Closed"})
        assert isinstance(await scene.do(report), Done)
        ((_, noted),) = scene.stage.noted
        assert noted == scene.record()

    fence(story)


def test_a_namesake_is_neither_held_nor_reported_on() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo()
        old = stage.foos()[0]
        stage.server.store.remove(str(FOOS), old)
        stage.put_foo()
        hold = SetFinalizers(target=target, version=old["metadata"]["resourceVersion"], finalizers=("example.com/x",))
        assert await stage.do(hold) == Stale(f"{target} is newer than what was judged")
        assert finalizers(stage) is None
        assert (target.kind, target.namespace) == (FOO, PLACE)

    play(scenario)
