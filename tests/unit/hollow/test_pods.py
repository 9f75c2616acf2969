"""What a hollow kubelet does with the pods that are bound to it."""

from typing import Any

import pytest

from defib.hollow.objects import PODS, Pod
from defib.kube.client import Merge
from defib.kube.errors import Conflict
from defib.simulate.faults import Fault, Refuse
from tests.unit.hollow.day import HEARD_SECONDS, TIMERS, Day, blueprints, live, pass_seconds


def conditions(pod: Pod | None) -> dict[str, str]:
    assert pod
    assert pod.status
    return {condition["type"]: condition["status"] for condition in pod.status["conditions"]}


def container(pod: Pod | None) -> dict[str, Any]:
    assert pod
    assert pod.status
    status: dict[str, Any] = pod.status["containerStatuses"][0]
    return status


def test_a_pod_that_is_bound_runs_and_is_ready() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1")
        await pass_seconds(HEARD_SECONDS)
        pod = await day.pod("web")
        assert pod
        assert pod.status
        assert pod.phase == "Running"
        assert set(conditions(pod).values()) == {"True"}
        assert {"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"} <= set(
            conditions(pod)
        )
        assert container(pod)["ready"]
        assert "running" in container(pod)["state"]
        assert pod.status["podIP"].startswith("10.128.")
        assert pod.status["hostIP"] == "10.0.0.0"
        assert pod.status["startTime"]

    live(story)


def test_a_pod_is_pending_while_it_starts() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1", annotations={"start-seconds": "30"})
        await pass_seconds(29)
        pod = await day.pod("web")
        assert (pod and pod.phase, conditions(pod)["Ready"]) == ("Pending", "False")
        assert container(pod)["state"]["waiting"]["reason"] == "ContainerCreating"
        await pass_seconds(3)
        assert await day.phase("web") == "Running"

    live(story)


def test_pods_of_one_node_have_addresses_of_their_own() -> None:
    async def story(day: Day) -> None:
        for number in range(5):
            await day.make_pod(f"web-{number}", "n1")
        await pass_seconds(HEARD_SECONDS)
        pods = [await day.pod(f"web-{number}") for number in range(5)]
        assert len({pod.status["podIP"] for pod in pods if pod and pod.status}) == 5

    live(story)


def test_a_pod_that_never_starts_says_why() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1", annotations={"never-starts": "true"})
        await pass_seconds(600)
        assert await day.phase("web") == "Pending"
        assert container(await day.pod("web"))["state"]["waiting"]["reason"] == "ImagePullBackOff"

    live(story)


def test_a_pod_that_never_gets_ready_runs_all_the_same() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1", annotations={"never-ready": "true"})
        await pass_seconds(60)
        assert await day.phase("web") == "Running"
        assert conditions(await day.pod("web"))["Ready"] == "False"

    live(story)


def test_a_deleted_pod_stops_within_its_grace_and_then_is_gone() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"stop-seconds": "10"})
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod)
        await pass_seconds(9)
        assert await day.phase("web") == "Running"
        assert day.nodes["n1"].containers() == {pod.uid: "stopping"}
        await pass_seconds(2)
        assert await day.phase("web") == "gone"
        assert day.nodes["n1"].containers() == {}

    live(story)


def test_a_pod_that_ignores_the_signal_is_killed_when_its_grace_ends() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"ignores-sigterm": "true"}, finalizers=["example.com/wait"])
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod, grace_seconds=20)
        await pass_seconds(19)
        assert await day.phase("web") == "Running"
        await pass_seconds(2)
        ended = container(await day.pod("web"))["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "Error")
        assert await day.phase("web") == "Failed"

    live(story)


def test_a_second_deletion_can_only_shorten_the_grace() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"ignores-sigterm": "true"})
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod, grace_seconds=600)
        await pass_seconds(10)
        await day.delete(pod, grace_seconds=5)
        await pass_seconds(7)
        assert await day.phase("web") == "gone"

    live(story)


def test_the_sleep_of_a_pre_stop_hook_counts_into_the_stop() -> None:
    async def story(day: Day) -> None:
        hook = {"lifecycle": {"preStop": {"sleep": {"seconds": 8}}}}
        pod = await day.make_pod("web", "n1", container=hook)
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod)
        await pass_seconds(7)
        assert await day.phase("web") == "Running"
        await pass_seconds(3)
        assert await day.phase("web") == "gone"

    live(story)


def test_a_pod_with_a_finalizer_stays_until_it_is_removed_and_is_confirmed_once() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", finalizers=["example.com/wait"])
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod)
        await pass_seconds(300)
        known = await day.pod("web")
        assert known
        assert (known.phase, known.metadata.deletion_grace_period_seconds) == ("Succeeded", 0)
        asked = [one for one in day.server.audit.writes("kubelet") if one.verb == "delete"]
        assert len(asked) == 1
        await day.person.patch(PODS.of(known), Merge({"metadata": {"finalizers": None}}))
        await pass_seconds(1)
        assert await day.phase("web") == "gone"

    live(story)


