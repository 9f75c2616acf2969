"""Each machine's Redfish BMC, asked by a plain HTTP client."""

import asyncio
import base64
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from defib.clock import SystemClock
from defib.hollow.machine import (
    Claims,
    Command,
    Delays,
    Fails,
    Garbage,
    Hangs,
    IgnoresCommands,
    Machine,
    Slow,
    Unreachable,
    WrongPassword,
)
from testbed.bmc.redfish import RedfishAddress, redfish
from testbed.certificates import Authority
from tests.contract.bmc.machines import NEVER, WITHIN, a_machine, expect_power

PATIENCE = 5.0


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.body)
        return read


class Plain:
    """urllib, with one machine's address and credentials. Blocking, so it works in a thread."""

    def __init__(self, machine: Machine, address: RedfishAddress, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self.username = machine.bmc.username
        self.password = machine.bmc.password
        self._tls = tls

    async def get(self, path: str = "", *, patience: float = PATIENCE) -> Answer:
        return await asyncio.to_thread(self._ask, path or self.address.system, None, patience)

    async def reset(self, kind: str) -> Answer:
        path = f"{self.address.system}/Actions/ComputerSystem.Reset"
        return await asyncio.to_thread(self._ask, path, {"ResetType": kind}, PATIENCE)

    async def power(self) -> str:
        answer = await self.get()
        assert answer.status == 200
        return str(answer.json["PowerState"])

    def _ask(self, path: str, body: object, patience: float) -> Answer:
        token = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        request = urllib.request.Request(
            self.address.url + path,
            data=json.dumps(body).encode() if body else None,
            headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=patience, context=self._tls) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, refused.read())


@asynccontextmanager
async def bmc_of(machine: Machine) -> AsyncIterator[Plain]:
    async with redfish([machine]) as addresses:
        yield Plain(machine, addresses[machine.name])


async def test_a_machine_is_found_from_the_service_root() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        systems = (await plain.get("/redfish/v1/")).json["Systems"]["@odata.id"]
        members = (await plain.get(systems)).json["Members"]
        assert members == [{"@odata.id": plain.address.system}]
        system = (await plain.get()).json
        assert (system["Name"], system["PowerState"]) == ("n1", "On")
        assert system["Actions"]["#ComputerSystem.Reset"]["target"].startswith(plain.address.system)


@pytest.mark.parametrize(
    ("was_on", "kind", "command", "on"),
    [
        (True, "ForceOff", Command.OFF, False),
        (True, "GracefulShutdown", Command.SOFT_OFF, False),
        (False, "On", Command.ON, True),
        (False, "ForceOn", Command.ON, True),
    ],
)
async def test_a_reset_action_changes_the_power_and_is_read_back(
    was_on: bool, kind: str, command: Command, on: bool
) -> None:
    machine = a_machine(on=was_on)
    async with bmc_of(machine) as plain:
        assert (await plain.reset(kind)).status == 204
        await expect_power(machine, on=on)
        assert await plain.power() == ("On" if on else "Off")
        assert machine.bmc.taken == [command]


@pytest.mark.parametrize("kind", ["ForceRestart", "GracefulRestart"])
async def test_a_restart_takes_the_power_away_and_gives_it_back(kind: str) -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        assert (await plain.reset(kind)).status == 204
        await expect_power(machine, on=False)
        await expect_power(machine, on=True)
        assert [change.on for change in machine.history] == [False, True]


async def test_an_accepted_command_is_not_yet_a_changed_power() -> None:
    machine = a_machine(delays=NEVER)
    async with bmc_of(machine) as plain:
        assert (await plain.reset("ForceOff")).status == 204
        assert machine.bmc.taken == [Command.OFF]
        assert await plain.power() == "On"
        machine.set_power(False)
        assert await plain.power() == "Off"


async def test_what_is_not_there_or_makes_no_sense_is_refused_and_does_nothing() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        assert (await plain.get("/redfish/v1/Systems/somebody-else")).status == 404
        assert (await plain.reset("Explode")).status == 400
        assert machine.bmc.taken == []


async def test_an_unknown_user_and_a_wrong_password_get_a_401() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        plain.username, right = "nobody", plain.username
        assert (await plain.get()).status == 401
        plain.username, plain.password = right, "guess"
        assert (await plain.reset("ForceOff")).status == 401
        assert (await plain.get("/redfish/v1/")).status == 200, "the service root is for everybody"
        assert machine.bmc.taken == []


