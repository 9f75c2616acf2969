"""What holds for every driver: Redfish, IPMI, a webhook, and fence agents of Debian, each with real traffic.

And for the two ways without any: hollow machines in this process, and Metal3 hosts through the API server.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from defib.clock import SystemClock
from defib.hollow.machine import (
    Claims,
    Command,
    Fails,
    Fault,
    Garbage,
    Hangs,
    IgnoresCommands,
    Machine,
    Unreachable,
    WrongPassword,
)
from defib.model.secret import Secret
from defib.power.base import Accepted, Credentials, NotReady, PowerState, Ready, Refused, Target, Unknown
from tests.contract.bmc.machines import AT_ONCE, a_machine, expect_power
from tests.contract.power.subjects import (
    Kind,
    Subject,
    by_fence_ipmilan,
    by_fence_redfish,
    by_hollow,
    by_ipmi,
    by_metal3,
    by_redfish,
    by_webhook,
)

# The first test may have to install the agents: only the test itself is timed.
pytestmark = pytest.mark.timeout(20, func_only=True)

ENOUGH = 10.0  # seconds for an answer that will come
OVERTIME = 0.7  # what a busy machine may need to come back from a deadline

# Between us and the BMC stands the baremetal operator. What is the same all the same is in test_metal3_power.py.
NOT_OF_METAL3 = {
    "test_what_is_off_can_be_switched_off_and_what_is_on_can_be_switched_on": "its operator switches on by itself "
    "whatever nobody keeps off",
    "test_a_reading_is_what_the_bmc_says_also_when_it_lies": "an off that nothing of ours keeps is not believed",
    "test_a_wrong_password_is_refused_and_shown_nowhere": "we have no password: its operator has",
    "test_a_broken_bmc_proves_nothing_takes_no_longer_than_allowed_and_heals": "a request is taken, whatever the BMC "
    "is like, and the status stays as it was",
    "test_a_bmc_that_hangs_is_left_at_the_deadline_with_an_unknown_outcome": "the same: it is not the BMC that is asked",
    "test_five_of_fifty_that_hang_hold_up_nobody_else": "the same",
}

NATIVE = {
    "redfish": Kind(stage=by_redfish),
    "ipmi": Kind(stage=by_ipmi),
    "webhook": Kind(stage=by_webhook),
    "hollow": Kind(stage=by_hollow),
    "metal3": Kind(stage=by_metal3, is_second_hand=True, exempt_from=NOT_OF_METAL3),
}
AGENTS = {"fence_ipmilan": by_fence_ipmilan, "fence_redfish": by_fence_redfish}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every rule for every driver, but for those that are exempt from it."""
    if "kind" in metafunc.fixturenames:
        rule = metafunc.function.__name__
        bound = [name for name, kind in NATIVE.items() if rule not in kind.exempt_from]
        metafunc.parametrize("kind", [*bound, *AGENTS], indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param in NATIVE:
        return NATIVE[request.param]
    directory: Path = request.getfixturevalue("fence_agents")
    return Kind(stage=AGENTS[request.param](directory), quick_seconds=1.0, is_agent=True)


class One:
    """A driver with one machine."""

    def __init__(self, kind: Kind, machine: Machine, subject: Subject) -> None:
        self.kind = kind
        self.machine = machine
        self.driver = subject.driver
        self.target = subject.targets[machine.name]

    async def reads(self, *, on: bool) -> bool:
        reading = await self.driver.state(self.target, ENOUGH)
        return reading.state is (PowerState.ON if on else PowerState.OFF)

    async def expect_off(self) -> None:
        assert await self.driver.off(self.target, ENOUGH) == Accepted()
        await expect_power(self.machine, on=False)
        await self.expect_reading(on=False)

    async def expect_on(self) -> None:
        assert await self.driver.on(self.target, ENOUGH) == Accepted()
        await expect_power(self.machine, on=True)
        await self.expect_reading(on=True)

    async def expect_reading(self, *, on: bool) -> None:
        """At once, where we ask the BMC ourselves."""
        async with asyncio.timeout(ENOUGH):
            while not await self.reads(on=on):
                assert self.kind.is_second_hand
                await asyncio.sleep(0.02)

    async def expect_taken(self) -> None:
        """The BMC said yes; where somebody else tells it, a moment later."""
        async with asyncio.timeout(ENOUGH):
            while not self.machine.bmc.taken:
                assert self.kind.is_second_hand
                await asyncio.sleep(0.02)


@asynccontextmanager
async def one(kind: Kind, *, on: bool = True) -> AsyncIterator[One]:
    machine = a_machine(on=on, delays=AT_ONCE)
    async with kind.stage([machine]) as subject:
        yield One(kind, machine, subject)


async def test_a_machine_that_was_switched_off_reads_off_and_on_again_reads_on(kind: Kind) -> None:
    async with one(kind) as it:
        assert await it.driver.check(it.target, ENOUGH) == Ready()
        assert await it.reads(on=True)
        await it.expect_off()
        assert it.machine.bmc.taken == [Command.OFF], "hard, and once"
        await it.expect_on()
        assert it.machine.bmc.taken == [Command.OFF, Command.ON]
        assert await it.driver.check(it.target, ENOUGH) == Ready()


async def test_what_is_off_can_be_switched_off_and_what_is_on_can_be_switched_on(kind: Kind) -> None:
    async with one(kind, on=False) as it:
        await it.expect_off()
        await it.expect_on()
        await it.expect_on()
        assert [change.on for change in it.machine.history] == [True]


async def test_a_reading_has_the_time_of_its_question(kind: Kind) -> None:
    async with one(kind) as it:
        before = SystemClock().now()
        reading = await it.driver.state(it.target, ENOUGH)
        assert before <= reading.at <= SystemClock().now()
        assert reading.at - before < timedelta(milliseconds=500)


async def test_a_bmc_that_says_yes_and_does_nothing_still_reads_on(kind: Kind) -> None:
    async with one(kind) as it:
        it.machine.bmc.suffer(IgnoresCommands(1000))
        outcome = await it.driver.off(it.target, 3.0 if kind.is_agent else ENOUGH)
        assert isinstance(outcome, Unknown) if kind.is_agent else outcome == Accepted()
        await it.expect_taken()
        assert await it.reads(on=True)


async def test_a_reading_is_what_the_bmc_says_also_when_it_lies(kind: Kind) -> None:
    async with one(kind) as it:
        it.machine.bmc.suffer(Claims(on=False))
        assert await it.reads(on=False)
        assert it.machine.is_on


def with_password(target: Target, password: str) -> Target:
    login = Credentials(username=target.credentials.username, password=Secret(password))
    return msgspec.structs.replace(target, credentials=login)


async def test_a_wrong_password_is_refused_and_shown_nowhere(kind: Kind) -> None:
    guess = "a-wrong-guess-of-mine"
    async with one(kind) as it:
        target = with_password(it.target, guess)
        reading = await it.driver.state(target, ENOUGH)
        off, on = await it.driver.off(target, ENOUGH), await it.driver.on(target, ENOUGH)
        check = await it.driver.check(target, ENOUGH)
        assert reading.state is PowerState.UNKNOWN
        assert isinstance(off, Refused | Unknown if kind.is_agent else Refused)
        assert isinstance(on, Refused | Unknown if kind.is_agent else Refused)
        assert isinstance(check, NotReady)
        assert it.machine.bmc.taken == []
        for shown in (repr(reading), repr(off), repr(on), repr(check), repr(target)):
            assert guess not in shown
        if not kind.is_agent:
            assert "does not accept" in check.why


FAULTS: list[Fault] = [WrongPassword(), Unreachable(), Fails(), Garbage(), Hangs()]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_a_broken_bmc_proves_nothing_takes_no_longer_than_allowed_and_heals(kind: Kind, fault: Fault) -> None:
    async with one(kind) as it:
        it.machine.bmc.suffer(fault)
        clock, within = SystemClock(), kind.quick_seconds
        began = clock.monotonic()
        reading = await it.driver.state(it.target, within)
        off = await it.driver.off(it.target, within)
        check = await it.driver.check(it.target, within)
        assert clock.monotonic() - began < 3 * (within + OVERTIME)
        assert (reading.state, bool(reading.detail)) == (PowerState.UNKNOWN, True)
        assert isinstance(off, Refused | Unknown)
        assert off.why
        assert isinstance(check, NotReady)
        assert check.why
        assert it.machine.bmc.taken == []
        assert it.machine.bmc.password not in repr((reading, off, check))
        it.machine.bmc.suffer()
        await eventually_ready(it)
        await it.expect_off()


async def eventually_ready(it: One) -> None:
    """A listener that was closed needs a turn of the loop to be there again."""
    async with asyncio.timeout(ENOUGH):
        while await it.driver.check(it.target, ENOUGH) != Ready():
            pass


async def test_a_bmc_that_hangs_is_left_at_the_deadline_with_an_unknown_outcome(kind: Kind) -> None:
    async with one(kind) as it:
        it.machine.bmc.suffer(Hangs())
        clock = SystemClock()
        began = clock.monotonic()
        off = await it.driver.off(it.target, 0.5)
        assert 0.4 <= clock.monotonic() - began < 0.5 + OVERTIME
        assert isinstance(off, Unknown)
        assert "no answer" in off.why


async def test_five_of_fifty_that_hang_hold_up_nobody_else(kind: Kind) -> None:
    machines = [a_machine(f"n{number}", delays=AT_ONCE) for number in range(50)]
    for machine in machines[:5]:
        machine.bmc.suffer(Hangs())
    within = 10.0 if kind.is_agent else 2.5
    clock = SystemClock()
    async with kind.stage(machines) as subject:
        began = clock.monotonic()
        ended: dict[str, float] = {}

        async def ask(name: str) -> PowerState:
            reading = await subject.driver.state(subject.targets[name], within)
            ended[name] = clock.monotonic() - began
            return reading.state

        async with asyncio.TaskGroup() as tasks:
            asked = {machine.name: tasks.create_task(ask(machine.name)) for machine in machines}
    states = [asked[machine.name].result() for machine in machines]
    assert states == [PowerState.UNKNOWN] * 5 + [PowerState.ON] * 45
    hung, well = [ended[machine.name] for machine in machines[:5]], [ended[machine.name] for machine in machines[5:]]
    assert all(seconds < within + OVERTIME for seconds in hung)
    assert min(hung) > within - 0.5, "they did hang"
    assert max(well) < within


def test_whoever_is_exempt_is_so_from_rules_that_there_are() -> None:
    assert {rule for kind in NATIVE.values() for rule in kind.exempt_from} <= globals().keys()
