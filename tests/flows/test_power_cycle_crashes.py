"""The operator dies before or after any write and power command: the machine ends on, and nothing of ours is left.

This is a sample of what tests/flows/test_power_cycle_sweep.py goes through deed by deed: every third deed where a
driver reads the power, every fifth elsewhere. Faults, who asked for it, before and after take turns.
"""

from datetime import timedelta
from functools import partial
from itertools import product

import pytest

from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import Doom, Life
from tests.power_cycle_crash import TWISTS, WORKLOADS, Disturbance, Plot, begin, end, play, served, sweep
from tests.power_cycle_stage import VICTIM, WAYS, Stage, a_stage

pytestmark = pytest.mark.timeout(60)

DEEDS = 30  # that a power cycle takes at least


@pytest.mark.parametrize("workloads", WORKLOADS)
@pytest.mark.parametrize("way", WAYS)
def test_a_crash_changes_nothing_in_the_end(way: str, workloads: str) -> None:
    every = 3 if way == "hollow" else 5
    swept = sweep(way, workloads, every=every)
    assert swept.bad == []
    assert swept.struck >= DEEDS // every


@pytest.mark.parametrize("workloads", WORKLOADS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_withdrawn_in_the_middle_leaves_nothing_whether_somebody_crashes_or_not(
    way: str, workloads: str
) -> None:
    swept = sweep(way, workloads, every=7, twists=TWISTS[1:])
    assert swept.bad == []
    assert swept.struck >= DEEDS // 7


@pytest.mark.parametrize("twist", TWISTS[1:])
@pytest.mark.parametrize("command", ["power off", "power on"])
def test_what_is_withdrawn_around_a_power_command_leaves_the_machine_on(command: str, twist: str) -> None:
    """Whether it has been sent or not, only the record tells the next operator."""
    plot = Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs")
    for after, spares in product((False, True), repeat=2):
        disturbance = Disturbance(words=f"{command} {VICTIM}", after=after, twist=twist, spares=spares)
        told = play(plot, disturbance)
        assert (str(disturbance), told.was_struck, told.left) == (str(disturbance), True, [])


@pytest.mark.parametrize("way", ["hollow", "metal3"])
@pytest.mark.parametrize("deeds", [9, 13])
def test_operators_that_die_again_and_again_get_there_all_the_same(way: str, deeds: int) -> None:
    plot = Plot(way=way, workloads="OutOfServiceTaint", fault="hangs")

    async def main(clock: VirtualClock) -> tuple[int, list[str]]:
        lives = 0
        async with a_stage(clock, metal3=way == "metal3") as stage, served(stage, plot):
            await begin(stage, plot)
            while not stage.is_over and lives < 40:
                lives += 1
                async with stage.operator(Doom(at=deeds)) as life:
                    await stage.until(partial(_is_decided, stage, life))
            async with stage.operator():
                bad = await end(stage)
            return lives, [*bad, *stage.leftovers()]

    lives, left = run(main, limit=timedelta(hours=4))
    assert left == []
    assert 3 <= lives < 40


def _is_decided(stage: Stage, life: Life) -> bool:
    return life.is_dead or stage.is_over
