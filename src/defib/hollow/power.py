"""A power driver for hollow machines in this process: what a BMC says, without a protocol in between.

It keeps the rules that all drivers keep; the same tests run on it as on them.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from defib.clock import Clock
from defib.hollow.machine import Bmc, Command, Fails, Garbage, Hangs, Happened, Machine, Slow, Unreachable
from defib.power.base import Outcome, PowerState, Readiness, Reading, Target
from defib.power.calls import Calls, Denied, Doubtful, Seen
from defib.power.event_log import Entry, Event, EventLog, newest


class HollowPower:
    """The address of a machine is its name."""

    can_read_state: ClassVar[bool] = True

    def __init__(self, clock: Clock, machines: Mapping[str, Machine]) -> None:
        self._clock = clock
        self._calls = Calls(clock)
        self._machines = machines

    async def state(self, target: Target, within_seconds: float) -> Reading:
        return await self._calls.read(target, within_seconds, self._read)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._command, Command.OFF))

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._calls.command(target, within_seconds, partial(self._command, Command.ON))

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        return await self._calls.check(target, within_seconds, self._read)

    async def log(self, target: Target, within_seconds: float) -> EventLog:
        return await self._calls.log(target, within_seconds, self._read_log)

    async def _read_log(self, target: Target) -> EventLog:
        ours = self._clock.now()
        bmc = await self._reach(target)
        entries = (
            Entry(one.at, Event.STARTED if one.what is Happened.POWER_ON else Event.STOPPED, one.what.value)
            for one in bmc.log
        )
        return EventLog(entries=newest(entries), theirs=bmc.now if bmc.tells_clock else None, ours=ours)

    async def _read(self, target: Target) -> Seen:
        bmc = await self._reach(target)
        return Seen(PowerState.ON if bmc.shows_on else PowerState.OFF)

    async def _command(self, command: Command, target: Target) -> None:
        bmc = await self._reach(target)
        bmc.take(command)

    async def _reach(self, target: Target) -> Bmc:
        machine = self._machines.get(target.address)
        if machine is None or machine.bmc.fault(Unreachable):
            raise Denied(f"{target.address} cannot be reached")
        bmc = machine.bmc
        if slow := bmc.fault(Slow):
            await asyncio.sleep(slow.seconds)
        if bmc.fault(Hangs):
            await asyncio.Event().wait()
        if bmc.fault(Fails):
            raise Doubtful("it answered with an internal error")
        if bmc.fault(Garbage):
            raise Doubtful("its answer makes no sense")
        credentials = target.credentials
        if not bmc.admits(credentials.username.reveal(), credentials.password.reveal()):
            raise Denied("it does not accept our credentials")
        return bmc
