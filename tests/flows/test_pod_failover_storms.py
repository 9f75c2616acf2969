"""EV-16: many nodes fail at once. Pods of as many nodes as are allowed leave, the rest is held and explained; when more
than half of all nodes are not ready, or their heartbeats stop, it is not the nodes, and nothing is deleted at all.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from defib.kube.kinds import LEASES
from defib.model import medik8s
from testbed.scenario.hollow_cluster import alongside
from tests.failover_stage import Running, Stage, play
from tests.mortal_operator import Doom

NODES, BUDGET = 45, 2
ALL = [f"n{number}" for number in range(1, NODES + 1)]
FAILED = ALL[:20]

Undo = Callable[[], Awaitable[None]]
Prepare = Callable[[Stage], Awaitable[dict[str, Any]]]


async def by_setting(stage: Stage) -> dict[str, Any]:  # noqa: ARG001 - each limit is set up in its own way
    return {"failover_max_unhealthy": str(BUDGET)}


async def by_check(stage: Stage) -> dict[str, Any]:
    await stage.check(maxUnhealthy=BUDGET)
    return {}


async def by_slow_check(stage: Stage) -> dict[str, Any]:
    """It does not find the nodes unhealthy yet."""
    conditions = [{"type": "Ready", "status": "Unknown", "duration": "2h"}]
    await stage.check(maxUnhealthy=BUDGET, unhealthyConditions=conditions)
    return {}


async def by_most_in_flight(stage: Stage) -> dict[str, Any]:
    await stage.check(minHealthy="51%", guards={"maxInFlight": BUDGET})
    return {}


LIMITS: list[Prepare] = [by_setting, by_check, by_slow_check]


def with_pods(stage: Stage) -> None:
    """Two on every node."""
    for name in ALL:
        for number in (1, 2):
            stage.pod(f"web-{name}-{number}", name)


def lost(stage: Stage) -> list[str]:
    """Nodes of which pods were deleted."""
    return sorted({one.pod.split("-")[1] for one in stage.deleted}, key=lambda name: int(name[1:]))


def told(stage: Stage) -> tuple[int, int]:
    """How many nodes are held and how many are done with, and that nothing else is said of any."""
    states = stage.states()
    held = [name for name, state in states.items() if state == "Held"]
    moved = [name for name, state in states.items() if state == "Moved"]
    assert len(held) + len(moved) == len(states)
    assert {stage.entry(name)["reason"] for name in held} <= {"Budget"}
    return len(held), len(moved)


@pytest.mark.parametrize("limit", LIMITS)
def test_ev_16_exactly_the_budget_is_moved_and_the_rest_is_explained(limit: Prepare) -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        settings = await limit(stage)
        async with stage.operator(**settings) as running:
            await stage.fail(*FAILED)
            await stage.seconds(300)
            assert len(lost(stage)) == BUDGET
            assert len(stage.tried) == 2 * BUDGET
            assert told(stage) == (len(FAILED) - BUDGET, BUDGET)
            assert sorted(stage.states()) == sorted(FAILED)
            assert stage.settled() == "False Budget"
            assert stage.status()["moved"] == 2 * BUDGET
            assert running.held("Budget") == len(FAILED) - BUDGET
            held = stage.events("FailoverHeld")
            assert len(held) == len(FAILED) - BUDGET
            assert all(f"at most {BUDGET}" in message for message in held)

    play(story, nodes=NODES)


@pytest.mark.parametrize("limit", LIMITS)
def test_ev_16_who_comes_back_makes_place_for_the_next(limit: Prepare) -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        settings = await limit(stage)
        async with stage.operator(**settings):
            await stage.fail(*FAILED)
            await stage.seconds(120)
            first = lost(stage)
            await stage.turn(first[0], ready="True")
            await stage.seconds(60)
            assert len(lost(stage)) == BUDGET + 1
            assert told(stage) == (len(FAILED) - BUDGET - 1, BUDGET)
            await stage.remove_node(first[1])
            await stage.seconds(60)
            assert len(lost(stage)) == BUDGET + 2
            held = [name for name, state in stage.states().items() if state == "Held"]
            await stage.turn(*held, ready="True")
            await stage.seconds(60)
            assert (len(lost(stage)), told(stage)) == (BUDGET + 2, (0, BUDGET))
            await stage.turn(*stage.states(), ready="True")
            await stage.seconds(60)
            assert (stage.settled(), stage.states()) == ("True Quiet", {})
            assert stage.status()["moved"] == 2 * (BUDGET + 2) == len(stage.tried)

    play(story, nodes=NODES)


@pytest.mark.parametrize("deed", range(1, 8))
@pytest.mark.parametrize("limit", LIMITS[:2])
def test_ev_16_a_restart_in_the_middle_moves_no_more(limit: Prepare, deed: int) -> None:
    """Before a write with one limit, after it with the other, in turn."""
    after = (deed % 2 == 0) == (limit is by_setting)

    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        settings = await limit(stage)
        await stage.fail(*FAILED)
        async with stage.operator(Doom(at=deed, after=after), **settings):
            await stage.seconds(20)
        for _ in range(2):
            async with stage.operator(**settings):
                await stage.seconds(120)
                assert len(lost(stage)) == BUDGET
                assert told(stage) == (len(FAILED) - BUDGET, BUDGET)
                assert stage.status()["moved"] == 2 * BUDGET
        assert stage.pods(node=lost(stage)[0]) == []

    play(story, nodes=NODES)


@pytest.mark.parametrize("others", [(), ("db-0",), ("agent-1",)])
def test_ev_16_a_node_that_is_unready_in_another_way_keeps_its_place(others: tuple[str, ...]) -> None:
    """Its kubelet is silent, then speaks again and is not ready: all the while nothing runs there."""

    async def story(stage: Stage) -> None:
        for name in ("n1", "n2"):
            stage.pod(f"web-{name}-1", name)
        for name in others:
            stage.pod(name)
        await stage.policy()
        async with stage.operator(failover_max_unhealthy="1"):
            await stage.fail("n1")
            await stage.fail("n2")
            await stage.seconds(30)
            for ready in ("False", "Unknown", "False"):
                await stage.turn("n1", ready=ready)
                await stage.seconds(30)
                assert (lost(stage), stage.states()["n2"]) == (["n1"], "Held")
        async with stage.operator(failover_max_unhealthy="1"):
            await stage.seconds(30)
            assert lost(stage) == ["n1"]
            await stage.turn("n1", ready="True")
            await stage.seconds(30)
            assert lost(stage) == ["n1", "n2"]
            assert stage.status()["moved"] == 2

    play(story)


def test_ev_16_several_policies_share_the_budget() -> None:
    async def story(stage: Stage) -> None:
        for name in ALL:
            stage.pod(f"web-{name}-1", name, labels={"app": "a"})
            stage.pod(f"web-{name}-2", name, labels={"app": "b"})
        for app in ("a", "b"):
            await stage.policy(app, selector={"matchLabels": {"app": app}})
        async with stage.operator(failover_max_unhealthy=str(BUDGET)):
            await stage.fail(*FAILED)
            await stage.seconds(300)
        assert len(lost(stage)) == BUDGET
        assert len(stage.tried) == 2 * BUDGET
        for app in ("a", "b"):
            assert sorted(stage.states(app).values()) == ["Held"] * 18 + ["Moved"] * 2

    play(story, nodes=NODES)


def test_ev_16_nodes_that_are_being_remediated_count_too() -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy(nodeSelector={"matchLabels": {"nobody": "has"}})
        settings = await by_most_in_flight(stage)
        async with stage.operator(**settings):
            await stage.fail(*FAILED)
            await stage.seconds(60)
            assert len(lost(stage)) == BUDGET
            await stage.policy("later", selector={})
            await stage.seconds(300)
            assert len(lost(stage)) == BUDGET

    play(story, nodes=NODES)


# The control plane, and not the nodes.


async def is_told(stage: Stage, running: Running, nodes: int) -> None:
    assert stage.tried == []
    assert stage.settled() == "False SelfDoubt"
    assert running.held("SelfDoubt") == nodes
    assert len(stage.events("FailoverHeld")) == nodes


@pytest.mark.parametrize("ready", ["Unknown", "False", ""])
@pytest.mark.parametrize("beats", [True, False])
def test_ev_16_when_no_node_is_ready_nothing_is_deleted_and_it_is_told(beats: bool, ready: str) -> None:
    """Whether heartbeats come or not."""

    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        await stage.beat(*ALL)
        async with (
            alongside(*((stage.go_on_beating(*ALL),) if beats else ())),
            stage.operator() as running,
        ):
            await stage.seconds(50)
            await stage.turn(*ALL, ready=ready)
            await stage.seconds(120)
            await is_told(stage, running, NODES)
            await stage.beat(*ALL)
            await stage.turn(*ALL, ready="True")
            await stage.seconds(30)
            assert (stage.settled(), stage.tried) == ("True Quiet", [])

    play(story, nodes=NODES)


def test_ev_16_nodes_that_turn_unknown_one_by_one_because_nobody_hears_them_lose_nothing() -> None:
    """Heartbeats stop for all at once, and the first nodes are given up before the others are."""

    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        await stage.beat(*ALL)
        async with stage.operator() as running:
            await stage.seconds(50)
            for name in ALL:
                await stage.turn(name, ready="Unknown")
                await stage.seconds(1)
            await stage.seconds(60)
            await is_told(stage, running, NODES)

    play(story, nodes=NODES)


@pytest.mark.parametrize(("failing", "moves"), [(22, True), (23, False)])
def test_ev_16_more_than_half_of_all_nodes_not_ready_stops_everything(failing: int, moves: bool) -> None:
    async def story(stage: Stage) -> None:
        with_pods(stage)
        await stage.policy()
        async with stage.operator(failover_max_unhealthy="100%") as running:
            await stage.fail(*ALL[:failing])
            await stage.seconds(60)
            assert len(lost(stage)) == (failing if moves else 0)
            if not moves:
                await is_told(stage, running, failing)
                await stage.turn("n1", ready="True")
                await stage.seconds(60)
                assert len(lost(stage)) == failing - 1

    play(story, nodes=NODES)


# What holds a single node back.


async def exclude(stage: Stage) -> Undo:
    await stage.label("n1", {medik8s.EXCLUDED: "true"})
    return lambda: stage.label("n1", {medik8s.EXCLUDED: None})


async def lock(stage: Stage) -> Undo:
    """Somebody works on the node, for a minute."""
    now = f"{stage.clock.now():%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": "a person", "leaseDurationSeconds": 60, "acquireTime": now, "renewTime": now}
    meta = {"name": medik8s.lock_of("n1"), "namespace": medik8s.LOCK_NAMESPACE}
    stage.server.put(str(LEASES), {"metadata": meta, "spec": spec})
    return lambda: stage.seconds(60)


async def pause_check(stage: Stage) -> Undo:
    await stage.check(minHealthy="51%", pauseRequests=["we look into it"])
    return lambda: stage.change_check(pauseRequests=None)


async def only_observe(stage: Stage) -> Undo:
    await stage.check(minHealthy="51%", mode="Observe")
    return lambda: stage.change_check(mode="Automatic")


async def put_brake_on(stage: Stage) -> Undo:
    await stage.brake()
    return stage.release


GUARDS: dict[str, Callable[[Stage], Awaitable[Undo]]] = {
    "Excluded": exclude,
    "Lock": lock,
    "Paused": pause_check,
    "ModeObserve": only_observe,
    "Brake": put_brake_on,
}


@pytest.mark.parametrize("reason", GUARDS)
def test_whatever_holds_a_node_back_is_told_and_its_pods_leave_once_it_is_over(reason: str) -> None:
    async def story(stage: Stage) -> None:
        stage.pod("web-n1-1")
        await stage.policy()
        undo = await GUARDS[reason](stage)
        async with stage.operator() as running:
            await stage.fail("n1")
            await stage.seconds(20)
            assert (stage.tried, stage.settled()) == ([], f"False {reason}")
            assert running.held(reason) == 1.0
            assert len(stage.events("FailoverHeld")) == 1
            await undo()
            await stage.seconds(5)
            assert (stage.tried, stage.settled()) == (["web-n1-1"], "True Moved")
            assert running.held(reason) is None

    play(story)
