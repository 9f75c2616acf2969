"""Machines for tests in real time, and how to wait for their power."""

import asyncio

from defib.clock import SystemClock
from defib.hollow.machine import Delays, Machine

AT_ONCE = Delays(on_seconds=0.05, off_seconds=0.05, soft_off_seconds=0.1)
NEVER = Delays(on_seconds=3600, off_seconds=3600, soft_off_seconds=3600)  # not while the test looks

WITHIN = 10.0


def a_machine(name: str = "n1", *, on: bool = True, delays: Delays = AT_ONCE) -> Machine:
    return Machine(name, SystemClock(), on=on, delays=delays)


async def expect_power(machine: Machine, *, on: bool) -> None:
    changed = asyncio.Event()
    machine.subscribe(lambda _: changed.set())
    async with asyncio.timeout(WITHIN):
        while machine.is_on != on:
            changed.clear()
            await changed.wait()
