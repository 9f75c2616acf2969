"""The demo's plot in virtual time: the real operator on the simulated cluster, without the waiting."""

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from defib.cli.demo_stage import REPLICAS, Stage
from defib.cli.demo_view import Scene, story
from defib.manifests import definitions
from defib.model import medik8s
from defib.model.health_check import Check
from defib.model.pod_failover import DEFAULT_CHECK, REMEDIATION
from defib.simulate.virtual_time import VirtualClock, run

SPEED = 10.0
DEFINITIONS = definitions()


def played(
    seconds: float, *, seed: int = 1, speed: float = SPEED, before: Callable[[Stage], None] = lambda _: None
) -> Scene:
    """The scene after so many seconds of the demo."""

    async def main(clock: VirtualClock) -> Scene:
        stage = Stage(clock, speed, DEFINITIONS)
        before(stage)
        async with asyncio.TaskGroup() as group:
            playing = group.create_task(stage.run())
            await pass_seconds(seconds)
            playing.cancel()
        return stage.scene("kubeconfig")

    return run(main, seed=seed, limit=timedelta(minutes=20))


async def pass_seconds(seconds: float) -> None:
    await asyncio.sleep(seconds)  # virtual: it takes no time


def pull_the_brake(stage: Stage) -> None:
    stage.cluster.server.put("configmaps", {"metadata": {"name": "defib-brake", "namespace": "defib-system"}})


def lines(scene: Scene) -> list[str]:
    return [f"{line.by} {line.text}" for line in story(scene)]


def test_the_whole_story_is_told_in_its_order() -> None:
    told = lines(played(28))
    victim = told[1].split()[1]
    numbers = [re.sub(r"\d+\.\d", "N", line) for line in told]
    assert numbers == [
        "kube 9 nodes joined",
        f"power {victim} loses its power",
        f"kube {victim} not ready: Ready is Unknown (NodeStatusUnknown)",
        f"defib {victim} is suspect: unhealthy if that lasts N s more",
        f"defib {victim} is unhealthy, every gate is open: remediation begins",
        f"defib deletes 2 pods of {victim}, so that others start elsewhere",
        "kube 2 pods run elsewhere after N s; without Defib: about 35 s",
        f"power {victim} has power again and boots",
        told[8],
        f"kube {victim} ready",
        f"defib {victim} is well again: its remediation is removed",
    ]
    assert told[8].startswith(f"kube {victim} rebooted: boot ")


@pytest.mark.parametrize("speed", [1.0, 10.0, 100.0])
def test_pods_run_elsewhere_long_before_kubernetes_would_have_let_them(speed: float) -> None:
    scene = played(150 / speed, speed=speed)
    outage = scene.outage
    assert outage is not None
    assert outage.by_defib
    assert outage.served_after_seconds is not None
    assert outage.served_after_seconds < scene.pace.alone_seconds / 3
    assert scene.pods[outage.node] == 0
    assert sum(scene.pods.values()) == REPLICAS


def test_without_defib_it_takes_as_long_as_the_demo_says() -> None:
    scene = played(42, before=pull_the_brake)
    outage = scene.outage
    assert outage is not None
    assert not outage.by_defib
    assert outage.served_after_seconds == pytest.approx(scene.pace.alone_seconds, abs=2)
    (held,) = [line for line in lines(scene) if "held back" in line]
    assert held.startswith(f"defib {outage.node} is unhealthy, but held back: the brake is on")
    assert f"kube 2 pods run elsewhere after {outage.served_after_seconds:.1f} s" in lines(scene)


def test_the_operator_makes_its_own_check_and_the_demo_only_hurries_it() -> None:
    plan = played(2).picture.plan
    assert list(plan.checks) == [DEFAULT_CHECK]
    check = plan.checks[DEFAULT_CHECK].known.check
    assert isinstance(check, Check)
    assert {condition.duration for condition in check.conditions} == {timedelta(seconds=3)}


def test_when_the_node_is_back_nothing_of_the_remediation_is_left() -> None:
    scene = played(28)
    assert scene.outage is not None
    assert scene.outage.has_power
    cluster = scene.picture.cluster
    assert cluster.nodes[scene.outage.node].ready == "True"
    assert list(cluster.every(REMEDIATION)) == []
    assert [lock for lock in cluster.locks.values() if lock.name == medik8s.lock_of(scene.outage.node)] == []


def test_the_same_seed_tells_the_same_story_and_no_node_is_hit_twice_in_a_row() -> None:
    first, again, other = (lines(played(7, speed=100, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    victims, others = ([line for line in told if "loses its power" in line] for told in (first, other))
    assert len(victims) == len(set(victims)) == 3
    assert victims != others
