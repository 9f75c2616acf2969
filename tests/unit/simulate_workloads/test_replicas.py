"""ReplicaSets and Deployments keep as many pods as wished for, and change from one template to the next."""

from collections import Counter

from tests.unit.simulate_workloads.stage import (
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    a_workload,
    node_of,
    ready,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play


async def three_nodes(stage: VirtualStage) -> None:
    for name in ("n1", "n2", "n3"):
        await stage.add_node(name)


async def all_ready(stage: VirtualStage, number: int) -> bool:
    pods = await stage.pods()
    return len(pods) == number and all(ready(pod) for pod in pods.values())


def test_a_deployment_runs_its_pods_spread_over_the_nodes() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("web", 6))
        await stage.until(lambda: all_ready(stage, 6))
        pods = await stage.pods()
        assert Counter(node_of(pod) for pod in pods.values()) == {"n1": 2, "n2": 2, "n3": 2}

    play(story)


def test_pods_are_owned_by_the_replica_set_and_that_by_the_deployment() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        deployment = await stage.make(DEPLOYMENTS, a_workload("web", 1))
        await stage.until(lambda: all_ready(stage, 1))
        replica_set = (await stage.all(REPLICA_SETS))[0]
        pod = (await stage.all(PODS))[0]
        for item, owner in ((replica_set, deployment), (pod, replica_set)):
            reference = (item.metadata.owner_references or [])[0]
            assert (reference.uid, reference.controller) == (owner.uid, True)
        assert pod.labels["pod-template-hash"] == replica_set.labels["pod-template-hash"]
        assert pod.name.startswith(f"{replica_set.name}-")

    play(story)


def test_every_controller_writes_under_its_own_name() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("web", 1))
        await stage.until(lambda: all_ready(stage, 1))
        assert stage.writers() == {"person", "deployment-controller", "replicaset-controller", "kube-scheduler"}

    play(story)


def test_status_counts_what_is_there_and_what_is_ready() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("web", 3))
        await stage.pass_time(1)
        status = (await stage.get(DEPLOYMENTS, "web")).status or {}
        assert (status["replicas"], status["unavailableReplicas"]) == (3, 3)
        await stage.until(lambda: all_ready(stage, 3))
        await stage.rest()
        status = (await stage.get(DEPLOYMENTS, "web")).status or {}
        assert (status["readyReplicas"], status["availableReplicas"], status["updatedReplicas"]) == (3, 3, 3)
        assert "unavailableReplicas" not in status
        assert {c["type"]: c["status"] for c in status["conditions"]} == {"Available": "True", "Progressing": "True"}

    play(story)


def test_scaling_down_takes_pods_that_are_not_ready_first() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("web", 3))
        await stage.until(lambda: all_ready(stage, 3))
        await stage.lose_node("n2")
        await stage.pass_time(1)
        lost = next(pod.name for pod in (await stage.pods()).values() if node_of(pod) == "n2")
        await stage.change(DEPLOYMENTS, "web", {"spec": {"replicas": 2}})
        await stage.pass_time(1)
        going = [pod.name for pod in (await stage.pods()).values() if pod.metadata.deletion_timestamp]
        assert going == [lost]

    play(story)


def test_a_pod_that_ends_or_is_being_deleted_is_replaced_at_once() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("web", 2))
        await stage.until(lambda: all_ready(stage, 2))
        stage.dead |= {"n1", "n2", "n3"}
        first, second = sorted(await stage.pods())
        await stage.change(PODS, first, {"status": {"phase": "Failed"}}, "status")
        await stage.delete(PODS, second)
        await stage.pass_time(1)
        pods = await stage.pods()
        assert {first, second} < set(pods)
        assert len(pods) == 4

    play(story)


def test_a_rolling_update_ends_with_new_pods_only_and_never_has_too_few() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("web", 4))
        await stage.until(lambda: all_ready(stage, 4))
        old = set(await stage.pods())
        container = {"name": "app", "image": "app:2"}
        await stage.change(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": [container]}}}})

        async def done() -> bool:
            pods = await stage.pods()
            available = sum(ready(pod) and not pod.metadata.deletion_timestamp for pod in pods.values())
            assert available >= 3, "a quarter may be missing, no more"
            assert sum(not pod.metadata.deletion_timestamp for pod in pods.values()) <= 5, "a quarter may be too many"
            return not old & set(pods) and available == 4

        await stage.until(done, within=60)
        assert sorted((rs.spec or {})["replicas"] for rs in await stage.all(REPLICA_SETS)) == [0, 4]

    play(story)


def test_recreate_waits_until_the_last_old_pod_is_gone() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("db", 1, strategy={"type": "Recreate"}))
        await stage.until(lambda: all_ready(stage, 1))
        (old,) = await stage.pods()
        stage.dead |= {"n1", "n2", "n3"}
        container = {"name": "app", "image": "app:2"}
        await stage.change(DEPLOYMENTS, "db", {"spec": {"template": {"spec": {"containers": [container]}}}})
        await stage.pass_time(600)
        assert list(await stage.pods()) == [old], "it is being deleted, and nobody confirms that"
        await stage.delete(PODS, old, grace_seconds=0)
        await stage.pass_time(1)
        (new,) = await stage.pods()
        assert new != old

    play(story)


def test_pods_get_the_tolerations_that_admission_gives() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.make(DEPLOYMENTS, a_workload("web", 1))
        await stage.pass_time(1)
        (pod,) = (await stage.pods()).values()
        tolerated = {t["key"]: t["tolerationSeconds"] for t in (pod.spec or {})["tolerations"]}
        assert tolerated == {"node.kubernetes.io/not-ready": 300, "node.kubernetes.io/unreachable": 300}

    play(story)


def test_heartbeats_of_nodes_wake_nobody() -> None:
    async def story(stage: VirtualStage) -> None:
        await three_nodes(stage)
        await stage.pass_time(1)
        before = stage.server.store.revision
        beat = [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2030-01-01T00:00:09Z"}
        ]
        await stage.change(NODES, "n1", {"status": {"conditions": beat}}, "status")
        await stage.pass_time(100)
        assert stage.server.store.revision == before + 1

    play(story)
