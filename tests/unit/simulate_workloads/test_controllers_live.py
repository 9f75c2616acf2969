"""The controllers as a whole: they repeat themselves exactly, survive their own crash, and need the API server."""

import asyncio

from defib.simulate.virtual_time import VirtualClock, run
from defib.simulate.workloads import WorkloadTimers
from tests.unit.simulate_workloads.stage import (
    CLASSES,
    DAEMON_SETS,
    DEPLOYMENTS,
    PODS,
    STATEFUL_SETS,
    a_class,
    a_pod,
    a_stateful_set_with_disks,
    a_workload,
    node_of,
)
from tests.unit.simulate_workloads.virtual import VirtualStage, play


def test_the_same_seed_gives_the_same_history() -> None:
    histories: list[list[tuple[str, str, str, str]]] = []

    async def story(stage: VirtualStage) -> None:
        for name in ("n1", "n2", "n3"):
            await stage.add_node(name)
        await stage.make(CLASSES, a_class())
        await stage.make(DEPLOYMENTS, a_workload("web", 4))
        await stage.make(STATEFUL_SETS, a_stateful_set_with_disks("db", 2))
        await stage.make(DAEMON_SETS, a_workload("logs", None))
        await stage.rest(10)
        await stage.lose_node("n1")
        await stage.taint("n1", {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})
        await stage.pass_time(400)
        histories.append([(str(a.time), a.client, a.verb, a.path) for a in stage.server.audit])

    for seed in (3, 3, 4):
        play(story, seed=seed)
    assert histories[0] == histories[1]
    assert histories[0] != histories[2], "names of pods come from the seed"


def test_while_the_api_server_is_away_nothing_happens_and_afterwards_everything() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.pass_time(1)
        stage.server.partition("replicaset-controller")
        await stage.make(DEPLOYMENTS, a_workload("web", 2))
        await stage.pass_time(60)
        assert not await stage.pods()
        stage.server.heal("replicaset-controller")
        await stage.pass_time(2)
        assert len(await stage.pods()) == 2

    play(story)


def test_controllers_that_crash_look_at_everything_when_they_are_back() -> None:
    async def main(clock: VirtualClock) -> None:
        stage = VirtualStage(clock, WorkloadTimers())
        async with asyncio.TaskGroup() as group:
            first = group.create_task(stage.workloads.run())
            await stage.add_node("n1")
            await stage.pass_time(1)
            first.cancel()
            await stage.pass_time(1)
            await stage.make(DEPLOYMENTS, a_workload("web", 2))
            await stage.make(PODS, a_pod("p"))
            await stage.pass_time(60)
            assert list(await stage.pods()) == ["p"]
            second = group.create_task(stage.workloads.run())
            await stage.pass_time(1)
            assert [node_of(pod) for pod in (await stage.pods()).values()] == ["n1", "n1", "n1"]
            second.cancel()

    run(main)


def test_what_the_api_server_refuses_is_tried_again() -> None:
    async def story(stage: VirtualStage) -> None:
        await stage.add_node("n1")
        await stage.make(PODS, a_pod("db-0"))
        await stage.make(STATEFUL_SETS, a_workload("db", 1, serviceName="db"))
        await stage.pass_time(60)
        stranger = (await stage.pods())["db-0"]
        assert not stranger.metadata.owner_references
        await stage.delete(PODS, "db-0", grace_seconds=0)
        await stage.pass_time(70)
        assert (await stage.pods())["db-0"].metadata.owner_references

    play(story)
