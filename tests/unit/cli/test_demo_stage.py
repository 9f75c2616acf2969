"""The demo's show in virtual time: the real operator on the simulated cluster, without the waiting."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.cli.demo.furniture import CACHE, DATABASES, WEB_PODS
from defib.cli.demo.scenes import SCENES
from defib.cli.demo.stage import Stage
from defib.manifests import definitions
from defib.model.incident import Outcome
from defib.simulate.virtual_time import VirtualClock, run

SPEED = 10.0
START_SECONDS = 30.0
DEFINITIONS = definitions()
PODS = WEB_PODS + len(DATABASES) + 1


class Seen:
    """What was shown while a scene played."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.captions: list[str] = []
        self.lines: list[str] = []

    def says(self, words: str) -> bool:
        return any(words in line for line in (*self.captions, *self.lines))


def watched(watch: Callable[[Stage], Awaitable[None]], *, seed: int = 1, speed: float = SPEED) -> None:
    """With every pod running, before anything happens."""

    async def main(clock: VirtualClock) -> None:
        stage = Stage(clock, speed, DEFINITIONS)
        async with asyncio.TaskGroup() as group:
            playing = group.create_task(stage.run())
            assert stage.caption.startswith("The cluster starts")
            assert await stage.until(lambda: stage.has_begun, START_SECONDS)
            await watch(stage)
            playing.cancel()

    run(main, seed=seed, limit=timedelta(minutes=20))


async def through(stage: Stage, key: str) -> Seen:
    """The scene with this key from its beginning to its end."""
    seen = Seen(stage)
    assert stage.ask_for(key)
    assert await stage.until(lambda: stage.playing is not None and stage.playing.key == key, 60)
    while stage.playing is not None and stage.playing.key == key:
        if stage.caption not in seen.captions:
            seen.captions.append(stage.caption)
        await asyncio.sleep(0.05)
    seen.lines = [f"{line.by} {line.text}" for line in stage.lines]
    return seen


def test_a_node_that_hangs_is_switched_off_and_its_database_runs_elsewhere_before_it_is_back() -> None:
    async def watch(stage: Stage) -> None:
        before = stage.place_of(DATABASES[0])
        seen = await through(stage, "1")
        assert seen.says(f"power {before} hangs")
        assert seen.says(f"{before} is not ready. Defib waits 3 s, in case it comes back.")
        assert seen.says(f"{before} is proved to be down. Its pods and volumes are set free.")
        assert seen.says("demo every pod runs again, 1")  # some ten seconds; Kubernetes would not move it at all
        assert stage.place_of(DATABASES[0]) not in ("", before)
        assert stage.pods().total() == PODS
        assert [change.on for change in stage.nodes[before].machine.history] == [False, True]
        assert not stage.cluster.disks.corrupted()
        incident = stage.picture.cluster.incidents()[before] if stage.picture else None
        assert incident is not None
        assert (incident.is_open, incident.status.outcome) == (False, Outcome.RECOVERED)

    watched(watch)


def test_a_lost_zone_is_held_back_and_nothing_is_switched_off_or_moved() -> None:
    async def watch(stage: Stage) -> None:
        before = {pod: stage.place_of(pod) for pod in DATABASES}
        seen = await through(stage, "2")
        assert seen.says("3 nodes fail at once, at most 2 may: that looks like the network. Defib holds back")
        assert seen.captions[-1].startswith("The network is back. No machine was switched off, and no pod was moved")
        assert all(not node.machine.history for node in stage.nodes.values())
        assert {pod: stage.place_of(pod) for pod in DATABASES} == before

    watched(watch)


def test_a_drain_that_hangs_is_ended_past_its_budget_and_told_step_by_step() -> None:
    async def watch(stage: Stage) -> None:
        before = stage.place_of(CACHE)
        seen = await through(stage, "3")
        assert seen.says(f"{before} is drained, and one pod does not leave")
        assert seen.says(f"defib drain of {before}: Evict cache-")
        assert seen.says(f"defib drain of {before}: Delete cache-")
        assert stage.place_of(CACHE) not in ("", before)
        assert stage.pods().total() == PODS

    watched(watch)


def test_when_the_leader_is_killed_the_other_replica_ends_what_it_began() -> None:
    async def watch(stage: Stage) -> None:
        dead = stage.cast.leader
        seen = await through(stage, "4")
        assert seen.says(f"demo {dead} is killed in the middle of it")
        assert seen.says("The replica that led was killed half way through a remediation.")
        assert stage.cast.leader not in ("", dead)
        assert stage.pods().total() == PODS
        (victim,) = {name for name, node in stage.nodes.items() if node.machine.history}
        assert [change.on for change in stage.nodes[victim].machine.history] == [False, True]
        assert not stage.cluster.disks.corrupted()
        assert await stage.until(lambda: len(stage.cast.names) == 2, 10), "it is started again"

    watched(watch)


def test_while_the_api_server_ails_nothing_is_begun_and_afterwards_the_node_is_helped() -> None:
    async def watch(stage: Stage) -> None:
        seen = await through(stage, "5")
        assert seen.says("Defib does not trust what it sees")
        lines = seen.lines
        well = lines.index("demo the API server is well again")
        assert not [line for line in lines[:well] if "PoweringOff" in line]
        assert [line for line in lines[well:] if "PoweringOff" in line]
        assert stage.pods().total() == PODS

    watched(watch)


@pytest.mark.parametrize("speed", [5.0, 50.0])
def test_the_show_goes_on_by_itself_at_any_speed(speed: float) -> None:
    async def watch(stage: Stage) -> None:
        played: list[str] = []
        while len(played) < len(SCENES):
            assert await stage.until(lambda: stage.playing is not None, 600 / speed + 60)
            assert stage.playing is not None
            played.append(stage.playing.key)
            assert await stage.until(lambda: stage.playing is None, 1200 / speed + 120)
        assert played == [scene.key for scene in SCENES]
        assert await stage.until(lambda: stage.pods().total() == PODS, 60)

    watched(watch, speed=speed)


def test_a_key_without_a_scene_does_nothing() -> None:
    async def watch(stage: Stage) -> None:
        assert not stage.ask_for("x")
        assert stage.caption.startswith("All is well")

    watched(watch)
