"""Ending and marking remediations, clearing annotations, status and Event objects: each only if the world still fits."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from defib.act.apply import apply
from defib.act.outcome import Done, Failed, Stale, Withheld
from defib.kube.client import Deletion, Merge
from defib.kube.errors import Forbidden, Invalid, Unreachable
from defib.kube.kinds import NODES
from defib.model import medik8s
from defib.model.action import ClearNodeAnnotation, EndRemediation, MarkRemediation, TellEvent, WriteStatus
from defib.model.health_check import NodeHealthCheck
from defib.model.mandate import Mandate
from defib.simulate.faults import Fault, LoseAnswer, LoseRequest, Refuse, Slow
from defib.simulate.virtual_time import START
from tests.unit.act.stage import CHECKS, FOOS, PLACE, Stage, a_crd, play

APPROVED = "defib.dev/approved-until"
SECOND = timedelta(seconds=1)


async def a_recovered_one(stage: Stage, **meta: Any) -> EndRemediation:
    target = stage.put_foo(**meta)
    await stage.turn("True")
    return stage.end(target)


def test_a_remediation_is_ended_by_two_requests() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.do(await a_recovered_one(stage)) == Done()
        assert stage.foos() == []
        assert stage.asked() == ["get nodes 200", "delete fooremediations 200"]

    play(scenario)


async def a_judged_one(stage: Stage) -> EndRemediation:
    """By its check as it is now."""
    check = await stage.world.create(CHECKS, {"metadata": {"name": "c1"}, "spec": {"minHealthy": 1}})
    return msgspec.structs.replace(await a_recovered_one(stage), generation=check.metadata.generation)


def test_many_remediations_that_end_at_once_ask_for_their_check_together() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_judged_one(stage)
        ends = [action, *(msgspec.structs.replace(action, target=stage.put_foo(f"f{number}")) for number in range(9))]
        means = stage.means()
        async with asyncio.TaskGroup() as group:
            for one in ends:
                group.create_task(apply(means, one, Mandate("test")))
        assert stage.foos() == []
        assert stage.asked().count("get nodehealthchecks 200") == 1
        assert stage.asked().count("get nodes 200") == len(ends)

    play(scenario)


def test_a_remediation_whose_check_was_edited_since_is_judged_anew() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_judged_one(stage)
        await stage.world.patch(CHECKS.at("c1"), Merge({"spec": {"minHealthy": 2}}))
        assert await stage.do(action) == Stale("NodeHealthCheck c1 is newer than what was judged")
        assert len(stage.foos()) == 1

    play(scenario)


def test_a_remediation_whose_check_is_gone_is_left_to_whoever_collects_leftovers() -> None:
    async def scenario(stage: Stage) -> None:
        action = msgspec.structs.replace(await a_recovered_one(stage), generation=1)
        assert await stage.do(action) == Stale("NodeHealthCheck c1 is gone")
        assert len(stage.foos()) == 1

    play(scenario)


@pytest.mark.parametrize("ready", ["Unknown", "False"])
def test_a_remediation_of_a_node_that_is_ill_again_stays(ready: str) -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_recovered_one(stage)
        await stage.turn(ready)
        assert await stage.do(action) == Stale(f"Ready of node n1 is {ready} again")
        assert len(stage.foos()) == 1

    play(scenario)


def test_a_remediation_that_waits_for_nothing_ends_though_the_node_is_ill() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.do(stage.end(stage.put_foo(), unless=())) == Done()
        assert stage.foos() == []

    play(scenario)


def test_a_node_that_vanished_after_its_recovery_is_judged_anew() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_recovered_one(stage)
        await stage.remove_node("n1")
        assert await stage.do(action) == Stale("node n1 is gone")
        assert len(stage.foos()) == 1

    play(scenario)


def test_a_remediation_of_a_node_that_is_gone_ends() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo()
        await stage.remove_node("n1")
        assert await stage.do(stage.end(target, node_is_gone=True)) == Done()
        assert stage.foos() == []

    play(scenario)


def test_a_remediation_of_a_node_that_is_there_after_all_stays() -> None:
    async def scenario(stage: Stage) -> None:
        outcome = await stage.do(stage.end(stage.put_foo(), node_is_gone=True))
        assert outcome == Stale("node n1 is there again")
        assert len(stage.foos()) == 1

    play(scenario)


def test_a_remediation_that_is_gone_needs_no_end() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_recovered_one(stage)
        assert await stage.do(action) == Done()
        assert await stage.do(action) == Done()

    play(scenario)


def test_a_namesake_of_an_ended_remediation_stays() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_recovered_one(stage)
        await stage.world.delete(FOOS.at("n1", PLACE), Deletion(uid=action.target.uid))
        stage.put_foo()
        assert await stage.do(action) == Done()
        assert len(stage.foos()) == 1

    play(scenario)


def test_a_remediation_that_its_remediator_still_holds_is_only_marked() -> None:
    async def scenario(stage: Stage) -> None:
        assert await stage.do(await a_recovered_one(stage, finalizers=["example.com/busy"])) == Done()
        assert stage.foos()[0]["metadata"]["deletionTimestamp"]

    play(scenario)


def test_a_remediation_is_not_ended_when_the_mandate_ended_during_the_live_look() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_recovered_one(stage)
        stage.fault(Fault(effect=Slow(seconds=8), resource="nodes", verbs=("get",)))
        assert await stage.do(action, Mandate("short", ends=5.0)) == Withheld("our mandate has ended")
        assert len(stage.foos()) == 1

    play(scenario)


def test_a_deletion_without_an_answer_is_a_failure_and_the_next_try_ends_well() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_recovered_one(stage)
        stage.fault(Fault(effect=LoseAnswer(), verbs=("delete",), times=1))
        with pytest.raises(Unreachable):
            await stage.do(action)
        assert await stage.do(action) == Done()

    play(scenario)


def test_a_remediation_of_another_scope_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        action = await a_recovered_one(stage)
        elsewhere = stage.end(target=type(action.target)(kind=action.target.kind, namespace="", name="n1", uid="u"))
        assert await stage.do(elsewhere) == Stale("FooRemediation (example.com/v1) has another scope now")

    play(scenario)


def test_marks_are_set_and_taken_away_and_noted() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo(annotations={medik8s.NODE_NAME: "n1", "old": "x", "foreign": "y"})
        action = MarkRemediation(node="n1", target=target, annotations={medik8s.TIMED_OUT: "now", "old": None})
        outcome = await stage.do(action)
        assert isinstance(outcome, Done)
        assert outcome.result is not None
        assert outcome.result.annotations == {medik8s.NODE_NAME: "n1", "foreign": "y", medik8s.TIMED_OUT: "now"}
        assert stage.noted == [(str(FOOS), outcome.result)]
        assert stage.asked() == ["patch fooremediations 200"]

    play(scenario)


def test_a_remediation_that_is_gone_or_another_is_not_marked() -> None:
    async def scenario(stage: Stage) -> None:
        target = stage.put_foo()
        action = MarkRemediation(node="n1", target=target, annotations={"mark": "x"})
        await stage.world.delete(FOOS.at("n1", PLACE), Deletion(uid=target.uid))
        assert await stage.do(action) == Stale("FooRemediation remedies/n1 is gone")
        stage.put_foo()
        assert await stage.do(action) == Stale("FooRemediation remedies/n1 is another one now")
        assert "mark" not in stage.foos()[0]["metadata"]["annotations"]

    play(scenario)


def test_a_mark_that_breaks_a_rule_is_a_failure() -> None:
    async def scenario(stage: Stage) -> None:
        action = MarkRemediation(node="n1", target=stage.put_foo(), annotations={"not a key": "x"})
        with pytest.raises(Invalid):
            await stage.do(action)

    play(scenario)


async def approve(stage: Stage, value: str) -> ClearNodeAnnotation:
    await stage.world.patch(NODES.at("n1"), Merge({"metadata": {"annotations": {APPROVED: value, "other": "stays"}}}))
    return ClearNodeAnnotation(node="n1", node_uid=stage.uid("nodes", "n1"), annotation=APPROVED, value=value)


def test_an_annotation_that_is_settled_is_cleared_and_noted() -> None:
    async def scenario(stage: Stage) -> None:
        outcome = await stage.do(await approve(stage, "noon"))
        assert isinstance(outcome, Done)
        assert outcome.result is not None
        assert outcome.result.annotations == {"other": "stays"}
        assert stage.noted == [("nodes", outcome.result)]
        assert stage.asked() == ["patch nodes 200"]

    play(scenario)


def test_an_annotation_that_says_something_else_now_stays() -> None:
    async def scenario(stage: Stage) -> None:
        action = await approve(stage, "noon")
        newer = await approve(stage, "midnight")
        assert await stage.do(action) == Stale(f"{APPROVED} of node n1 no longer says noon")
        assert isinstance(await stage.do(newer), Done)
        assert isinstance(await stage.do(newer), Stale)

    play(scenario)


def test_an_annotation_of_another_node_of_that_name_stays() -> None:
    async def scenario(stage: Stage) -> None:
        action = await approve(stage, "noon")
        await stage.remove_node("n1")
        assert await stage.do(action) == Stale("node n1 is gone")
        stage.add_node("n1")
        await approve(stage, "noon")
        assert isinstance(await stage.do(action), Stale)
        assert (await stage.world.get(NODES.at("n1"))).annotations[APPROVED] == "noon"

    play(scenario)


def test_a_node_that_breaks_a_rule_is_a_failure_and_not_stale() -> None:
    async def scenario(stage: Stage) -> None:
        action = await approve(stage, "noon")
        stage.fault(Fault(effect=Refuse(code=400, reason="BadRequest"), verbs=("patch",), resource="nodes"))
        with pytest.raises(Invalid):
            await stage.do(action)
        stage.server.faults.clear()
        stored = stage.server.store.get("nodes", "n1")
        assert stored is not None
        meta = {**stored.object["metadata"], "labels": {"not a key": "x"}}
        stage.server.store.put("nodes", {**stored.object, "metadata": meta})
        with pytest.raises(Invalid, match="not a key"):
            await stage.do(action)

    play(scenario)


def a_status(stage: Stage, **status: Any) -> WriteStatus:
    stored = stage.server.store.get(str(CHECKS), "c1")
    if stored is None:
        stored = stage.server.put(str(CHECKS), {"metadata": {"name": "c1"}, "spec": {"selector": {}}})
    meta = stored.object["metadata"]
    return WriteStatus(check="c1", uid=meta["uid"], version=meta["resourceVersion"], status=status)


def test_a_status_is_merged_and_noted() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.do(a_status(stage, phase="Enabled", reason="fine"))
        outcome = await stage.do(a_status(stage, phase="Remediating", reason=None, lastUpdateTime=START))
        assert isinstance(outcome, Done)
        assert isinstance(outcome.result, NodeHealthCheck)
        assert outcome.result.status == {"phase": "Remediating", "lastUpdateTime": "2030-01-01T00:00:00Z"}
        assert outcome.result.spec == {"selector": {}}
        assert stage.noted[-1] == (medik8s.CHECKS, outcome.result)
        assert stage.asked() == ["patch nodehealthchecks/status 200"] * 2

    play(scenario)


def test_a_status_that_the_cluster_does_not_keep_is_a_failure_that_says_what_to_do() -> None:
    async def scenario(stage: Stage) -> None:
        name = {"properties": {"name": {"type": "string"}}, "type": "object"}
        kept = {"phase": {"type": "string"}, "unhealthyNodes": {"type": "array", "items": name}}
        crd = a_crd(CHECKS)
        shape = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        shape["status"] = {"type": "object", "properties": kept}
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": shape}
        stage.server.store.put("customresourcedefinitions.apiextensions.k8s.io", crd)
        nodes = [{"name": "n1", "reason": "Waiting"}, {"name": "n2", "reason": "Waiting"}]
        assert await stage.do(
            a_status(stage, phase="Enabled", unhealthyNodes=nodes, history=[], reason=None)
        ) == Failed(
            "the cluster's NodeHealthCheck CRD drops what we write "
            "(fields status.unhealthyNodes.reason, status.history); apply deploy/crds"
        )
        assert stage.noted[-1][0] == medik8s.CHECKS
        assert isinstance(await stage.do(a_status(stage, phase="Disabled", unhealthyNodes=None, history=None)), Done)

    play(scenario)


def test_a_status_of_an_older_version_is_not_written() -> None:
    async def scenario(stage: Stage) -> None:
        action = a_status(stage, phase="Enabled")
        await stage.world.patch(CHECKS.at("c1"), Merge({"spec": {"selector": {"matchLabels": {"a": "b"}}}}))
        assert await stage.do(action) == Stale("NodeHealthCheck c1 is newer than what was judged")
        assert "status" not in stage.objects(str(CHECKS))[0]

    play(scenario)


def test_a_status_of_a_check_that_is_gone_is_not_written() -> None:
    async def scenario(stage: Stage) -> None:
        action = a_status(stage, phase="Enabled")
        await stage.world.delete(CHECKS.at("c1"), Deletion(uid=action.uid))
        assert await stage.do(action) == Stale("NodeHealthCheck c1 is gone")
        await stage.world.create(CHECKS, {"metadata": {"name": "c1"}})
        assert isinstance(await stage.do(action), Stale)

    play(scenario)


def test_a_status_whose_answer_was_lost_is_known_to_be_written() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.do(a_status(stage, phase="Enabled", reason="fine"))
        action = a_status(stage, phase="Paused", reason=None, lastUpdateTime=START, nested={"a": [1], "b": None})
        stage.fault(Fault(effect=LoseAnswer(), subresource="status", times=1))
        outcome = await stage.do(action)
        assert isinstance(outcome, Done)
        assert isinstance(outcome.result, NodeHealthCheck)
        assert outcome.result.status["phase"] == "Paused"
        assert stage.noted[-1] == (medik8s.CHECKS, outcome.result)

    play(scenario)


def test_a_status_that_was_lost_on_the_way_is_a_failure() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.do(a_status(stage, phase="Enabled", reason="fine"))
        stage.fault(Fault(effect=LoseRequest(), subresource="status"))
        for changes in ({"phase": "Paused"}, {"reason": None}, {"nested": {"a": 1}}, {"phase": {"a": 1}}):
            with pytest.raises(Unreachable):
                await stage.do(a_status(stage, **changes))
        action = a_status(stage, phase="Enabled")
        await stage.world.delete(CHECKS.at("c1"), Deletion(uid=action.uid))
        with pytest.raises(Unreachable):
            await stage.do(action)

    play(scenario)


def test_a_status_that_we_may_not_write_is_a_failure() -> None:
    async def scenario(stage: Stage) -> None:
        stage.fault(Fault(effect=Refuse(code=403), subresource="status"))
        with pytest.raises(Forbidden):
            await stage.do(a_status(stage, phase="Enabled"))

    play(scenario)


def news(**changes: Any) -> TellEvent:
    told: dict[str, Any] = {
        "check": "c1",
        "uid": "u1",
        "is_warning": False,
        "reason": "DetectedUnhealthy",
        "message": "Node n1 is unhealthy",
        "at": START,
    }
    return TellEvent(**told | changes)


def events(stage: Stage) -> list[Any]:
    return stage.objects("events")


def test_an_event_says_what_upstream_says() -> None:
    async def scenario(stage: Stage) -> None:
        assert isinstance(await stage.do(news()), Done)
        (event,) = events(stage)
        meta = event.pop("metadata")
        assert meta["namespace"] == "default"
        assert meta["name"].startswith("c1.")
        assert event == {
            "involvedObject": {
                "apiVersion": "remediation.medik8s.io/v1alpha1",
                "kind": "NodeHealthCheck",
                "name": "c1",
                "uid": "u1",
            },
            "type": "Normal",
            "reason": "DetectedUnhealthy",
            "message": "[remediation] Node n1 is unhealthy",
            "source": {"component": "NodeHealthCheck"},
            "reportingComponent": "NodeHealthCheck",
            "firstTimestamp": "2030-01-01T00:00:00Z",
            "lastTimestamp": "2030-01-01T00:00:00Z",
            "count": 1,
        }

    play(scenario)


def test_a_warning_is_one() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.do(news(is_warning=True))
        assert events(stage)[0]["type"] == "Warning"

    play(scenario)


def test_the_same_news_at_the_same_moment_is_one_event_and_all_else_is_another() -> None:
    async def scenario(stage: Stage) -> None:
        assert isinstance(await stage.do(news()), Done)
        assert await stage.do(news()) == Done()
        await stage.do(news(at=START + SECOND))
        await stage.do(news(reason="RemediationCreated"))
        await stage.do(news(message="Node n2 is unhealthy"))
        await stage.do(news(check="c2"))
        assert len(events(stage)) == 5

    play(scenario)


@pytest.mark.parametrize("effect", [LoseAnswer(), LoseRequest()])
def test_an_event_may_be_told_again_after_a_lost_answer(effect: LoseAnswer | LoseRequest) -> None:
    async def scenario(stage: Stage) -> None:
        stage.fault(Fault(effect=effect, resource="events", times=1))
        with pytest.raises(Unreachable):
            await stage.do(news())
        assert isinstance(await stage.do(news()), Done)
        assert len(events(stage)) == 1

    play(scenario)


@pytest.mark.parametrize("letter", ["x", "é", "漢"])
def test_a_long_message_is_cut_where_a_letter_ends(letter: str) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.do(news(message=letter * 5000))
        message = events(stage)[0]["message"]
        assert 1020 < len(message.encode()) <= 1024
        assert set(message.removeprefix("[remediation] ")) == {letter}

    play(scenario)


@pytest.mark.parametrize("name", ["c" * 253, "c" * 235 + "." + "d" * 17, "c" * 235 + "-" + "d" * 17])
def test_a_long_name_of_a_check_still_makes_a_good_name(name: str) -> None:
    async def scenario(stage: Stage) -> None:
        assert isinstance(await stage.do(news(check=name)), Done)
        assert len(events(stage)[0]["metadata"]["name"]) <= 253

    play(scenario)