def test_a_pod_that_is_force_deleted_runs_on_for_its_own_grace_though_the_api_server_knows_it_no_more() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"ignores-sigterm": "true"})
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod, grace_seconds=0)
        await pass_seconds(29)
        assert await day.phase("web") == "gone"
        assert day.nodes["n1"].containers() == {pod.uid: "stopping"}
        await pass_seconds(2)
        assert day.nodes["n1"].containers() == {}

    live(story)


def test_even_who_is_given_no_grace_is_given_a_second() -> None:
    async def story(day: Day) -> None:
        stubborn = {"ignores-sigterm": "true"}
        pod = await day.make_pod("web", "n1", annotations=stubborn, finalizers=["example.com/wait"])
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod, grace_seconds=0)
        await pass_seconds(0.9)
        assert day.nodes["n1"].containers() == {pod.uid: "stopping"}
        await pass_seconds(0.2)
        assert day.nodes["n1"].containers() == {pod.uid: "stopped"}

    live(story)


def test_a_deleted_pod_that_never_started_is_gone_at_once() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"never-starts": "true"})
        await pass_seconds(HEARD_SECONDS)
        await day.delete(pod)
        await pass_seconds(1)
        assert await day.phase("web") == "gone"

    live(story)


def test_a_job_s_pod_succeeds_when_it_has_run_its_time() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("job", "n1", annotations={"run-seconds": "60"}, restartPolicy="Never")
        await pass_seconds(59)
        assert await day.phase("job") == "Running"
        await pass_seconds(5)
        assert await day.phase("job") == "Succeeded"
        assert container(await day.pod("job"))["state"]["terminated"]["exitCode"] == 0
        await pass_seconds(600)
        assert await day.phase("job") == "Succeeded"

    live(story)


def test_a_job_s_pod_can_fail() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("job", "n1", annotations={"run-seconds": "5", "exit-code": "3"}, restartPolicy="Never")
        await pass_seconds(10)
        assert await day.phase("job") == "Failed"
        assert container(await day.pod("job"))["state"]["terminated"]["exitCode"] == 3

    live(story)