async def test_a_bmc_with_another_password_answers_401() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(WrongPassword())
        assert (await plain.get()).status == 401


async def test_an_unreachable_bmc_refuses_connections_and_comes_back_at_the_same_address() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(Unreachable())
        with pytest.raises(urllib.error.URLError) as refused:
            await plain.get()
        assert isinstance(refused.value.reason, ConnectionRefusedError)
        machine.bmc.suffer()
        await eventually_answers(plain)
        assert await plain.power() == "On"


async def eventually_answers(plain: Plain) -> None:
    async with asyncio.timeout(WITHIN):
        while True:
            try:
                await plain.get()
            except urllib.error.URLError:
                await asyncio.sleep(0)
            else:
                return


async def test_a_hanging_bmc_takes_the_request_and_never_answers() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(Hangs())
        with pytest.raises(TimeoutError):
            await plain.get(patience=0.3)
        machine.bmc.suffer()
        assert await plain.power() == "On"


async def test_a_slow_bmc_answers_in_the_end() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(Slow(0.3))
        clock = SystemClock()
        began = clock.monotonic()
        assert await plain.power() == "On"
        assert clock.monotonic() - began >= 0.3


async def test_a_failing_bmc_answers_500_and_does_nothing() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(Fails())
        assert (await plain.get()).status == 500
        assert (await plain.reset("ForceOff")).status == 500
        assert machine.bmc.taken == []


async def test_garbage_is_no_json() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(Garbage())
        answer = await plain.get()
        assert answer.status == 200
        with pytest.raises(ValueError, match=r"decode|Unterminated"):
            _ = answer.json


async def test_a_bmc_that_lies_says_off_while_the_machine_runs() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(Claims(on=False))
        assert await plain.power() == "Off"
        assert machine.is_on


async def test_an_ignored_command_looks_accepted() -> None:
    machine = a_machine()
    async with bmc_of(machine) as plain:
        machine.bmc.suffer(IgnoresCommands(1))
        assert (await plain.reset("ForceOff")).status == 204
        assert await plain.power() == "On"
        assert (await plain.reset("ForceOff")).status == 204
        await expect_power(machine, on=False)


async def test_a_hung_operating_system_ignores_a_graceful_shutdown() -> None:
    machine = a_machine(delays=Delays(off_seconds=0.05, soft_off_seconds=0))
    machine.os_is_hung = True
    async with bmc_of(machine) as plain:
        assert (await plain.reset("GracefulShutdown")).status == 204
        assert await plain.power() == "On"
        assert (await plain.reset("ForceOff")).status == 204
        await expect_power(machine, on=False)


async def test_many_machines_have_their_own_bmc_and_one_that_hangs_delays_no_other() -> None:
    machines = [a_machine(f"n{number}") for number in range(100)]
    clock = SystemClock()
    began = clock.monotonic()
    async with redfish(machines) as addresses:
        assert clock.monotonic() - began < 1
        machines[0].bmc.suffer(Hangs())
        hung, other = (Plain(machine, addresses[machine.name]) for machine in machines[:2])
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(expect_silence(hung))
            assert (await other.reset("ForceOff")).status == 204
            await expect_power(machines[1], on=False)
        assert asked.done()
        began = clock.monotonic()
    assert clock.monotonic() - began < 1
    assert [machine.name for machine in machines if not machine.is_on] == ["n1"]


async def expect_silence(plain: Plain) -> None:
    with pytest.raises(TimeoutError):
        await plain.get(patience=0.5)


async def test_nothing_listens_after_the_end() -> None:
    async with redfish([a_machine()]) as addresses:
        host, _, port = addresses["n1"].url.removeprefix("http://").partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=PATIENCE)


async def test_tls_is_verified_by_the_client_as_with_any_server(tmp_path: Path) -> None:
    authority = Authority(SystemClock().now())
    pair = authority.server(names=("bmc",), addresses=("127.0.0.1",))
    (tmp_path / "bmc.pem").write_bytes(pair.public + pair.private)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "bmc.pem")
    machine = a_machine()
    async with redfish([machine], tls=serving) as addresses:
        trusting = ssl.create_default_context(cadata=authority.pem.decode())
        assert await Plain(machine, addresses["n1"], trusting).power() == "On"
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            await Plain(machine, addresses["n1"], ssl.create_default_context()).get()
