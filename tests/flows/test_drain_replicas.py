"""Of several replicas, whoever admits sees to drains; when it dies, the next one goes on where it was."""

import pytest

from defib.coordinate.keys import ADMISSION
from tests.drain_stage import DELETE, EVICT, Stage, play
from tests.sharded_replicas import replicas_on

NAMES = ("a", "b", "c")
NODES = ("n1", "n2", "n3", "n4")


def who_touched_pods(stage: Stage) -> set[str]:
    return {one.client for one in stage.server.audit.writes() if one.client in NAMES and "/pods/" in one.path}


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_shx_04_whoever_admits_next_finishes_the_drains_on_time_and_nobody_does_anything_twice(how: str) -> None:
    begun: list[int] = []

    async def story(stage: Stage) -> None:
        for node in NODES:
            stage.pod(f"db-{node}", node, labels={"app": node})
        await stage.budget(labels={"app": "n1"})
        await stage.drain_policy(maxForcedNodes=2, timeout="30s", expectedDrainTime="20s", pdbForceDrainTimeout="100s")
        async with replicas_on(stage.server, stage.clock, line=stage.line) as replicas:
            replicas.start(*NAMES)
            await replicas.settle()
            first = replicas.holders.of_node(ADMISSION)
            await stage.cordon(*NODES)
            await stage.until(0.6)
            assert who_touched_pods(stage) == {first}
            if how == "killed":
                replicas.kill(first)
            else:
                await replicas.stop(first)
            for _ in range(25):
                await stage.seconds(5)
                begun.append(sum(bool(stage.drain(node).get("begun")) for node in NODES))
            second = replicas.holders.of_node(ADMISSION)
            assert second != first
            assert who_touched_pods(stage) == {first, second}
        assert [stage.there(node) for node in NODES] == [[], [], [], []]
        assert stage.told(DELETE) == [(DELETE, "db-n1", 2)]
        evicted = [one.pod for one in stage.done if one.rung == EVICT and one.pod != "db-n1"]
        assert sorted(evicted) == ["db-n2", "db-n3", "db-n4"]
        assert max(begun) <= 2
        assert [stage.holder(node) for node in NODES] == ["", "", "", ""]

    play(story)
