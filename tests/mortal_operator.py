"""Operators that die when told to: before or after any of their writes and power commands, and nothing of them goes on.

A write is whatever is not read, on whichever object; events are left out, since nobody decides by them. A driver of
power counts with what it commands. What an operator was about to say when it died, nobody hears.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar

import msgspec

from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.kube.errors import Unreachable
from defib.kube.transport import Request, Response, Transport
from defib.power.base import Driver, Outcome, PowerState, Readiness, Reading, Target
from defib.power.registry import Drivers
from defib.replica import leadership_of
from defib.telemetry.metrics import Metrics

Twist = Callable[[], Awaitable[None]]


async def nothing_else() -> None:
    """The operator dies, and that is all that happens."""


class Doom(msgspec.Struct, frozen=True, kw_only=True):
    """When it strikes: with the deed of this number, or the first that holds these words; before it is done, or right
    after, when nobody has heard the answer yet. Then `twist` happens, and the operator is dead unless it is spared.
    """

    at: float = math.inf
    words: str = ""
    after: bool = False
    twist: Twist = nothing_else
    spares: bool = False

    def means(self, number: int, deed: str) -> bool:
        return number == self.at or (self.words != "" and self.words in deed)


NEVER = Doom()


class Life:
    """What one operator did, in order, and whether it has ended."""

    def __init__(self, doom: Doom = NEVER) -> None:
        self.deeds: list[str] = []
        self.was_struck = False
        self.is_dead = False
        self._doom = doom

    async def before(self, deed: str) -> int:
        """The number of the deed that is about to be done."""
        self.check()
        self.deeds.append(deed)
        number = len(self.deeds)
        if not self._doom.after:
            await self._strike(number, deed)
        return number

    async def after(self, number: int) -> None:
        if self._doom.after:
            await self._strike(number, self.deeds[number - 1])

    def check(self) -> None:
        """Raises Unreachable: whoever is dead reaches nobody."""
        if self.is_dead:
            raise Unreachable("the operator is dead")

    async def _strike(self, number: int, deed: str) -> None:
        if self.was_struck or not self._doom.means(number, deed):
            return
        self.is_dead = not self._doom.spares
        await self._doom.twist()
        self.was_struck = True
        if self.is_dead:
            await asyncio.Event().wait()  # until it is buried


class MortalLine:
    """A connection of which every write is counted. `asks` hears of each before it is sent."""

    def __init__(self, transport: Transport, life: Life, asks: Callable[[Request], None]) -> None:
        self._transport = transport
        self._life = life
        self._asks = asks

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        self._life.check()
        counts = request.method != "GET" and "/events" not in request.path
        number = 0
        if counts:
            number = await self._life.before(str(request))
            self._asks(request)
        async with self._transport.send(request) as response:
            if counts:
                await self._life.after(number)
            yield response

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()


class MortalDriver:
    """A driver of which every command is counted."""

    can_read_state: ClassVar[bool] = True

    def __init__(self, driver: Driver, life: Life) -> None:
        self._driver = driver
        self._life = life

    async def state(self, target: Target, within_seconds: float) -> Reading:
        self._life.check()
        return await self._driver.state(target, within_seconds)

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        self._life.check()
        return await self._driver.check(target, within_seconds)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._command(f"power off {target.node}", lambda: self._driver.off(target, within_seconds))

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._command(f"power on {target.node}", lambda: self._driver.on(target, within_seconds))

    async def _command(self, deed: str, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        number = await self._life.before(deed)
        outcome = await send()
        await self._life.after(number)
        return outcome


class BlindMortalDriver(MortalDriver):
    """The same, of a driver that cannot read the power."""

    can_read_state: ClassVar[bool] = False


class CannotRead:
    """A driver that switches as another one does, and reads nothing."""

    can_read_state: ClassVar[bool] = False

    def __init__(self, driver: Driver, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock

    async def state(self, target: Target, within_seconds: float) -> Reading:  # noqa: ARG002 - nobody is asked
        return Reading(PowerState.UNKNOWN, self._clock.now(), "it has no sense for that")

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        return await self._driver.check(target, within_seconds)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._driver.off(target, within_seconds)

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._driver.on(target, within_seconds)


def mortal(drivers: Mapping[str, Driver], clock: Clock, life: Life) -> Drivers:
    """Made anew for each operator, as everything that it remembers is."""
    wrapped = {
        name: (MortalDriver if driver.can_read_state else BlindMortalDriver)(driver, life)
        for name, driver in drivers.items()
    }
    return Drivers(clock, wrapped)


@asynccontextmanager
async def operating(line: Transport, clock: Clock, settings: Settings, drivers: Drivers) -> AsyncIterator[None]:
    """A new operator with a memory of its own, until the context is left. It does not end by itself, nor releases locks."""
    operator = Operator(line, clock, settings, Metrics(), drivers)
    operator.leadership = leadership_of(settings, line, clock, operator)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(operator.run(), name="defib")
        try:
            yield
        finally:
            running.cancel()
