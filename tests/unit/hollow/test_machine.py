"""A machine's power follows commands after a while, and its BMC is as truthful as its faults let it be. Virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.hollow.machine import (
    Claims,
    Command,
    Delays,
    IgnoresCommands,
    Machine,
    Slow,
    Unreachable,
    WrongPassword,
)
from defib.simulate.virtual_time import START, VirtualClock, run

DELAYS = Delays(on_seconds=3, off_seconds=2, soft_off_seconds=15)


def live(story: Callable[[Machine], Awaitable[None]], *, on: bool = True) -> Machine:
    async def main(clock: VirtualClock) -> Machine:
        machine = Machine("n1", clock, on=on, delays=DELAYS)
        await story(machine)
        return machine

    return run(main)


async def pass_seconds(seconds: float) -> None:
    await asyncio.sleep(seconds)  # virtual: it takes no time


def changes(machine: Machine) -> list[tuple[float, bool]]:
    return [((change.at - START) / timedelta(seconds=1), change.on) for change in machine.history]


@pytest.mark.parametrize(
    ("on", "command", "expected"),
    [
        (True, Command.OFF, [(2, False)]),
        (True, Command.SOFT_OFF, [(15, False)]),
        (True, Command.RESET, [(2, False), (5, True)]),
        (True, Command.SOFT_RESET, [(15, False), (18, True)]),
        (True, Command.ON, []),
        (False, Command.ON, [(3, True)]),
        (False, Command.OFF, []),
        (False, Command.SOFT_OFF, []),
        (False, Command.RESET, [(3 + 2, True)]),
    ],
)
def test_power_follows_a_command_after_its_delay(
    on: bool, command: Command, expected: list[tuple[float, bool]]
) -> None:
    async def story(machine: Machine) -> None:
        machine.bmc.take(command)
        assert machine.is_on == on, "the BMC says yes before anything happens"
        await pass_seconds(60)

    assert changes(live(story, on=on)) == expected


def test_what_the_bmc_shows_changes_with_the_power_and_not_with_the_command() -> None:
    async def story(machine: Machine) -> None:
        machine.bmc.take(Command.OFF)
        await pass_seconds(1.9)
        assert machine.bmc.shows_on
        await pass_seconds(0.2)
        assert not machine.bmc.shows_on

    live(story)


@pytest.mark.parametrize("command", [Command.SOFT_OFF, Command.SOFT_RESET])
def test_a_hung_operating_system_does_not_hear_a_soft_command(command: Command) -> None:
    async def story(machine: Machine) -> None:
        machine.os_is_hung = True
        machine.bmc.take(command)
        await pass_seconds(600)
        machine.bmc.take(command)
        await pass_seconds(600)

    assert changes(live(story)) == []


def test_a_hung_operating_system_is_well_after_a_reset() -> None:
    async def story(machine: Machine) -> None:
        machine.os_is_hung = True
        machine.bmc.take(Command.RESET)
        await pass_seconds(60)
        assert not machine.os_is_hung

    assert changes(live(story)) == [(2, False), (5, True)]


def test_the_same_command_again_does_not_delay_the_first() -> None:
    async def story(machine: Machine) -> None:
        machine.bmc.take(Command.OFF)
        await pass_seconds(1)
        machine.bmc.take(Command.OFF)
        await pass_seconds(60)

    assert changes(live(story)) == [(2, False)]


def test_a_new_command_takes_the_place_of_one_under_way() -> None:
    async def story(machine: Machine) -> None:
        machine.bmc.take(Command.SOFT_OFF)
        await pass_seconds(1)
        machine.bmc.take(Command.OFF)
        await pass_seconds(1)
        machine.bmc.take(Command.ON)
        await pass_seconds(60)

    assert changes(live(story)) == []


def test_a_pulled_cord_acts_at_once_and_ends_the_command_under_way() -> None:
    async def story(machine: Machine) -> None:
        machine.bmc.take(Command.RESET)
        await pass_seconds(2.5)
        machine.set_power(False)
        await pass_seconds(60)

    assert changes(live(story)) == [(2, False)]


def test_subscribers_hear_every_change_and_nothing_else() -> None:
    heard: list[bool] = []

    async def story(machine: Machine) -> None:
        machine.subscribe(heard.append)
        machine.set_power(True)
        machine.set_power(False)
        machine.set_power(False)
        machine.bmc.take(Command.ON)
        await pass_seconds(60)

    live(story)
    assert heard == [False, True]


def test_a_bmc_may_claim_that_a_running_machine_is_off() -> None:
    async def story(machine: Machine) -> None:
        machine.bmc.suffer(Claims(on=False))
        assert not machine.bmc.shows_on
        assert machine.is_on

    live(story)


def test_a_bmc_may_ignore_the_first_commands_that_it_takes() -> None:
    async def story(machine: Machine) -> None:
        machine.bmc.suffer(IgnoresCommands(2))
        for _ in range(3):
            machine.bmc.take(Command.OFF)
            await pass_seconds(10)
        assert machine.bmc.taken == [Command.OFF] * 3

    assert changes(live(story)) == [(22, False)]


def test_a_bmc_with_a_wrong_password_admits_nobody() -> None:
    async def story(machine: Machine) -> None:
        bmc = machine.bmc
        assert bmc.admits(bmc.username, bmc.password)
        assert not bmc.admits(bmc.username, "guess")
        bmc.suffer(WrongPassword())
        assert not bmc.admits(bmc.username, bmc.password)

    live(story)


def test_faults_replace_each_other_and_whoever_serves_the_bmc_hears_of_it() -> None:
    heard: list[int] = []

    async def story(machine: Machine) -> None:
        bmc = machine.bmc
        bmc.subscribe(lambda: heard.append(len(bmc.faults)))
        bmc.suffer(Unreachable(), Slow(3))
        bmc.suffer(Slow(5))
        assert bmc.fault(Slow) == Slow(5)
        assert bmc.fault(Unreachable) is None
        bmc.suffer()

    live(story)
    assert heard == [2, 1, 0]
