"""The leader dies before and after each deed of a power cycle: a standby that was there all the time ends it.

Two whole operators take part in one election; nobody is started by hand.
"""

from datetime import timedelta

import pytest

from defib.hollow.power import HollowPower
from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import Doom
from tests.power_cycle_crash import Plot, begin, end
from tests.power_cycle_stage import VICTIM, Stage, a_stage
from tests.unit.three_replicas import LEASE, RETRY, done, replicas_on

PARTS = 4  # so that several can be worked through side by side


def power_cycle(doom: Doom) -> tuple[bool, list[str]]:
    """A machine hangs, and a check has it power-cycled. Whether the leader died on the way, and what is wrong with how it went."""

    async def main(clock: VirtualClock) -> tuple[bool, list[str]]:
        async with a_stage(clock) as stage, replicas_on(stage.server, clock) as replicas:
            driver = {"hollow": HollowPower(clock, stage.machines)}
            a = replicas.start("a", doom=doom, drivers=driver)
            await replicas.pass_by(1)
            replicas.start("b", drivers=driver)
            await begin(stage, Plot(way="hollow", workloads="OutOfServiceTaint", fault="hangs", ordered_by="a check"))
            bad = await end(stage)
            await replicas.pass_by(
                LEASE + 3 * RETRY
            )  # if it died with the last deed, there is one left for the standby
            return a.life.is_dead, [*bad, *_wrong_with_machine(stage), *stage.leftovers()]

    return run(main, limit=timedelta(hours=4))


def _wrong_with_machine(stage: Stage) -> list[str]:
    switched = [change.on for change in stage.machines[VICTIM].history]
    made = sum(done(stage.server, "create", "powercycleremediations").values())
    wrong = [] if switched == [False, True] else [f"switched {switched}"]
    return wrong if made == 1 else [*wrong, f"{made} remediations were made"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("part", range(PARTS))
def test_a_power_cycle_goes_on_wherever_the_leader_dies(part: int, after: bool) -> None:
    number, wrong = 1 + part, dict[int, list[str]]()
    while (told := power_cycle(Doom(at=number, after=after)))[0]:
        wrong |= {number: told[1]} if told[1] else {}
        number += PARTS
    assert wrong == {}
    assert told[1] == [], "nor is anything wrong when nobody dies"
    assert number > 15, "it has many steps"
