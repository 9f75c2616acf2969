"""A machine with power: what stands under a hollow node, and the BMC beside it that switches it.

A machine belongs to one event loop and is only touched from there. Power follows a command after a while, as with real
machines: the BMC says yes at once, and what it shows changes when the power does. What is wrong with a BMC is data on
it, and the same data drives everything that speaks for it: Redfish, IPMI and the hollow baremetal operator.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeVar

import msgspec

from defib.clock import Clock

LOG_MAX = 100


class Command(Enum):
    """What a BMC can be told to do with the power."""

    ON = "on"
    OFF = "off"  # at once, whatever the operating system thinks of it
    SOFT_OFF = "soft off"  # asks the operating system to shut down
    RESET = "reset"  # off, then on
    SOFT_RESET = "soft reset"  # asks the operating system to start again


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """From a command to its effect."""

    on_seconds: float = 3.0
    off_seconds: float = 3.0
    soft_off_seconds: float = 15.0


class PowerChange(msgspec.Struct, frozen=True):
    """The power went on or off, at that moment."""

    at: datetime
    on: bool


class Happened(Enum):
    """What a BMC writes into its event log by itself, or because an operating system tells it."""

    POWER_OFF = "power off"
    POWER_ON = "power on"
    OS_STOPPED = "critical stop"
    WATCHDOG_RESET = "reset by watchdog"


class Logged(msgspec.Struct, frozen=True):
    """`at` is by the BMC's clock."""

    at: datetime
    what: Happened


class WrongPassword(msgspec.Struct, frozen=True):
    """The BMC takes no password that its users know, as after a replaced board."""


class Unreachable(msgspec.Struct, frozen=True):
    """Nothing answers at the BMC's address."""


class Hangs(msgspec.Struct, frozen=True):
    """The BMC takes a request and never answers it."""


class Slow(msgspec.Struct, frozen=True):
    """Every answer takes this long."""

    seconds: float


class Fails(msgspec.Struct, frozen=True):
    """Every request ends in an internal error of the BMC."""


class Garbage(msgspec.Struct, frozen=True):
    """Every answer is nonsense."""


class Claims(msgspec.Struct, frozen=True):
    """Whatever the power is, the BMC says that it is this."""

    on: bool


class IgnoresCommands(msgspec.Struct, frozen=True):
    """The BMC says yes to the next commands, this many, and does nothing about them."""

    times: int = 1


Fault = WrongPassword | Unreachable | Hangs | Slow | Fails | Garbage | Claims | IgnoresCommands
F = TypeVar("F", WrongPassword, Unreachable, Hangs, Slow, Fails, Garbage, Claims, IgnoresCommands)


class Machine:
    """Its BMC has a current of its own: it also answers when the machine is off."""

    def __init__(self, name: str, clock: Clock, *, on: bool = True, delays: Delays | None = None) -> None:
        self.name = name
        self.os_is_hung = False  # a hung operating system does not hear a soft off; the next start heals it
        self.history: list[PowerChange] = []
        self.delays = delays or Delays()
        self.bmc = Bmc(self, clock)
        self._clock = clock
        self._on = on
        self._listeners: list[Callable[[bool], None]] = []
        self._doing: Command | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        return self._on

    def subscribe(self, callback: Callable[[bool], None]) -> None:
        """`callback` hears every later change of the power, with the new state."""
        self._listeners.append(callback)

    def set_power(self, on: bool) -> None:
        """Power changes now: a cord is pulled or put in again. A command under way is lost with it."""
        self._drop_command()
        self._switch(on)

    def carry_out(self, command: Command) -> None:
        """Starts what `command` asks for. Another one under way gives way to it; the same one is not begun again."""
        if command is self._doing:
            return
        self._drop_command()
        match command:
            case Command.ON:
                self._begin(command, self.delays.on_seconds, self._end_on)
            case Command.OFF:
                self._begin(command, self.delays.off_seconds, self._end_off)
            case Command.SOFT_OFF:
                self._begin(command, self.delays.soft_off_seconds, self._end_soft_off)
            case Command.RESET:
                self._begin(command, self.delays.off_seconds, self._reset_half_way)
            case Command.SOFT_RESET:
                self._begin(command, self.delays.soft_off_seconds, self._soft_reset_half_way)

    def _begin(self, command: Command, seconds: float, end: Callable[[], None]) -> None:
        self._doing = command
        # In no context: what the machine then does is its own, and not of whoever sent the command.
        self._timer = asyncio.get_running_loop().call_later(seconds, end, context=Context())

    def _drop_command(self) -> None:
        self._doing = None
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _end_on(self) -> None:
        self._drop_command()
        self._switch(True)

    def _end_off(self) -> None:
        self._drop_command()
        self._switch(False)

    def _end_soft_off(self) -> None:
        self._drop_command()
        if not self.os_is_hung:
            self._switch(False)

    def _reset_half_way(self) -> None:
        self._begin(Command.RESET, self.delays.on_seconds, self._end_on)
        self._switch(False)

    def _soft_reset_half_way(self) -> None:
        if self.os_is_hung:
            self._drop_command()
        else:
            self._reset_half_way()

    def _switch(self, on: bool) -> None:
        if on == self._on:
            return
        self._on = on
        if on:
            self.os_is_hung = False
        self.history.append(PowerChange(self._clock.now(), on))
        self.bmc.write_down(Happened.POWER_ON if on else Happened.POWER_OFF)
        for listener in tuple(self._listeners):
            listener(on)


class Bmc:
    """The small computer beside a machine, as far as it is the same in every protocol."""

    def __init__(self, machine: Machine, clock: Clock) -> None:
        self.machine = machine
        self.log: deque[Logged] = deque(maxlen=LOG_MAX)
        self.clock_ahead = timedelta()  # of the true time
        self.tells_clock = True
        self._clock = clock
        self.username = "admin"
        self.password = f"secret-{machine.name}"
        self.taken: list[Command] = []  # what it said yes to, ignored or not
        self._faults: list[Fault] = []
        self._ignored = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(self._faults)

    def suffer(self, *faults: Fault) -> None:
        """From now on exactly these are wrong with it; none of them means that it is well."""
        self._faults = list(faults)
        self._ignored = 0
        for listener in tuple(self._listeners):
            listener()

    def subscribe(self, callback: Callable[[], None]) -> None:
        """`callback` hears that the faults have changed."""
        self._listeners.append(callback)

    def fault(self, kind: type[F]) -> F | None:
        return next((fault for fault in self._faults if isinstance(fault, kind)), None)

    def admits(self, username: str, password: str) -> bool:
        return not self.fault(WrongPassword) and (username, password) == (self.username, self.password)

    @property
    def shows_on(self) -> bool:
        claim = self.fault(Claims)
        return claim.on if claim else self.machine.is_on

    @property
    def now(self) -> datetime:
        """As its clock has it."""
        return self._clock.now() + self.clock_ahead

    def write_down(self, what: Happened) -> None:
        self.log.append(Logged(self.now, what))

    def take(self, command: Command) -> None:
        """The BMC says yes; whether anything comes of it is another matter."""
        self.taken.append(command)
        ignores = self.fault(IgnoresCommands)
        if ignores and self._ignored < ignores.times:
            self._ignored += 1
            return
        self.machine.carry_out(command)
