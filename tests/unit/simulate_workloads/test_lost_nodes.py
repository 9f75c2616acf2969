"""What becomes of pods when their node is lost: taints send them away, and garbage collection ends those that hang."""

from tests.unit.simulate_workloads.stage import (
    DEPLOYMENTS,
    NODES,
    OUT_OF_SERVICE,
    PODS,
    STATEFUL_SETS,
    a_pod,
    a_workload,
    node_of,
    ready,
    says,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play

UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
REPAIR = {"key": "example.com/repair", "effect": "NoExecute"}


def patient(seconds: int | None) -> list[dict[str, object]]:
    toleration: dict[str, object] = {"key": "example.com/repair", "operator": "Exists", "effect": "NoExecute"}
    return [toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}]


async def running(stage: VirtualStage, *names: str) -> None:
    async def all_ready() -> bool:
        pods = await stage.pods()
        return all(name in pods and ready(pods[name]) for name in names)

    await stage.until(all_ready)


async def going(stage: VirtualStage, name: str) -> bool:
    return bool((await stage.pods())[name].metadata.deletion_timestamp)


def test_a_pod_that_does_not_tolerate_a_taint_goes_at_once_and_says_why() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("p"))
        await running(stage, "p")
        await stage.taint("n1", REPAIR)
        await stage.pass_time(0.1)
        pod = (await stage.pods())["p"]
        assert pod.metadata.deletion_timestamp
        assert says(pod, "DisruptionTarget")["reason"] == "DeletionByTaintManager"

    play(story)


def test_a_pod_goes_when_its_toleration_is_over_and_not_before() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("p", tolerations=patient(30)))
        await running(stage, "p")
        await stage.taint("n1", REPAIR)
        await stage.pass_time(29.9)
        assert not await going(stage, "p")
        await stage.pass_time(0.3)
        assert await going(stage, "p")

    play(story)


def test_a_pod_stays_when_the_taint_goes_in_time_or_is_tolerated_for_ever() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("short", tolerations=patient(30)))
        await stage.make(PODS, a_pod("long", tolerations=patient(None)))
        await running(stage, "short", "long")
        await stage.taint("n1", REPAIR)
        await stage.pass_time(20)
        await stage.taint("n1")
        await stage.pass_time(20)
        await stage.taint("n1", REPAIR)
        await stage.pass_time(20)
        assert not await going(stage, "short"), "its time began anew with the new taint"
        await stage.pass_time(3600)
        assert await going(stage, "short")
        assert not await going(stage, "long")

    play(story)


def test_a_deployment_leaves_an_unreachable_node_after_five_minutes() -> None:
    async def story(stage: VirtualStage) -> None:
        for name in ("n1", "n2"):
            await stage.add_node(name)
        await stage.make(DEPLOYMENTS, a_workload("web", 2))
        await stage.rest()
        await stage.lose_node("n1")
        await stage.taint("n1", UNREACHABLE)
        await stage.pass_time(299)
        assert len(await stage.pods()) == 2
        await stage.pass_time(2)
        await stage.rest()
        pods = (await stage.pods()).values()
        assert sorted((node_of(p), bool(p.metadata.deletion_timestamp)) for p in pods) == [
            ("n1", True),
            ("n2", False),
            ("n2", False),
        ]

    play(story)


def test_pods_on_a_lost_node_are_not_ready_any_more() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("p"))
        await running(stage, "p")
        await stage.lose_node("n1")
        await stage.pass_time(1)
        assert says((await stage.pods())["p"], "Ready")["status"] == "False"

    play(story)


def test_out_of_service_ends_pods_on_a_node_that_is_not_ready() -> None:
    async def story(stage: VirtualStage) -> None:
        for name in ("n1", "n2"):
            await stage.add_node(name)
        await stage.make(STATEFUL_SETS, a_workload("db", 1, serviceName="db"))
        await running(stage, "db-0")
        before = (await stage.pods())["db-0"]
        await stage.lose_node(node_of(before))
        await stage.taint(node_of(before), OUT_OF_SERVICE)
        await stage.pass_time(21)
        await running(stage, "db-0")
        after = (await stage.pods())["db-0"]
        assert after.uid != before.uid
        assert node_of(after) != node_of(before)

    play(story)


def test_out_of_service_ends_no_pod_while_its_node_says_that_it_is_ready() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("p"))
        await running(stage, "p")
        stage.dead.add("n1")
        await stage.taint("n1", OUT_OF_SERVICE)
        await stage.pass_time(600)
        assert await going(stage, "p")

    play(story)


def test_without_the_taint_a_pod_that_is_being_deleted_on_a_lost_node_stays() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("p"))
        await running(stage, "p")
        await stage.lose_node("n1")
        await stage.delete(PODS, "p")
        await stage.pass_time(7200)
        assert await going(stage, "p")

    play(story)


def test_pods_of_a_deleted_node_go_after_the_quarantine() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("p"))
        await running(stage, "p")
        stage.dead.add("n1")
        await stage.delete(NODES, "n1")
        await stage.pass_time(39)
        assert "p" in await stage.pods()
        await stage.pass_time(42)
        assert "p" not in await stage.pods()

    play(story)


def test_pods_of_a_node_that_comes_back_in_time_stay() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("p"))
        await running(stage, "p")
        await stage.delete(NODES, "n1")
        await stage.pass_time(30)
        await stage.add_node("n1")
        await stage.pass_time(600)
        assert "p" in await stage.pods()

    play(story)
