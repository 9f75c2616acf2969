"""DaemonSets run on every node that takes them; Jobs run to their end."""

from tests.unit.simulate_workloads.stage import (
    DAEMON_SETS,
    JOBS,
    NODES,
    OUT_OF_SERVICE,
    PODS,
    a_pod_spec,
    a_workload,
    node_of,
    ready,
    says,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play

UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
GPU = {"key": "example.com/gpu", "effect": "NoSchedule"}
TRACKING = "batch.kubernetes.io/job-tracking"


async def two_nodes_with_daemons(stage: VirtualStage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.make(DAEMON_SETS, a_workload("logs", None))
    await stage.until(lambda: daemons_on(stage, "n1", "n2"))


async def daemons_on(stage: VirtualStage, *nodes: str) -> bool:
    pods = [pod for pod in (await stage.pods()).values() if ready(pod) and not pod.metadata.deletion_timestamp]
    return sorted(node_of(pod) for pod in pods) == sorted(nodes)


async def fail_on(stage: VirtualStage, node: str) -> str:
    """The daemon of a node fails; its name."""
    (failing,) = [name for name, pod in (await stage.pods()).items() if node_of(pod) == node]
    await stage.change(PODS, failing, {"status": {"phase": "Failed"}}, "status")
    await stage.pass_time(0.2)
    return failing


def a_job(name: str, **spec: object) -> dict[str, object]:
    template = {"spec": {**a_pod_spec(), "restartPolicy": "Never"}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


async def end(stage: VirtualStage, name: str, phase: str) -> None:
    await stage.change(PODS, name, {"status": {"phase": phase}}, "status")
    await stage.pass_time(1)


def test_a_new_node_gets_its_daemon() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_daemons(stage)
        await stage.add_node("n3")
        await stage.until(lambda: daemons_on(stage, "n1", "n2", "n3"))
        await stage.rest()
        status = (await stage.get(DAEMON_SETS, "logs")).status or {}
        assert (status["desiredNumberScheduled"], status["numberReady"], status["numberAvailable"]) == (3, 3, 3)

    play(story)


def test_a_daemon_goes_where_a_cordon_keeps_others_away_but_not_where_a_taint_does() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_daemons(stage)
        await stage.add_node("tainted")
        await stage.taint("tainted", GPU)
        await stage.add_node("cordoned")
        await stage.change(NODES, "cordoned", {"spec": {"unschedulable": True}})
        await stage.until(lambda: daemons_on(stage, "cordoned", "n1", "n2"))
        await stage.rest()
        assert await daemons_on(stage, "cordoned", "n1", "n2")

    play(story)


def test_a_daemon_stays_on_an_unreachable_node() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_daemons(stage)
        await stage.lose_node("n1")
        await stage.taint("n1", UNREACHABLE)
        await stage.pass_time(3600)
        assert not any(pod.metadata.deletion_timestamp for pod in (await stage.pods()).values())

    play(story)


def test_a_daemon_leaves_a_node_out_of_service_and_comes_back_with_it() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_daemons(stage)
        await stage.lose_node("n1")
        await stage.taint("n1", OUT_OF_SERVICE)
        await stage.pass_time(30)
        assert [node_of(pod) for pod in (await stage.pods()).values()] == ["n2"]
        await stage.taint("n1")
        await stage.set_ready("n1", "True")
        stage.dead.clear()
        await stage.until(lambda: daemons_on(stage, "n1", "n2"))

    play(story)


def test_a_failed_daemon_is_replaced_and_a_second_failure_waits() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_daemons(stage)
        first = await fail_on(stage, "n1")
        assert first not in await stage.pods(), "an ended pod goes without grace"
        second = await fail_on(stage, "n1")
        assert second in await stage.pods()
        await stage.pass_time(1)
        assert second not in await stage.pods()

    play(story)


def test_an_update_of_a_daemon_set_replaces_one_at_a_time() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes_with_daemons(stage)
        old = set(await stage.pods())
        container = {"name": "app", "image": "app:2"}
        await stage.change(DAEMON_SETS, "logs", {"spec": {"template": {"spec": {"containers": [container]}}}})
        await stage.pass_time(1)
        assert sum(bool(pod.metadata.deletion_timestamp) for pod in (await stage.pods()).values()) == 1

        async def done() -> bool:
            return not old & set(await stage.pods()) and await daemons_on(stage, "n1", "n2")

        await stage.until(done)

    play(story)


def test_a_job_is_complete_when_enough_pods_succeeded() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(JOBS, a_job("batch", completions=3, parallelism=2))
        for number in range(3):
            await stage.pass_time(1)
            living = [p.name for p in (await stage.pods()).values() if (p.status or {}).get("phase") == "Pending"]
            assert len(living) == min(2, 3 - number)
            await end(stage, living[0], "Succeeded")
        job = await stage.get(JOBS, "batch")
        assert says(job, "Complete")["status"] == "True"
        assert (job.status or {})["succeeded"] == 3
        assert "active" not in (job.status or {})

    play(story)


def test_a_failed_pod_of_a_job_is_replaced_after_a_pause_until_the_limit() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(JOBS, a_job("batch", backoffLimit=1))
        await stage.pass_time(1)
        (first,) = await stage.pods()
        await end(stage, first, "Failed")
        await stage.pass_time(7)
        assert len(await stage.pods()) == 1
        await stage.pass_time(5)
        (second,) = set(await stage.pods()) - {first}
        await end(stage, second, "Failed")
        assert says(await stage.get(JOBS, "batch"), "Failed")["reason"] == "BackoffLimitExceeded"

    play(story)


def test_a_pod_of_a_job_holds_a_finalizer_until_it_is_counted() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(JOBS, a_job("batch"))
        await stage.pass_time(1)
        (pod,) = (await stage.pods()).values()
        assert pod.metadata.finalizers == [TRACKING]
        await stage.delete(PODS, pod.name, grace_seconds=0)
        await stage.pass_time(1)
        assert pod.name not in await stage.pods()
        assert ((await stage.get(JOBS, "batch")).status or {})["failed"] == 1

    play(story)


def test_a_deleted_job_leaves_no_pod_behind() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(JOBS, a_job("batch"))
        await stage.pass_time(1)
        await stage.delete(JOBS, "batch")
        await stage.rest()
        assert not await stage.pods()

    play(story)
