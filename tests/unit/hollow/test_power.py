"""The driver of hollow machines in virtual time: the rules of all drivers, to the second.

The rules themselves are in tests/contract/power, where it stands beside the others in real time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from defib.hollow.machine import (
    Claims,
    Command,
    Delays,
    Fails,
    Fault,
    Garbage,
    Hangs,
    IgnoresCommands,
    Machine,
    Slow,
    Unreachable,
    WrongPassword,
)
from defib.hollow.power import HollowPower
from defib.model.secret import Secret
from defib.power.base import (
    Accepted,
    Credentials,
    Driver,
    NotReady,
    Outcome,
    PowerState,
    Reading,
    Ready,
    Refused,
    Target,
    Unknown,
)
from defib.simulate.virtual_time import START, VirtualClock, run

WITHIN = 5.0
DELAYS = Delays()


class Rack:
    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.machines = {name: Machine(name, clock, delays=DELAYS) for name in ("n1", "n2")}
        self.machine = self.machines["n1"]
        self.driver = HollowPower(clock, self.machines)

    def target(self, name: str = "n1", password: str | None = None) -> Target:
        bmc = self.machines[name].bmc
        login = Credentials(username=Secret(bmc.username), password=Secret(password or bmc.password))
        return Target(node=name, address=name, credentials=login)

    async def state(self, name: str = "n1") -> PowerState:
        return (await self.driver.state(self.target(name), WITHIN)).state

    @property
    def seconds(self) -> float:
        return (self.clock.now() - START) / timedelta(seconds=1)


Story = Callable[[Rack], Awaitable[None]]


def rack(story: Story) -> None:
    async def main(clock: VirtualClock) -> None:
        await story(Rack(clock))

    run(main)


def test_it_has_all_that_a_driver_has() -> None:
    async def story(it: Rack) -> None:
        assert isinstance(it.driver, Driver)
        assert it.driver.can_read_state

    rack(story)


def test_power_follows_a_command_when_the_machine_does() -> None:
    async def story(it: Rack) -> None:
        assert await it.driver.check(it.target(), WITHIN) == Ready()
        assert await it.driver.off(it.target(), WITHIN) == Accepted()
        assert await it.state() is PowerState.ON, "yes is said at once"
        await asyncio.sleep(DELAYS.off_seconds + 1)  # virtual
        assert await it.driver.state(it.target(), WITHIN) == Reading(PowerState.OFF, it.clock.now())
        assert await it.driver.on(it.target(), WITHIN) == Accepted()
        await asyncio.sleep(DELAYS.on_seconds + 1)  # virtual
        assert await it.state() is PowerState.ON
        assert it.machine.bmc.taken == [Command.OFF, Command.ON]
        assert it.machines["n2"].bmc.taken == []

    rack(story)


def test_a_slow_answer_is_waited_for_and_has_the_time_of_its_question() -> None:
    async def story(it: Rack) -> None:
        it.machine.bmc.suffer(Slow(WITHIN - 1))
        assert await it.driver.state(it.target(), WITHIN) == Reading(PowerState.ON, START)
        assert it.seconds == WITHIN - 1

    rack(story)


@pytest.mark.parametrize("fault", [Hangs(), Slow(60)])
def test_what_takes_too_long_is_left_at_the_deadline_and_nothing_is_carried_out_later(fault: Fault) -> None:
    async def story(it: Rack) -> None:
        it.machine.bmc.suffer(fault)
        assert await it.driver.off(it.target(), WITHIN) == Unknown("no answer within 5 s")
        assert it.seconds == WITHIN
        await asyncio.sleep(600)  # virtual
        assert it.machine.bmc.taken == []
        assert await it.state("n2") is PowerState.ON

    rack(story)


def test_one_call_at_a_time_goes_to_one_machine() -> None:
    async def story(it: Rack) -> None:
        it.machine.bmc.suffer(Hangs())
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(it.driver.off(it.target(), 2 * WITHIN))
            second = tasks.create_task(it.driver.off(it.target(), WITHIN))
        assert first.result() == Unknown("no answer within 10 s")
        assert second.result() == Refused("nothing was sent: earlier calls were still under way after 5 s")

    rack(story)


BROKEN: list[tuple[Fault, Outcome]] = [
    (WrongPassword(), Refused("it does not accept our credentials")),
    (Unreachable(), Refused("n1 cannot be reached")),
    (Fails(), Unknown("it answered with an internal error")),
    (Garbage(), Unknown("its answer makes no sense")),
]


@pytest.mark.parametrize(("fault", "outcome"), BROKEN, ids=[type(fault).__name__ for fault, _ in BROKEN])
def test_a_broken_bmc_proves_nothing_and_heals(fault: Fault, outcome: Refused | Unknown) -> None:
    async def story(it: Rack) -> None:
        it.machine.bmc.suffer(fault)
        assert await it.driver.off(it.target(), WITHIN) == outcome
        assert await it.driver.on(it.target(), WITHIN) == outcome
        assert await it.driver.state(it.target(), WITHIN) == Reading(PowerState.UNKNOWN, START, outcome.why)
        assert await it.driver.check(it.target(), WITHIN) == NotReady(outcome.why)
        assert it.machine.bmc.taken == []
        it.machine.bmc.suffer()
        assert await it.driver.check(it.target(), WITHIN) == Ready()

    rack(story)


def test_a_bmc_that_lies_or_does_nothing_is_believed_to_the_letter() -> None:
    async def story(it: Rack) -> None:
        it.machine.bmc.suffer(Claims(on=False))
        assert await it.state() is PowerState.OFF
        it.machine.bmc.suffer(IgnoresCommands())
        assert await it.driver.off(it.target(), WITHIN) == Accepted()
        await asyncio.sleep(60)  # virtual
        assert await it.state() is PowerState.ON

    rack(story)


def test_a_wrong_password_and_an_unknown_machine_are_refused_and_no_password_is_shown() -> None:
    async def story(it: Rack) -> None:
        wrong = await it.driver.off(it.target(password="a-guess-of-mine"), WITHIN)
        assert wrong == Refused("it does not accept our credentials")
        nobody = await it.driver.off(Target(node="n9", address="n9"), WITHIN)
        assert nobody == Refused("n9 cannot be reached")
        assert "a-guess-of-mine" not in repr((wrong, it.target(password="a-guess-of-mine")))

    rack(story)
