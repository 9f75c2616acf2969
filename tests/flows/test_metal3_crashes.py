"""The operator dies, or somebody withdraws, around any write: a Metal3 host ends on, and nothing of ours is left.

A sample of the deeds, before and after in turn; both triggers that other projects have.
"""

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from defib.model.incident import Phase
from defib.simulate.virtual_time import VirtualClock, run
from tests.flows.test_metal3_remediation_flows import Remedy
from tests.mortal_operator import Doom, nothing_else
from tests.power_cycle_stage import a_stage
from tests.unit.metal3_scene import Scene

pytestmark = pytest.mark.timeout(120)

TRIGGERS = ("machine-annotation", "metal3-remediation")
DEEDS_MOST = 60


class Asked:
    """One that asks for machine m1 by this trigger."""

    def __init__(self, scene: Scene, trigger: str) -> None:
        self.scene = scene
        self.by_annotation = trigger == "machine-annotation"
        self.remedy = Remedy(scene)

    async def begin(self) -> None:
        await self.scene.make()
        await self.scene.fail()
        await (self.scene.ask() if self.by_annotation else self.remedy.create())

    async def withdraw(self) -> None:
        if self.by_annotation:
            await self.scene.ask(None)
        elif self.remedy.item is not None:
            await self.remedy.delete()

    @property
    def is_over(self) -> bool:
        if self.by_annotation:
            return not self.scene.is_asked_for and self.scene.stage.phase in ("", Phase.CLOSED)
        return self.remedy.item is None or (not self.remedy.is_held and self.remedy.phase == "Waiting")


async def disturbed(clock: VirtualClock, trigger: str, at: int, *, withdraws: bool) -> tuple[bool, list[str]]:
    """Whether it came to that deed, and what is left in the end that should not be."""
    async with a_stage(clock, metal3=True) as stage:
        asked = Asked(Scene(stage), trigger)
        await asked.begin()
        doom = Doom(at=at, after=at % 2 == 0, spares=withdraws, twist=asked.withdraw if withdraws else nothing_else)
        async with stage.operator(doom, serves=(trigger,)) as life:
            await stage.until(lambda: life.is_dead or asked.is_over, 600)
            was_struck = life.was_struck
        await asyncio.sleep(at % 7)
        async with stage.operator(serves=(trigger,)):
            ended = await stage.until(lambda: asked.is_over, 900)
            stage.mend()
            await asyncio.sleep(30)
        left = [*stage.leftovers(), *asked.scene.marks, *(() if ended else ("it does not end",))]
        cycles = asked.scene.cycles
        return was_struck, [*left, *((f"{cycles} power cycles",) if cycles > 1 else ())]


def swept(trigger: str, every: int, *, withdraws: bool) -> tuple[int, dict[int, list[str]]]:
    """How many deeds were disturbed, and what was left after which."""
    struck = 0
    bad: dict[int, list[str]] = {}
    for at in range(1, DEEDS_MOST, every):
        came, left = run(partial(disturbed, trigger=trigger, at=at, withdraws=withdraws), limit=timedelta(hours=4))
        struck += came
        if left:
            bad[at] = left
        if not came:
            break
    return struck, bad


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_crash_changes_nothing_in_the_end(trigger: str) -> None:
    """RM-03."""
    struck, bad = swept(trigger, 4, withdraws=False)
    assert bad == {}
    assert struck >= 6


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_who_withdraws_in_the_middle_finds_nothing_left(trigger: str) -> None:
    """RM-16, RM-23."""
    struck, bad = swept(trigger, 4, withdraws=True)
    assert bad == {}
    assert struck >= 6
