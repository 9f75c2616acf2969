"""What each step does to a pod that does not leave its node, and that it never hits another one."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from defib.act.drains import end_before, rung_of
from defib.act.outcome import Done, Stale
from defib.kube.client import Merge
from defib.kube.errors import Forbidden, Invalid, ServerFailed
from defib.kube.kinds import PODS
from defib.model.drain_action import DropDrain, OpenDrain
from defib.model.meta import Meta
from defib.model.node_drain import Phase, Rung
from defib.model.pod import Pod, PodSpec, PodStatus
from defib.simulate.faults import Fault, Refuse
from tests.unit.act.drained import DRAINS, HOLD, OTHER, Scene, drain
from tests.unit.act.stage import US

change = msgspec.structs.replace
Happening = Callable[[Scene], Awaitable[None]]

each_rung = pytest.mark.parametrize("rung", list(Rung))
LOOKS = ["get pods 200", "get nodedrains 200", "get leases 200", "get nodes 200"]
SENT = {
    Rung.EVICT: "create pods/eviction 201",
    Rung.DELETE: "delete pods 200",
    Rung.KILL: "delete pods 200",
    Rung.FORCE: "delete pods 200",
    Rung.FINALIZERS: "patch pods 200",
}


@each_rung
def test_pod_record_lock_and_node_are_read_live_right_before_each_step(rung: Rung) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)
        assert rung_of(step) is rung
        assert await scene.do(step) == Done()
        assert scene.stage.asked() == [*LOOKS, SENT[rung]]

    drain(story)


@each_rung
def test_each_step_is_told_in_one_line(rung: Rung) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)
        with capture_logs() as told:
            await scene.do(step)
        (line,) = told
        assert line["event"] == "pod is made to leave"
        assert (line["pod"], line["node"], line["rung"]) == ("default/web-1", "n1", rung.value)
        assert line["because"] == "the drain takes too long"

    drain(story)


def test_an_eviction_and_a_deletion_leave_the_pod_its_own_grace() -> None:
    async def story(scene: Scene) -> None:
        await scene.do(await scene.evict("a"))
        await scene.do(await scene.delete("b", terminationGracePeriodSeconds=25))
        assert scene.pod("a")["metadata"]["deletionGracePeriodSeconds"] == 30
        assert scene.pod("b")["metadata"]["deletionGracePeriodSeconds"] == 25

    drain(story)


def test_dk_11_a_stuck_pod_is_killed_by_its_kubelet_and_then_deleted_without_it_past_its_budget() -> None:
    async def story(scene: Scene) -> None:
        await scene.add_budget()
        kill = await scene.kill()
        assert await scene.do(kill) == Done()
        assert scene.pod()["metadata"]["deletionGracePeriodSeconds"] == 1
        await scene.write_down(kill.pod, Rung.FORCE)
        assert await scene.do(change(kill, grace_seconds=0)) == Done()
        assert scene.pod() is None

    drain(story)


@pytest.mark.parametrize("rung", [Rung.EVICT, Rung.DELETE])
def test_dk_11_one_that_is_leaving_is_neither_evicted_nor_deleted_again(rung: Rung) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)
        await scene.let_pod_leave()
        assert await scene.do(step) == Done()
        assert scene.writes() == []

    drain(story)


@pytest.mark.parametrize("seconds", [1, 0])
def test_what_was_told_already_is_not_told_again(seconds: int) -> None:
    async def story(scene: Scene) -> None:
        kill = await scene.kill(seconds, HOLD)
        assert await scene.do(kill) == Done()
        assert await scene.do(kill) == Done()
        assert scene.writes() == ["delete pods 200"]

    drain(story)


def test_dk_12_only_what_may_go_is_taken_from_a_pod_that_is_leaving() -> None:
    async def story(scene: Scene) -> None:
        free = await scene.free(HOLD, OTHER)
        assert await scene.do(free) == Done()
        assert scene.pod()["metadata"]["finalizers"] == [OTHER]
        assert await scene.do(free) == Done(), "it has lost that one"
        assert scene.writes() == ["patch pods 200"]

    drain(story)


def test_dk_12_finalizers_of_a_pod_that_runs_are_never_touched() -> None:
    async def story(scene: Scene) -> None:
        assert await scene.do(await scene.free(HOLD, leaves=False)) == Stale("pod default/web-1 is not terminating")
        assert scene.pod()["metadata"]["finalizers"] == [HOLD]

    drain(story)


@pytest.mark.parametrize("reading", ["", "nodes"], ids=["before we look", "after we looked"])
def test_dk_12_a_pod_that_has_changed_since_it_was_judged_keeps_its_finalizers(reading: str) -> None:
    async def story(scene: Scene) -> None:
        free = await scene.free(HOLD)

        async def changes() -> None:
            await scene.show("web-1", "Running")
            await scene.stage.world.patch(PODS.at("web-1", "default"), Merge({"metadata": {"labels": {"new": "yes"}}}))

        if reading:
            assert await scene.meanwhile(free, reading, changes) == Stale("pod default/web-1 has changed in between")
        else:
            await changes()
            assert await scene.do(free) == Stale("pod default/web-1 is newer than what was judged")
        assert scene.pod()["metadata"]["finalizers"] == [HOLD]

    drain(story)


def test_a_finalizer_that_somebody_adds_while_the_pod_still_runs_is_kept() -> None:
    """The deletion goes to the pod with its new finalizer, which then holds it: nothing is taken that was not judged."""

    async def story(scene: Scene) -> None:
        delete = await scene.delete()

        async def adds() -> None:
            await scene.stage.world.patch(PODS.at("web-1", "default"), Merge({"metadata": {"finalizers": [OTHER]}}))

        assert await scene.meanwhile(delete, "nodes", adds) == Done()
        assert scene.pod()["metadata"]["finalizers"] == [OTHER]

    drain(story)


@each_rung
@pytest.mark.parametrize("reading", ["", "nodes"], ids=["before we look", "after we looked"])
def test_dk_18_a_pod_that_is_gone_is_a_success(rung: Rung, reading: str) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)
        with capture_logs() as told:
            await _happens(scene, step, reading, _vanishes)
        assert scene.pod() is None
        assert told == [], "that was not us"

    drain(story)


@each_rung
@pytest.mark.parametrize("reading", ["", "pods", "nodes"], ids=["before we look", "while we look", "after we looked"])
def test_a_namesake_that_came_instead_is_never_touched(rung: Rung, reading: str) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)

        async def replaced(scene: Scene) -> None:
            await _vanishes(scene)
            await scene.add_pod("web-1", HOLD)
            scene.entries = [scene.pod()]

        await _happens(scene, step, reading, replaced)
        assert [scene.pod()] == scene.entries, "it is as it came"

    drain(story)


async def _vanishes(scene: Scene) -> None:
    await scene.stage.world.patch(PODS.at("web-1", "default"), Merge({"metadata": {"finalizers": None}}))
    if scene.pod() is not None:
        await scene.remove_pod()


async def _happens(scene: Scene, step: Any, reading: str, happening: Happening) -> None:
    if not reading:
        await happening(scene)
        assert await scene.do(step) == Done()
    else:
        assert await scene.meanwhile(step, reading, lambda: happening(scene)) == Done()


@pytest.mark.parametrize("rung", [Rung.EVICT, Rung.DELETE])
def test_one_that_leaves_by_itself_after_we_looked_keeps_its_time(rung: Rung) -> None:
    async def story(scene: Scene) -> None:
        step = await scene.step(rung)

        async def leaves() -> None:
            await scene.remove(PODS.at("web-1", "default"), grace_seconds=300)

        assert await scene.meanwhile(step, "nodes", leaves) == Done()
        assert scene.pod()["metadata"]["deletionGracePeriodSeconds"] == 300

    drain(story)


def test_a_refusal_is_raised_for_the_executor_to_remember() -> None:
    async def story(scene: Scene) -> None:
        evict, delete = await scene.evict("a"), await scene.delete("b")
        refusals: list[tuple[int, type[Exception]]] = [
            (403, Forbidden),
            (422, Invalid),
            (500, ServerFailed),
        ]
        for code, error in refusals:
            scene.stage.fault(Fault(effect=Refuse(code=code), verbs=("create", "delete"), client=US, times=2))
            for step in (evict, delete):
                with pytest.raises(error):
                    await scene.do(step)

    drain(story)


STEP_POD = Meta(name="web-1", namespace="default", uid="u")


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (Pod(metadata=STEP_POD, spec=PodSpec(node_name="n2")), "pod default/web-1 is not on node n1"),
        (Pod(metadata=STEP_POD), "pod default/web-1 is not on node n1"),
        (
            Pod(metadata=STEP_POD, spec=PodSpec(node_name="n1"), status=PodStatus(phase="Succeeded")),
            "pod default/web-1 has finished",
        ),
    ],
)
def test_a_pod_that_is_elsewhere_or_has_finished_is_no_matter_of_the_drain(pod: Pod, why: str) -> None:
    async def story(scene: Scene) -> None:
        for rung in Rung:
            step = await scene.step(rung)
            assert end_before(pod, step) == Stale(why)
            await _vanishes(scene)

    drain(story)


def test_one_that_finished_while_it_was_leaving_is_still_stuck() -> None:
    async def story(scene: Scene) -> None:
        force = await scene.kill(0)
        await scene.show("web-1", "Failed")
        assert await scene.do(force) == Done()
        assert scene.pod() is None

    drain(story)


def test_a_record_is_opened_once_and_shown_at_once() -> None:
    async def story(scene: Scene) -> None:
        action = OpenDrain(node="n2", body={"metadata": {"name": "n2"}})
        assert isinstance(await scene.do(action), Done)
        assert [(kind, item.name) for kind, item in scene.stage.noted] == [(str(DRAINS), "n2")]
        assert await scene.do(action) == Stale("there is a record of a drain of node n2 already")

    drain(story)


def test_a_record_is_dropped_only_as_it_was_judged_and_one_that_is_gone_is_done() -> None:
    async def story(scene: Scene) -> None:
        old = (await scene.stage.world.get(DRAINS.at("n1"))).metadata.resource_version
        await scene.note(phase=Phase.DRAINED.value)
        new = (await scene.stage.world.get(DRAINS.at("n1"))).metadata.resource_version
        drop = DropDrain(node="n1", drain=scene.drain, version=old)
        assert await scene.do(drop) == Stale("NodeDrain n1 is newer than what was judged, or another one")
        assert await scene.do(change(drop, version=new)) == Done()
        assert scene.stage.objects(str(DRAINS)) == []
        assert await scene.do(drop) == Done()

    drain(story)


def test_another_record_of_that_name_is_not_dropped() -> None:
    async def story(scene: Scene) -> None:
        await scene.replace_record()
        version = (await scene.stage.world.get(DRAINS.at("n1"))).metadata.resource_version
        drop = DropDrain(node="n1", drain=scene.drain, version=version)
        assert await scene.do(drop) == Stale("NodeDrain n1 is newer than what was judged, or another one")

    drain(story)
