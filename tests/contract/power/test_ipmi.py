"""What is particular to IPMI: datagrams are lost, answers come late, and nothing of a call may stay behind."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from pyghmi.ipmi.private.simplesession import Session  # type: ignore[import-untyped]

from defib.clock import SystemClock
from defib.hollow.machine import Command, Garbage, Hangs, Slow, Unreachable
from defib.power.base import Accepted, PowerState, Refused, Target, Unknown
from defib.power.ipmi import Ipmi
from testbed.bmc.ipmi import ipmi
from tests.contract.bmc.machines import a_machine, expect_power
from tests.contract.power.subjects import by_ipmi, credentials

ENOUGH = 15.0
Peer = tuple[str, int]


class Relay(asyncio.DatagramProtocol):
    """Between one client and one BMC. `passes` is asked about each datagram, by its number."""

    def __init__(self, bmc: Peer, passes: Callable[[int], bool]) -> None:
        self._bmc = bmc
        self._passes = passes
        self._client: Peer | None = None
        self.seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, datagram: bytes, peer: Any) -> None:
        if peer != self._bmc:
            self._client = peer
        self.seen += 1
        if self._client and self._passes(self.seen):
            self._transport.sendto(datagram, self._client if peer == self._bmc else self._bmc)


@asynccontextmanager
async def relay(bmc: Peer, passes: Callable[[int], bool]) -> AsyncIterator[tuple[str, Relay]]:
    transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Relay(bmc, passes), local_addr=("127.0.0.1", 0)
    )
    try:
        yield "{}:{}".format(*transport.get_extra_info("sockname")[:2]), protocol
    finally:
        transport.close()


async def test_a_lost_datagram_is_sent_again() -> None:
    machine = a_machine()
    async with (
        ipmi([machine]) as addresses,
        relay((addresses["n1"].host, addresses["n1"].port), lambda number: number not in {1, 6, 12, 25, 30}) as (
            address,
            seen,
        ),
    ):
        driver, target = Ipmi(SystemClock()), Target(node="n1", address=address, credentials=credentials(machine))
        assert await driver.off(target, ENOUGH) == Accepted()
        await expect_power(machine, on=False)
        assert (await driver.state(target, ENOUGH)).state is PowerState.OFF
        assert seen.seen > 30
    assert machine.bmc.taken[0] is Command.OFF


async def test_an_answer_that_comes_after_the_question_was_repeated_counts() -> None:
    machine = a_machine()
    machine.bmc.suffer(Slow(1.3))
    async with by_ipmi([machine]) as subject:
        assert (await subject.driver.state(subject.targets["n1"], ENOUGH)).state is PowerState.ON


async def test_a_bmc_that_lets_us_in_and_then_hangs_leaves_the_outcome_open() -> None:
    machine = a_machine()
    machine.bmc.suffer(Hangs())
    async with by_ipmi([machine]) as subject:
        assert isinstance(await subject.driver.off(subject.targets["n1"], 0.5), Unknown)
        machine.bmc.suffer(Unreachable())
        assert isinstance(await subject.driver.off(subject.targets["n1"], 0.5), Refused), "no login, so no command"


async def test_nonsense_is_told_from_silence() -> None:
    machine = a_machine()
    async with by_ipmi([machine]) as subject:
        machine.bmc.suffer(Garbage())
        reading = await subject.driver.state(subject.targets["n1"], 0.5)
        assert reading.detail == "no login: its answers make no sense"
        machine.bmc.suffer(Unreachable())
        reading = await subject.driver.state(subject.targets["n1"], 0.5)
        assert "no answer" in reading.detail


async def test_calls_leave_no_session_socket_or_thread_behind() -> None:
    machines = [a_machine(f"n{number}") for number in range(20)]
    machines[0].bmc.suffer(Hangs())
    machines[1].bmc.suffer(Garbage())
    machines[2].bmc.suffer(Unreachable())
    async with by_ipmi(machines) as subject:
        before = open_files()
        for _ in range(2):
            async with asyncio.TaskGroup() as tasks:
                for target in subject.targets.values():
                    tasks.create_task(subject.driver.state(target, 0.5))
        assert open_files() == before
        assert Session.keepalive_sessions == {}
        assert cast("Ipmi", subject.driver).left_behind == 0


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
