"""A power cycle that does not get on: it is told and tried seldom, and nothing old is taken for a proof."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from defib.hollow.machine import Claims, IgnoresCommands, WrongPassword
from defib.kube.client import Merge
from defib.kube.kinds import NODE_INCIDENTS
from defib.model.incident import Phase
from defib.simulate.virtual_time import VirtualClock, run
from tests.power_cycle_stage import VICTIM, WAYS, Stage, a_stage

TEN_MINUTES = 600.0

Scene = Callable[[Stage], Awaitable[None]]


def on_stage(scene: Scene) -> None:
    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock) as stage:
            stage.fail("hangs")
            await stage.until(lambda: False, stage.pace.down_seconds)
            await scene(stage)

    run(main, limit=timedelta(hours=4))


async def _confirm_down(stage: Stage) -> None:
    """A person has switched it off, and says so."""
    stage.machines[VICTIM].set_power(False)
    said = {"by": "ann@example.com", "at": stage.clock.now().isoformat()}
    await stage.person.patch(NODE_INCIDENTS.at(VICTIM), Merge({"spec": {"confirmedOff": said}}))


def test_a_bmc_that_begins_to_refuse_us_is_asked_seldom_and_written_about_seldom() -> None:
    async def scene(stage: Stage) -> None:
        await stage.order(WAYS["hollow"], "OutOfServiceTaint")
        async with stage.operator() as life:
            assert await stage.until(lambda: f"power off {VICTIM}" in life.deeds, 60)
            stage.machines[VICTIM].bmc.suffer(WrongPassword())
            before = len(life.deeds)
            await stage.until(lambda: False, TEN_MINUTES)
            assert len(life.deeds) - before < 150

    on_stage(scene)


def test_a_person_may_take_all_the_time_in_the_world() -> None:
    async def scene(stage: Stage) -> None:
        await stage.order(WAYS["manual"], "OutOfServiceTaint")
        async with stage.operator() as life:
            assert await stage.until(lambda: stage.reason == "WaitsForConfirmation", 60)
            before = len(life.deeds)
            await stage.until(lambda: False, TEN_MINUTES)
            assert (stage.phase, len(life.deeds) - before) == (Phase.NEEDS_PERSON, 0)
            await _confirm_down(stage)
            assert await stage.until(lambda: stage.reason == "WaitsForPowerOn", 60)
            await stage.until(lambda: False, TEN_MINUTES)
            stage.machines[VICTIM].set_power(True)
            assert await stage.until(lambda: stage.is_over, 60)
        assert stage.leftovers() == []

    on_stage(scene)


def test_what_a_person_confirmed_counts_for_one_attempt_only() -> None:
    """Between two attempts the machine was switched on again: what runs there must not run elsewhere, too."""

    async def scene(stage: Stage) -> None:
        node, machine = stage.hollow.nodes[VICTIM], stage.machines[VICTIM]
        within = {"powerOff": "60s", "nodeReady": "30s"}
        await stage.order(WAYS["hollow"], "OutOfServiceTaint", timeouts=within, backoff="5s")
        machine.bmc.suffer(Claims(on=True), IgnoresCommands(times=1000))
        async with stage.operator():
            assert await stage.until(lambda: stage.phase == Phase.POWERING_OFF, 60)
            await _confirm_down(stage)
            assert await stage.until(lambda: stage.phase == Phase.RETURNING, 120)
            node.partition()  # it starts, and nobody hears of it
            machine.set_power(True)
            assert await stage.until(lambda: stage.attempt == 2 and stage.phase == Phase.POWERING_OFF, 120)
            await stage.until(lambda: False, 30)
            assert (stage.phase, stage.is_proved) == (Phase.POWERING_OFF, False)
            machine.subscribe(lambda on: None if on else node.heal())
            machine.bmc.suffer()
            assert await stage.until(lambda: stage.is_over)
        assert stage.leftovers() == []

    on_stage(scene)
