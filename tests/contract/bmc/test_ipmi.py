"""Each machine's IPMI BMC, asked by ipmitool over RMCP+."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from pyghmi.ipmi.command import Command as PyghmiClient  # type: ignore[import-untyped]

from defib.clock import SystemClock
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
from testbed.bmc.ipmi import IpmiAddress, ipmi
from tests.contract.bmc.machines import AT_ONCE, NEVER, a_machine, expect_power

# The first test may have to install ipmitool: only the test itself is timed.
pytestmark = pytest.mark.timeout(20, func_only=True)

WITHIN = 15.0


class Said(msgspec.Struct, frozen=True):
    code: int
    text: str


class Tool:
    """ipmitool, with one machine's address and credentials."""

    def __init__(self, program: Path, machine: Machine, address: IpmiAddress) -> None:
        self._program = program
        self._address = address
        self.username = machine.bmc.username
        self.password = machine.bmc.password

    async def __call__(self, *command: str, patience: int = 1) -> Said:
        """Seconds for each answer, and one try."""
        address = self._address
        where = ("-I", "lanplus", "-H", address.host, "-p", str(address.port), "-U", self.username, "-E")
        async with asyncio.timeout(WITHIN):
            running = await asyncio.create_subprocess_exec(
                *(str(self._program), *where, "-N", str(patience), "-R", "1", "-v", *command),
                env=os.environ | {"IPMI_PASSWORD": self.password},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await running.communicate()
        assert running.returncode is not None
        return Said(running.returncode, said.decode())

    async def power(self, verb: str) -> str:
        said = await self("power", verb, patience=5)
        assert said.code == 0, said.text
        return said.text.strip().splitlines()[-1]


@asynccontextmanager
async def bmc_of(machine: Machine, ipmitool: Path) -> AsyncIterator[Tool]:
    async with ipmi([machine]) as addresses:
        yield Tool(ipmitool, machine, addresses[machine.name])


@pytest.mark.parametrize(
    ("was_on", "verb", "command", "on"),
    [
        (True, "off", Command.OFF, False),
        (True, "soft", Command.SOFT_OFF, False),
        (False, "on", Command.ON, True),
    ],
)
async def test_a_power_command_changes_the_power_and_is_read_back(
    ipmitool: Path, was_on: bool, verb: str, command: Command, on: bool
) -> None:
    machine = a_machine(on=was_on)
    async with bmc_of(machine, ipmitool) as tool:
        assert "Chassis Power Control" in await tool.power(verb)
        await expect_power(machine, on=on)
        assert await tool.power("status") == f"Chassis Power is {'on' if on else 'off'}"
        assert machine.bmc.taken == [command]


@pytest.mark.parametrize("verb", ["reset", "cycle"])
async def test_a_reset_takes_the_power_away_and_gives_it_back(ipmitool: Path, verb: str) -> None:
    machine = a_machine()
    async with bmc_of(machine, ipmitool) as tool:
        await tool.power(verb)
        await expect_power(machine, on=False)
        await expect_power(machine, on=True)
        assert [change.on for change in machine.history] == [False, True]


async def test_an_accepted_command_is_not_yet_a_changed_power(ipmitool: Path) -> None:
    machine = a_machine(delays=NEVER)
    async with bmc_of(machine, ipmitool) as tool:
        await tool.power("off")
        assert machine.bmc.taken == [Command.OFF]
        assert await tool.power("status") == "Chassis Power is on"
        machine.set_power(False)
        assert await tool.power("status") == "Chassis Power is off"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (WrongPassword(), "RAKP 2 HMAC is invalid"),
        (Unreachable(), "Unable to establish IPMI v2 / RMCP+ session"),
        (Garbage(), "Unable to establish IPMI v2 / RMCP+ session"),
        (Hangs(), "Unable to get Chassis Power Status"),
        (Slow(60), "Unable to get Chassis Power Status"),
        (Fails(), "Get Chassis Power Status failed: Unspecified error"),
    ],
)
async def test_a_fault_is_seen_as_what_it_is_and_goes_away(ipmitool: Path, fault: Fault, says: str) -> None:
    machine = a_machine()
    async with bmc_of(machine, ipmitool) as tool:
        machine.bmc.suffer(fault)
        said = await tool("power", "status")
        assert said.code != 0
        assert says in said.text
        assert (await tool("power", "off")).code != 0
        assert machine.bmc.taken == []
        machine.bmc.suffer()
        assert await tool.power("status") == "Chassis Power is on"


