"""StatefulSets: stable names and claims, an order, and never two pods of one name."""

from tests.unit.simulate_workloads.stage import (
    CLAIMS,
    CLASSES,
    PODS,
    STATEFUL_SETS,
    a_class,
    a_stateful_set_with_disks,
    a_workload,
    node_of,
    ready,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play

PARALLEL = "Parallel"


async def two_nodes(stage: VirtualStage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)


async def all_ready(stage: VirtualStage, number: int) -> bool:
    pods = await stage.pods()
    return len(pods) == number and all(ready(pod) for pod in pods.values())


def test_pods_start_in_order_each_after_its_predecessor_is_ready() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        stage.dead |= {"n1", "n2"}
        await stage.make(STATEFUL_SETS, a_workload("db", 3, serviceName="db"))
        for number in range(3):
            await stage.pass_time(60)
            assert list(await stage.pods()) == [f"db-{one}" for one in range(number + 1)]
            stage.dead.clear()
            await stage.play()
            stage.dead |= {"n1", "n2"}

    play(story)


def test_in_parallel_all_start_at_once() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        await stage.make(STATEFUL_SETS, a_workload("db", 3, serviceName="db", podManagementPolicy=PARALLEL))
        await stage.pass_time(1)
        assert list(await stage.pods()) == ["db-0", "db-1", "db-2"]

    play(story)


def test_a_pod_that_is_being_deleted_keeps_its_name_for_ever() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        await stage.make(STATEFUL_SETS, a_workload("db", 2, serviceName="db", podManagementPolicy=PARALLEL))
        await stage.until(lambda: all_ready(stage, 2))
        before = (await stage.pods())["db-1"]
        stage.dead.add(node_of(before))
        await stage.delete(PODS, "db-1")
        await stage.pass_time(7200)
        assert (await stage.pods())["db-1"].uid == before.uid
        await stage.delete(PODS, "db-1", grace_seconds=0)
        await stage.pass_time(1)
        assert (await stage.pods())["db-1"].uid != before.uid

    play(story)


def test_in_order_a_pod_that_is_being_deleted_holds_up_all_behind_it() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        await stage.make(STATEFUL_SETS, a_workload("db", 2, serviceName="db"))
        await stage.until(lambda: all_ready(stage, 2))
        stage.dead |= {"n1", "n2"}
        await stage.delete(PODS, "db-0")
        await stage.delete(PODS, "db-1", grace_seconds=0)
        await stage.pass_time(600)
        assert list(await stage.pods()) == ["db-0"]

    play(story)


def test_a_failed_pod_is_deleted_and_made_again() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        await stage.make(STATEFUL_SETS, a_workload("db", 1, serviceName="db"))
        await stage.until(lambda: all_ready(stage, 1))
        before = (await stage.pods())["db-0"].uid
        await stage.change(PODS, "db-0", {"status": {"phase": "Failed"}}, "status")
        await stage.pass_time(1)
        await stage.until(lambda: all_ready(stage, 1))
        assert (await stage.pods())["db-0"].uid != before

    play(story)


def test_scaling_down_goes_from_the_highest_ordinal_one_at_a_time() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        await stage.make(STATEFUL_SETS, a_workload("db", 3, serviceName="db"))
        await stage.until(lambda: all_ready(stage, 3))
        stage.dead |= {"n1", "n2"}
        await stage.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
        await stage.pass_time(60)
        going = [pod.name for pod in (await stage.pods()).values() if pod.metadata.deletion_timestamp]
        assert going == ["db-2"]
        stage.dead.clear()
        await stage.until(lambda: all_ready(stage, 1))
        assert list(await stage.pods()) == ["db-0"]

    play(story)


def test_an_update_replaces_from_the_highest_ordinal_and_counts_revisions() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        await stage.make(STATEFUL_SETS, a_workload("db", 2, serviceName="db"))
        await stage.until(lambda: all_ready(stage, 2))
        old = {name: pod.uid for name, pod in (await stage.pods()).items()}
        container = {"name": "app", "image": "app:2"}
        await stage.change(STATEFUL_SETS, "db", {"spec": {"template": {"spec": {"containers": [container]}}}})
        await stage.pass_time(1)
        going = [pod.name for pod in (await stage.pods()).values() if pod.metadata.deletion_timestamp]
        assert going == ["db-1"]

        async def done() -> bool:
            pods = await stage.pods()
            return len(pods) == 2 and all(ready(p) and p.uid != old[name] for name, p in pods.items())

        await stage.until(done)
        await stage.rest()
        status = (await stage.get(STATEFUL_SETS, "db")).status or {}
        assert status["currentRevision"] == status["updateRevision"]
        assert (status["readyReplicas"], status["currentReplicas"], status["updatedReplicas"]) == (2, 2, 2)

    play(story)


def test_each_ordinal_gets_its_own_claim_and_finds_it_again() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        await stage.make(CLASSES, a_class())
        await stage.make(STATEFUL_SETS, a_stateful_set_with_disks("db", 2))
        await stage.until(lambda: all_ready(stage, 2))
        claims = {claim.name: claim.uid for claim in await stage.all(CLAIMS)}
        assert sorted(claims) == ["data-db-0", "data-db-1"]
        before = (await stage.pods())["db-1"].uid
        await stage.delete(PODS, "db-1")
        await stage.until(lambda: all_ready(stage, 2))
        pod = (await stage.pods())["db-1"]
        assert pod.uid != before
        assert (pod.spec or {})["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-1"
        assert {claim.name: claim.uid for claim in await stage.all(CLAIMS)} == claims

    play(story)


def test_a_pod_knows_its_name_its_place_and_its_owner() -> None:
    async def story(stage: VirtualStage) -> None:
        await two_nodes(stage)
        owner = await stage.make(STATEFUL_SETS, a_workload("db", 1, serviceName="peers"))
        await stage.pass_time(1)
        (pod,) = (await stage.pods()).values()
        assert pod.labels["statefulset.kubernetes.io/pod-name"] == "db-0"
        assert pod.labels["apps.kubernetes.io/pod-index"] == "0"
        assert ((pod.spec or {})["hostname"], (pod.spec or {})["subdomain"]) == ("db-0", "peers")
        assert [(o.uid, o.controller) for o in pod.metadata.owner_references or ()] == [(owner.uid, True)]

    play(story)
