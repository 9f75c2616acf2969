"""Volumes and pods on their own, while workloads are freed: whoever dies on the way, and whatever is refused."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from defib.decide.fencing.case import ATTACHMENTS_KEPT
from defib.kube.kinds import PODS
from defib.model.incident import Phase
from defib.simulate.faults import Fault, Refuse
from defib.simulate.virtual_time import VirtualClock, run
from testbed.scenario.manifests import manifest_of
from testbed.scenario.story import Access, NewName, StatefulSetWithVolume
from tests.mortal_operator import Doom
from tests.power_cycle_crash import WORKLOADS, Disturbance, Plot, begin, end, play, served
from tests.power_cycle_stage import SHOP, VICTIM, WAYS, Stage, a_stage

pytestmark = pytest.mark.timeout(60)

ATTACHMENTS = "volumeattachments.storage.k8s.io"
DELETING = Plot(way="hollow", workloads="DeleteNode", fault="is cut off")


def on_stage(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock) as stage:
            await story(stage)

    run(main, limit=timedelta(hours=4))


def timeline(stage: Stage) -> list[dict[str, Any]]:
    return list((stage.incident or {})["status"].get("timeline", ()))


@pytest.mark.parametrize("after", [False, True])
def test_who_dies_while_a_volume_is_detached_leaves_it_to_the_next(after: bool) -> None:
    told = play(DELETING, Disturbance(words="DELETE /apis/storage.k8s.io/v1/volumeattachments/", after=after))
    assert (told.was_struck, told.left) == (True, [])


def test_where_we_may_not_detach_it_is_told_and_the_machine_comes_back_in_time() -> None:
    async def story(stage: Stage) -> None:
        refuse = Fault(effect=Refuse(code=403), verbs=("delete",), resource=ATTACHMENTS, client="defib")
        stage.server.faults.inject(refuse)
        stage.fail("hangs")
        await stage.until(lambda: False, stage.pace.down_seconds)
        await stage.order(WAYS["hollow"], "DeleteNode", timeouts={"free": "8s"})
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "VolumesNotDetached", 60)
            assert stage.phase == Phase.FREEING
            assert not stage.machines[VICTIM].is_on
            assert await stage.until(lambda: stage.machines[VICTIM].is_on, 12)
            assert await end(stage) == []
        assert stage.leftovers() == []
        assert "the time is up" in [entry["message"] for entry in timeline(stage)]

    on_stage(story)


@pytest.mark.parametrize("workloads", WORKLOADS)
@pytest.mark.parametrize("way", ["hollow", "manual"])
@pytest.mark.parametrize("words", ["", "/pods/solo/status", f"DELETE /api/v1/namespaces/{SHOP}/pods/solo"])
def test_a_pod_on_its_own_is_named_once_whoever_dies(way: str, workloads: str, words: str) -> None:
    """Where a person is the proof, its pods are not in sight before."""
    plot = Plot(way=way, workloads=workloads, fault="hangs")

    async def story(stage: Stage) -> None:
        containers = [{"name": "main", "image": "registry.example.com/app:1"}]
        body = {"metadata": {"name": "solo"}, "spec": {"nodeName": VICTIM, "containers": containers}}
        await stage.person.create(PODS, body, namespace=SHOP)
        await begin(stage, plot)
        async with served(stage, plot):
            async with stage.operator(Doom(words=words, after=True)) as life:
                await stage.until(lambda: life.is_dead or stage.is_over)
            async with stage.operator():
                assert await end(stage) == []
        assert life.was_struck == bool(words)
        assert stage.leftovers() == []
        assert stage.one("pods", "solo") is None
        named = [entry["message"] for entry in timeline(stage) if f"{SHOP}/solo" in entry["message"]]
        assert len(named) == 1

    on_stage(story)


def moments(stage: Stage) -> dict[str, datetime]:
    """When it came into each phase."""
    return {entry["phase"]: datetime.fromisoformat(entry["at"]) for entry in timeline(stage)}


def test_a_volume_that_kubernetes_leaves_there_is_detached_after_a_while() -> None:
    """Somebody else attached it, so the controller of Kubernetes does not know it."""

    async def story(stage: Stage) -> None:
        spec = {"attacher": "other.example.com", "nodeName": VICTIM, "source": {"persistentVolumeName": "pv-other"}}
        stage.server.put(ATTACHMENTS, {"metadata": {"name": "other"}, "spec": spec, "status": {"attached": True}})
        await begin(stage, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs"))
        async with stage.operator() as life:
            assert await end(stage) == []
        assert stage.leftovers() == []
        assert stage.one(ATTACHMENTS, "other") is None
        assert len([deed for deed in life.deeds if "/volumeattachments/" in deed]) == 1, "the rest is theirs to detach"
        took = moments(stage)[Phase.POWERING_ON] - moments(stage)[Phase.FREEING]
        assert ATTACHMENTS_KEPT <= took < ATTACHMENTS_KEPT + timedelta(seconds=2)

    on_stage(story)


def test_who_goes_back_to_a_machine_that_is_down_is_not_waited_for() -> None:
    """Neither is its volume, which is attached there again."""

    async def story(stage: Stage) -> None:
        made = manifest_of(StatefulSetWithVolume(name=NewName("stubborn"), replicas=1, access=Access.RWO))
        stays = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": VICTIM}}
        made.body["spec"]["template"]["spec"] |= stays
        await stage.person.create(made.kind, made.body, namespace=SHOP)
        assert await stage.until(lambda: stage.ready_on("stubborn-0") == VICTIM, 60)
        before = stage.one("pods", "stubborn-0")
        await begin(stage, Plot(way="hollow", workloads="OutOfServiceTaint", fault="is cut off"))
        async with stage.operator():
            assert await end(stage) == []
        took = moments(stage)[Phase.POWERING_ON] - moments(stage)[Phase.FREEING]
        assert took < ATTACHMENTS_KEPT + timedelta(seconds=5)
        assert "its workloads are free" in [entry["message"] for entry in timeline(stage)]
        assert await stage.until(lambda: stage.ready_on("stubborn-0") == VICTIM, 120)
        after = stage.one("pods", "stubborn-0")
        assert before is not None
        assert after is not None
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        left = datetime.fromisoformat(after["metadata"]["creationTimestamp"]) - moments(stage)[Phase.FREEING]
        assert left < timedelta(seconds=2), "API servers count whole seconds: who comes in the very same one goes again"
        assert stage.leftovers() == []

    on_stage(story)
