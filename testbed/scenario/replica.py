"""Defib on the stage: one replica, as `defib run` would run it, that can be killed at any moment and started anew."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn

from defib import app
from defib.clock import Clock
from defib.config import BY_KEY, BadSettings, Settings, load
from defib.hollow.machine import Machine
from defib.hollow.power import HollowPower
from defib.kube.errors import Unreachable
from defib.kube.transport import Request, Response, Transport
from defib.power.manual import Manual
from defib.power.registry import Drivers
from defib.telemetry.metrics import Metrics
from testbed.scenario.errors import did_you_mean
from testbed.scenario.story import Operator, OperatorWith

END_SECONDS = 10.0

Connect = Callable[[], Awaitable[Transport]]


def settings_of(operator: Operator | OperatorWith) -> Settings:
    """Those of a story. Its checks are its own, so none is made by default. Raises BadSettings."""
    said = {str(setting.key): str(setting.value) for setting in operator.settings}
    unknown = [f"there is no setting `{key}`{did_you_mean(key, BY_KEY)}" for key in said if key not in BY_KEY]
    if unknown:
        raise BadSettings(unknown)
    return load({"default_check": "off"} | said, {}, lambda _: "")


class Replica:
    """`machines` are those that it can switch, by the driver `hollow`."""

    def __init__(
        self, connect: Connect, clock: Clock, settings: Settings, machines: Mapping[str, Machine] | None = None
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._settings = settings
        self._machines = machines or {}
        self._group: asyncio.TaskGroup | None = None
        self._line: _Line | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> NoReturn:
        """Carries it for as long as the story lasts; if it dies by itself, so does the story."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await asyncio.Event().wait()
        finally:
            await self._hang_up()
        raise AssertionError("nobody sets that event")

    @property
    def is_running(self) -> bool:
        return self._task is not None

    async def start(self) -> None:
        assert self._group, "the stage runs before anything on it"
        assert self._task is None, "it runs already"
        self._line = _Line(await self._connect())
        clock = self._clock
        # All that a story can name: looking for others takes threads, of which virtual time knows nothing.
        drivers = Drivers(clock, {"hollow": HollowPower(clock, self._machines), "manual": Manual(clock)})
        operator = app.Operator(self._line, self._clock, self._settings, Metrics(), drivers)
        self._task = self._group.create_task(operator.run(), name="defib")

    async def kill(self) -> None:
        """Nothing that it would still do on its way out reaches anybody."""
        assert self._line, "it does not run"
        assert self._task, "it does not run"
        task, self._task = self._task, None
        self._line.cut()
        task.cancel()
        async with asyncio.timeout(END_SECONDS):
            await asyncio.wait([task])
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Not left to the replica: one that is killed before its first turn would never come to it."""
        if self._line:
            await self._line.close()
            self._line = None


class _Line:
    """A connection that can be cut for good."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._is_cut = False

    def cut(self) -> None:
        self._is_cut = True

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if self._is_cut:
            raise Unreachable(f"{request}: the replica is dead")
        async with self._transport.send(request) as response:
            yield response

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()