async def test_an_unknown_user_and_a_wrong_password_are_refused(ipmitool: Path) -> None:
    machine = a_machine()
    async with bmc_of(machine, ipmitool) as tool:
        tool.username, right = "nobody", tool.username
        assert "unauthorized name" in (await tool("power", "status")).text
        tool.username, tool.password = right, "guess"
        assert "RAKP 2 HMAC is invalid" in (await tool("power", "status")).text


async def test_a_slow_bmc_answers_in_the_end(ipmitool: Path) -> None:
    machine = a_machine()
    async with bmc_of(machine, ipmitool) as tool:
        machine.bmc.suffer(Slow(0.3))
        clock = SystemClock()
        began = clock.monotonic()
        assert await tool.power("status") == "Chassis Power is on"
        assert clock.monotonic() - began >= 0.3


async def test_a_bmc_that_lies_says_off_while_the_machine_runs(ipmitool: Path) -> None:
    machine = a_machine()
    async with bmc_of(machine, ipmitool) as tool:
        machine.bmc.suffer(Claims(on=False))
        assert await tool.power("status") == "Chassis Power is off"
        assert machine.is_on


async def test_an_ignored_command_looks_accepted(ipmitool: Path) -> None:
    machine = a_machine()
    async with bmc_of(machine, ipmitool) as tool:
        machine.bmc.suffer(IgnoresCommands(1))
        assert await tool.power("off") == "Chassis Power Control: Down/Off"
        assert await tool.power("status") == "Chassis Power is on"
        await tool.power("off")
        await expect_power(machine, on=False)


async def test_a_hung_operating_system_ignores_a_soft_off(ipmitool: Path) -> None:
    machine = a_machine(delays=Delays(off_seconds=0.05, soft_off_seconds=0))
    machine.os_is_hung = True
    async with bmc_of(machine, ipmitool) as tool:
        await tool.power("soft")
        assert await tool.power("status") == "Chassis Power is on"
        await tool.power("off")
        await expect_power(machine, on=False)


async def test_many_machines_have_their_own_bmc_and_one_that_hangs_delays_no_other(ipmitool: Path) -> None:
    machines = [a_machine(f"n{number}", delays=AT_ONCE) for number in range(100)]
    clock = SystemClock()
    began = clock.monotonic()
    async with ipmi(machines) as addresses:
        assert clock.monotonic() - began < 1
        machines[0].bmc.suffer(Hangs())
        tools = [Tool(ipmitool, machine, addresses[machine.name]) for machine in machines[:3]]
        async with asyncio.TaskGroup() as tasks:
            hung = tasks.create_task(tools[0]("power", "off"))
            await tools[1].power("off")
            await expect_power(machines[1], on=False)
            assert await tools[2].power("status") == "Chassis Power is on"
        assert hung.result().code != 0
        began = clock.monotonic()
    assert clock.monotonic() - began < 1
    assert [machine.name for machine in machines if not machine.is_on] == ["n1"]


async def test_a_pyghmi_client_in_the_same_process_gets_through_also_when_it_asks_twice() -> None:
    machine = a_machine()
    async with ipmi([machine]) as addresses:
        machine.bmc.suffer(Slow(1.2))  # longer than it waits before it asks again
        assert await asyncio.to_thread(power_off_by_pyghmi, machine, addresses["n1"]) == ["on", "off", "off"]
    assert not machine.is_on


def power_off_by_pyghmi(machine: Machine, address: IpmiAddress) -> list[str]:
    client = PyghmiClient(
        bmc=address.host, port=address.port, userid=machine.bmc.username, password=machine.bmc.password
    )
    readings = [client.get_power()["powerstate"], client.set_power("off")["pendingpowerstate"]]
    readings.append(client.get_power()["powerstate"])
    client.ipmi_session.logout()
    return readings
