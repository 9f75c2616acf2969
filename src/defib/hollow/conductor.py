"""What stands between the hollow baremetal operator and a BMC: begins a power task and knows how it ends, as Ironic does."""

import asyncio

import msgspec

from defib.clock import Clock
from defib.hollow.machine import Command, Fails, Fault, Garbage, Hangs, Machine, Slow, Unreachable, WrongPassword

_SOFT = (Command.SOFT_OFF, Command.SOFT_RESET)
_RESETS = (Command.RESET, Command.SOFT_RESET)

_REFUSALS: dict[type[Fault], str] = {
    WrongPassword: "the BMC does not accept our credentials",
    Unreachable: "the BMC cannot be reached",
    Fails: "the BMC answered with an internal error",
    Garbage: "the BMC's answer makes no sense",
}


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Metal3's and Ironic's own times."""

    poll_seconds: float = 60.0
    """Between two looks at a host whose power is as wished."""
    change_poll_seconds: float = 10.0
    """Between two looks while its power changes."""
    soft_seconds: float = 180.0
    """How long a soft power task may take before it has failed; the next try is hard."""
    hard_seconds: float = 60.0
    bmc_seconds: float = 60.0
    """How long a BMC may take for an answer."""
    backoff_seconds: float = 60.0
    """After the n-th failure in a row the next try comes within this times 2 to the n."""

    def faster(self, speed: float) -> "Pace":
        return Pace(**{name: getattr(self, name) / speed for name in self.__struct_fields__})


class NoAnswer(Exception):
    """The BMC did not answer, or not to the point. Says why."""


class _Task(msgspec.Struct, frozen=True):
    command: Command
    deadline: float
    changes: int  # of the machine's power, before the task


class Conductor:
    """One power task at a time. What a task ended with stays known until the next one begins."""

    def __init__(self, machine: Machine, clock: Clock, pace: Pace) -> None:
        self._machine = machine
        self._clock = clock
        self._pace = pace
        self._task: _Task | None = None
        self.last_error = ""

    @property
    def is_busy(self) -> bool:
        return self._task is not None

    async def begin(self, command: Command) -> None:
        """Whether it was taken shows in `last_error`."""
        assert self._task is None, f"{self._machine.name}: a power task is under way"
        self.last_error = ""
        try:
            await self._reach_bmc()
        except NoAnswer as error:
            self.last_error = f"failed to {command.value}: {error}"
            return
        seconds = self._pace.soft_seconds if command in _SOFT else self._pace.hard_seconds
        self._task = _Task(command, self._clock.monotonic() + seconds, len(self._machine.history))
        self._machine.bmc.take(command)

    async def look(self) -> bool | None:
        """What the BMC shows; None while that cannot be known. Notices how a task ends."""
        try:
            await self._reach_bmc()
        except NoAnswer as error:
            if self._task:
                self._end(f"failed to {self._task.command.value}: {error}")
            return None
        shows_on = self._machine.bmc.shows_on
        if self._task is None:
            return shows_on
        if self._is_done(self._task, shows_on):
            self._end("")
        elif self._clock.monotonic() >= self._task.deadline:
            self._end(f"timed out waiting for {self._task.command.value}")
        elif self._task.command in _RESETS:
            return None  # a reset is one deed: the moment without power in its middle is not shown
        return shows_on

    def _end(self, error: str) -> None:
        self._task = None
        self.last_error = error

    def _is_done(self, task: _Task, shows_on: bool) -> bool:
        if task.command in _RESETS:
            return shows_on and len(self._machine.history) >= task.changes + 2
        return shows_on == (task.command is Command.ON)

    async def _reach_bmc(self) -> None:
        """Raises NoAnswer, at once or when patience ends."""
        bmc = self._machine.bmc
        slow = bmc.fault(Slow)
        takes = self._pace.bmc_seconds if bmc.fault(Hangs) else slow.seconds if slow else 0.0
        if takes:
            await asyncio.sleep(min(takes, self._pace.bmc_seconds))
        if takes >= self._pace.bmc_seconds:
            raise NoAnswer("the BMC did not answer in time")
        for fault in bmc.faults:
            if why := _REFUSALS.get(type(fault)):
                raise NoAnswer(why)
