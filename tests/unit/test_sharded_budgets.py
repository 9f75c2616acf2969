"""SH-08: pods leave failed nodes by three operators that share the work, and no limit is ever overdrawn."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from defib.coordinate.keys import ADMISSION
from defib.simulate.faults import Fault, LateEvents
from defib.simulate.store import Change
from defib.simulate.virtual_time import VirtualClock, run
from tests.failover_stage import FAILOVERS, POLICIES, Stage
from tests.sharded_replicas import Replicas, replicas_on

NAMES = ("a", "b", "c")
NODES = tuple(f"n{number}" for number in range(1, 10))
Story = Callable[[Stage, Replicas], Awaitable[None]]


def play(story: Story, **settings: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock)
        for name in NODES:
            stage.node(name)
            stage.pod(f"web-{name}", name)
        for name in NAMES:  # what others wrote each replica sees a moment later than they do
            stage.server.faults.inject(Fault(effect=LateEvents(seconds=0.2), client=name))
        async with replicas_on(stage.server, clock) as replicas:
            replicas.start(*NAMES, **settings)
            assert set((await replicas.settle()).shares) == set(NAMES)
            await story(stage, replicas)

    run(main, limit=timedelta(hours=2))


def in_other_hands(replicas: Replicas) -> list[str]:
    """Nodes that whoever admits does not look after."""
    return [node for node in NODES if replicas.holders.of_node(node) != replicas.holders.of_node(ADMISSION)]


def left(stage: Stage, nodes: list[str]) -> list[str]:
    return [node for node in nodes if not stage.pods(node=node)]


def test_sh_08_pods_of_no_more_nodes_are_moved_at_a_time_than_policies_may() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        begun: list[int] = []

        def noticed(change: Change) -> None:
            if change.resource == str(POLICIES):
                begun.append(sum(bool(one.get("begun")) for one in stage.status().get("nodes") or ()))

        await stage.policy()
        stage.server.reactions.append(noticed)
        failing = in_other_hands(replicas)[:3]
        await stage.fail(*failing)
        for count in (1, 2, 3):
            await stage.seconds(60)
            assert len(left(stage, failing)) == count
            await stage.turn(*left(stage, failing), ready="True")  # which makes room for the next
        assert max(begun) == 1

    play(story, failover_max_unhealthy="1")


def test_sh_08_no_more_nodes_are_remediated_at_once_than_their_check_allows() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        counts: list[int] = []

        def noticed(change: Change) -> None:
            if change.resource == str(FAILOVERS):
                counts.append(len(stage.all(str(FAILOVERS))))

        await stage.check(guards={"maxInFlight": 2})
        stage.server.reactions.append(noticed)
        failing = in_other_hands(replicas)[:4]
        await stage.fail(*failing)
        await stage.seconds(60)
        assert len(left(stage, failing)) == 2
        await stage.turn(*left(stage, failing), ready="True")
        await stage.seconds(60)
        assert len(left(stage, failing)) == 4
        assert max(counts) == 2

    play(story)


@pytest.mark.parametrize("how", ["dies", "is told to end", "is replaced"])
def test_sh_08_a_limit_holds_while_whoever_admits_changes(how: str) -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        counts: list[int] = []

        def noticed(change: Change) -> None:
            if change.resource == str(FAILOVERS):
                counts.append(len(stage.all(str(FAILOVERS))))

        await stage.check(guards={"maxInFlight": 2})
        stage.server.reactions.append(noticed)
        failing = list(NODES[:4])
        await stage.fail(*failing)
        while not counts:
            await stage.seconds(0.01)
        admits = replicas.holders.of_node(ADMISSION)
        if how == "is replaced":
            replicas.start("d")
        await (replicas.stop(admits) if how != "dies" else gone(replicas, admits))
        await stage.seconds(60)
        assert replicas.holders.of_node(ADMISSION) not in ("", admits)
        assert len(left(stage, failing)) == 2
        await stage.turn(*left(stage, failing), ready="True")
        await stage.seconds(60)
        assert len(left(stage, failing)) == 4
        assert max(counts) == 2

    play(story)


async def gone(replicas: Replicas, name: str) -> None:
    replicas.kill(name)


def test_sh_08_nothing_is_begun_when_more_are_unhealthy_than_a_check_allows() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        await stage.check(maxUnhealthy=3)
        await stage.fail(*NODES[:4])
        await stage.seconds(120)
        assert stage.all(str(FAILOVERS)) == []
        await stage.turn("n1", ready="True")
        await stage.seconds(60)
        assert len(stage.all(str(FAILOVERS))) == 3
        assert replicas.holders.unowned == []

    play(story)


def test_pods_with_volumes_leave_a_node_that_another_replica_looks_after_than_the_one_that_admits() -> None:
    """Whether a volume may be used twice must be known to whoever moves its pod."""

    async def story(stage: Stage, replicas: Replicas) -> None:
        node = in_other_hands(replicas)[0]
        stage.claim("shared", "ReadWriteMany")
        stage.pod("web-volume", node, claims=["shared"])
        await stage.check()
        await stage.fail(node)
        await stage.seconds(30)
        assert stage.pods(node=node) == []

    play(story)


def test_every_pod_is_deleted_once_whoever_does_it() -> None:
    async def story(stage: Stage, replicas: Replicas) -> None:
        await stage.check()
        await stage.policy()
        failing = in_other_hands(replicas)[:3]
        await stage.fail(*failing)
        await stage.seconds(120)
        assert left(stage, failing) == failing
        asked = [one.path for one in stage.server.audit if one.verb == "delete" and "/pods/" in one.path]
        assert sorted(path.rpartition("/")[2] for path in asked) == sorted(f"web-{node}" for node in failing)

    play(story)
