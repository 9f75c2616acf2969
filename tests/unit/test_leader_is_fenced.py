"""RM-34: the node under the leader fails. It does not switch itself off; and if it does, the standby finishes the work.

Who leads is told here by who runs: at any time there is one operator, as leader election would have it.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.model.incident import Phase
from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import Doom
from tests.power_cycle_crash import FAULTS, WORKLOADS, Plot, begin, end
from tests.power_cycle_stage import VICTIM, Stage, a_stage

STANDBY = "n2"
LONG = 600.0

Scene = Callable[[Stage], Awaitable[list[str]]]


def on_stage(scene: Scene, plot: Plot) -> list[str]:
    """What was left, and what went wrong."""

    async def main(clock: VirtualClock) -> list[str]:
        async with a_stage(clock, metal3=plot.way == "metal3") as stage:
            await begin(stage, plot)
            bad = await scene(stage)
            return [*bad, *stage.leftovers()]

    return run(main, limit=timedelta(hours=4))


async def _standby_finishes(stage: Stage) -> list[str]:
    async with stage.operator(node_name=STANDBY):
        return await end(stage)


def leader_of(stage: Stage) -> str:
    lock = stage.one("leases.coordination.k8s.io", "defib-leader")
    assert lock is not None
    return str(lock["spec"]["holderIdentity"])


@pytest.mark.parametrize("ordered_by", ["a person", "a check"])
def test_the_leader_leaves_the_machine_under_itself_alone_and_the_standby_does_not(ordered_by: str) -> None:
    """Its kubelet hangs, which the leader on it does not feel."""

    async def scene(stage: Stage) -> list[str]:
        async with stage.operator(node_name=VICTIM) as leader:
            assert await stage.until(lambda: stage.reason == "OwnNode", 30)
            await stage.until(lambda: False, LONG)
            assert stage.phase == Phase.OPEN
        assert stage.machines[VICTIM].history == []
        said = [deed for deed in leader.deeds if "/leases" not in deed]
        assert len(said) < 20  # not again and again
        bad = await _standby_finishes(stage)
        assert [change.on for change in stage.machines[VICTIM].history] == [False, True]
        return bad

    plot = Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs", ordered_by=ordered_by)
    assert on_stage(scene, plot) == []


@pytest.mark.parametrize("election", ["lease", "shards"])
def test_the_leader_on_the_failed_node_steps_aside_for_a_standby(election: str) -> None:
    """Its kubelet hangs, so that nobody ends it: it would lead for ever, and never help the machine under itself."""

    async def scene(stage: Stage) -> list[str]:
        async with stage.operator(node_name=VICTIM, election=election, replica_name="on-the-failed-node") as leader:
            assert await stage.until(lambda: stage.phase == Phase.OPEN, 60)
            async with stage.operator(node_name=STANDBY, election=election, replica_name="standby") as standby:
                bad = await end(stage)
                assert [change.on for change in stage.machines[VICTIM].history] == [False, True]
                assert not [deed for deed in leader.deeds if deed.startswith("power")]
                assert [deed for deed in standby.deeds if deed.startswith("power")]
                return bad

    assert on_stage(scene, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs")) == []


def test_whoever_is_alone_on_the_failed_node_comes_back_and_looks_after_the_others() -> None:
    """It has stepped aside, and nobody came."""

    async def scene(stage: Stage) -> list[str]:
        async with stage.operator(node_name=VICTIM, election="lease", replica_name="alone"):
            assert await stage.until(lambda: stage.reason == "OwnNode", 60)
            assert await stage.until(lambda: leader_of(stage) == "", 60)
            assert await stage.until(lambda: leader_of(stage) == "alone", 90)
            assert not await stage.until(lambda: leader_of(stage) == "", 300), "now and then is enough"
        return await _standby_finishes(stage)

    assert on_stage(scene, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs")) == []


@pytest.mark.parametrize("workloads", WORKLOADS)
@pytest.mark.parametrize("fault", ["hangs", "is cut off"])
def test_a_leader_that_switches_itself_off_unknowingly_is_followed_by_the_standby(workloads: str, fault: str) -> None:
    """Nobody has told it on which node it runs. It ends with the command that it has sent."""

    async def scene(stage: Stage) -> list[str]:
        async with stage.operator(Doom(words=f"power off {VICTIM}", after=True)) as leader:
            assert await stage.until(lambda: leader.is_dead, 60)
        assert (stage.phase, stage.is_proved) == (Phase.POWERING_OFF, False)
        bad = await _standby_finishes(stage)
        assert [change.on for change in stage.machines[VICTIM].history] == [False, True]
        return bad

    assert on_stage(scene, Plot(way="hollow", workloads=workloads, fault=fault)) == []


def test_a_leader_that_annotates_the_host_under_itself_is_followed_by_the_standby() -> None:
    async def scene(stage: Stage) -> list[str]:
        async with stage.operator(Doom(words="/baremetalhosts/", after=True)) as leader:
            assert await stage.until(lambda: leader.is_dead, 60)
        return await _standby_finishes(stage)

    assert on_stage(scene, Plot(way="metal3", workloads="OutOfServiceTaint", fault="hangs")) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_leadership_that_moves_onto_the_failed_node_and_away_again_does_no_harm(fault: str) -> None:
    """A standby on the failed node takes over in the middle, when the record says that it is being switched off."""

    async def scene(stage: Stage) -> list[str]:
        async with stage.operator(Doom(words=f"power off {VICTIM}"), node_name=STANDBY) as leader:
            assert await stage.until(lambda: leader.is_dead, 60)
        async with stage.operator(Doom(words=f"power off {VICTIM}", after=True), node_name=VICTIM) as doomed:
            await stage.until(lambda: doomed.is_dead, 60)
        return await _standby_finishes(stage)

    assert on_stage(scene, Plot(way="hollow", workloads="OutOfServiceTaint", fault=fault)) == []