def test_a_container_that_ends_is_restarted_with_growing_pauses() -> None:
    async def story(day: Day) -> None:
        await day.make_pod("web", "n1", annotations={"run-seconds": "1", "exit-code": "1"})
        await pass_seconds(5)
        waiting = container(await day.pod("web"))
        assert waiting["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert waiting["lastState"]["terminated"]["exitCode"] == 1
        assert await day.phase("web") == "Running"
        await pass_seconds(60)
        assert container(await day.pod("web"))["restartCount"] == 3
        await pass_seconds(3600)
        assert 10 <= container(await day.pod("web"))["restartCount"] <= 20

    live(story)


def test_a_pod_that_others_mark_failed_is_stopped_and_stays_failed() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1")
        await pass_seconds(HEARD_SECONDS)
        target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
        known = await day.pod("web")
        assert known
        assert known.status
        changed = {"phase": "Failed", "conditions": [*known.status["conditions"], target]}
        await day.person.patch(PODS.of(pod), Merge({"status": changed}), subresource="status")
        await pass_seconds(HEARD_SECONDS)
        after = await day.pod("web")
        assert day.nodes["n1"].containers() == {pod.uid: "stopped"}
        assert after
        assert after.phase == "Failed"
        assert conditions(after)["DisruptionTarget"] == "True"
        assert "terminated" in container(after)["state"]

    live(story)


def test_what_somebody_says_wrongly_about_a_pod_is_set_right() -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1")
        await pass_seconds(HEARD_SECONDS)
        wrong = {"conditions": [{"type": "Ready", "status": "False"}, {"type": "example.com/gate", "status": "True"}]}
        await day.person.patch(PODS.of(pod), Merge({"status": wrong}), subresource="status")
        await pass_seconds(HEARD_SECONDS)
        assert conditions(await day.pod("web"))["Ready"] == "True"
        assert conditions(await day.pod("web"))["example.com/gate"] == "True"

    live(story)


def test_what_others_say_at_the_same_moment_is_not_lost() -> None:
    async def story(day: Day) -> None:
        day.nodes["n1"].slow(5)
        pod = await day.make_pod("web", "n1")
        await pass_seconds(1)
        gate = {"conditions": [{"type": "example.com/gate", "status": "True"}]}
        await day.person.patch(PODS.of(pod), Merge({"status": gate}), subresource="status")
        await pass_seconds(30)
        assert conditions(await day.pod("web")).items() >= {"example.com/gate": "True", "Ready": "True"}.items()

    live(story)


def test_a_namesake_that_came_while_nobody_could_look_is_another_pod() -> None:
    async def story(day: Day) -> None:
        old = await day.make_pod("db-0", "n1")
        await pass_seconds(HEARD_SECONDS)
        day.server.partition("kubelet")
        await pass_seconds(5)
        await day.delete(old, grace_seconds=0)
        new = await day.make_pod("db-0", "n1")
        day.server.compact()
        day.server.heal("kubelet")
        await pass_seconds(60)
        assert day.nodes["n1"].containers() == {new.uid: "running"}
        assert await day.phase("db-0") == "Running"

    live(story)


def test_a_report_that_is_refused_is_repeated() -> None:
    async def story(day: Day) -> None:
        refuse = Refuse(code=500)
        day.server.faults.inject(Fault(effect=refuse, verbs=("patch",), resource="pods", client="kubelet", times=3))
        pod = await day.make_pod("web", "n1")
        await pass_seconds(10)
        assert await day.phase("web") == "Running"
        day.server.faults.inject(Fault(effect=refuse, verbs=("delete",), resource="pods", client="kubelet", times=3))
        await day.delete(pod)
        await pass_seconds(10)
        assert await day.phase("web") == "gone"

    live(story)


def test_a_report_that_was_refused_just_before_the_line_was_cut_is_repeated_when_it_is_back() -> None:
    """While it is cut there is nobody to report to: to try without a pause would let no time pass."""

    async def story(day: Day) -> None:
        day.server.faults.inject(Fault(effect=Refuse(code=500), verbs=("patch",), resource="pods", client="kubelet"))
        await day.make_pod("web", "n1")
        await pass_seconds(10)
        day.nodes["n1"].partition()
        await pass_seconds(60)
        day.server.faults.clear()
        day.nodes["n1"].heal()
        await pass_seconds(HEARD_SECONDS)
        assert await day.phase("web") == "Running"

    live(story)


def test_a_namesake_is_never_deleted_in_the_place_of_the_old_pod() -> None:
    async def story(day: Day) -> None:
        old = await day.make_pod("db-0", "n1", annotations={"stop-seconds": "20"})
        await pass_seconds(HEARD_SECONDS)
        await day.delete(old)
        await pass_seconds(5)
        await day.delete(old, grace_seconds=0)
        new = await day.make_pod("db-0", "n2")
        await pass_seconds(120)
        known = await day.pod("db-0")
        assert known
        assert (known.uid, known.phase) == (new.uid, "Running")
        with pytest.raises(Conflict):
            await day.delete(old)

    live(story)


def test_nothing_is_written_about_pods_in_which_nothing_changes() -> None:
    async def story(day: Day) -> None:
        for number in range(10):
            await day.make_pod(f"web-{number}", "n1")
        await pass_seconds(60)
        before = [one for one in day.server.audit.writes("kubelet") if "/pods/" in one.path]
        assert len(before) == 20, "one report when it is taken on, one when it runs"
        await pass_seconds(3600)
        assert len([one for one in day.server.audit.writes("kubelet") if "/pods/" in one.path]) == 20

    live(story)


def test_a_static_pod_is_mirrored_and_its_mirror_comes_back_while_its_container_runs_on() -> None:
    async def story(day: Day) -> None:
        await pass_seconds(HEARD_SECONDS)
        mirror = await day.pod("proxy-n1", "kube-system")
        assert mirror
        assert (mirror.phase, mirror.is_mirror) == ("Running", True)
        started = container(mirror)["state"]
        await pass_seconds(60)
        await day.delete(mirror)
        await pass_seconds(HEARD_SECONDS)
        again = await day.pod("proxy-n1", "kube-system")
        assert again
        assert again.uid != mirror.uid
        assert container(again)["state"] == started
        assert list(day.nodes["n1"].containers().values()) == ["running"]

    live(story, nodes=blueprints(static_pods=("proxy",)))


def test_one_watch_serves_all_nodes() -> None:
    async def story(day: Day) -> None:
        await pass_seconds(30)
        watches = [one for one in day.server.audit if one.client == "kubelet" and one.verb == "watch"]
        assert sorted({one.path for one in watches}) == sorted(one.path for one in watches)
        assert sum(one.path == "/api/v1/pods" for one in watches) == 1

    live(story)


@pytest.mark.parametrize("hostile", ["", "-1", "1e9", "nan", "inf", "ten", "٣", "1.2.3"])
def test_an_annotation_that_is_no_number_is_as_good_as_none(hostile: str) -> None:
    async def story(day: Day) -> None:
        pod = await day.make_pod("web", "n1", annotations={"start-seconds": hostile, "stop-seconds": hostile})
        await pass_seconds(TIMERS.start_seconds + 1)
        assert await day.phase("web") == "Running"
        await day.delete(pod)
        await pass_seconds(TIMERS.stop_seconds + 1)
        assert await day.phase("web") == "gone"

    live(story)
