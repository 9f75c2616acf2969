"""Replicas of the real operator that can be killed between any two deeds, ended in order, frozen and cut off.

A deed is a write or a command to a machine. Whoever is killed says nothing more; another one comes in its place, with
a name and a memory of its own, on the same connection.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from itertools import count
from types import TracebackType
from typing import ClassVar

import msgspec

from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.decide.rules import Rules
from defib.hollow.machine import Machine
from defib.hollow.power import HollowPower
from defib.kube.errors import Unreachable
from defib.kube.transport import Request, Response, Transport
from defib.power.base import Driver, Outcome, Readiness, Reading, Target
from defib.power.kubelet import AskKubelet
from defib.power.manual import Manual
from defib.power.registry import Drivers
from defib.replica import leadership_of, until_cancelled
from defib.rules_of import rules_of
from defib.telemetry.metrics import Metrics
from tests.simulation.freezing import REPLICA
from tests.simulation.history import Asked, History, Switched
from tests.simulation.shape import DRIVER

NEEDED = ("nodes", "heartbeats", "configmaps")  # to be seen by whoever destroys something


class Doom(msgspec.Struct, frozen=True):
    """With the deed of this number it dies: before it is done, or right after, when nobody has heard the answer yet.

    With `words` only a deed that holds them counts. With `freeze` it is frozen instead, while the deed is on its way.
    """

    at: float = math.inf
    after: bool = False
    words: str = ""
    freeze: Callable[[], None] | None = None


class Replica:
    """One life of a replica: what it has done, and whether it has ended."""

    def __init__(self, slot: str, name: str) -> None:
        self.slot = slot
        self.name = name
        self.deeds = 0
        self.doom = Doom()
        self.is_dead = False
        self.task: asyncio.Task[None] | None = None
        self.operator: Operator | None = None
        self.rules = Rules()
        self._blind_from: float | None = None

    def blind_seconds(self, now: float) -> float:
        """For how long it has known that it does not see what it must. Asked often, since it counts from the first time."""
        blind = self.operator.picture.cluster.blind if self.operator is not None else ()
        is_blind = any(one.kind in NEEDED for one in blind)
        self._blind_from = (now if self._blind_from is None else self._blind_from) if is_blind else None
        return 0.0 if self._blind_from is None else now - self._blind_from

    def kill(self) -> None:
        """As kill -9 does it."""
        self.is_dead = True
        self.leave()

    def leave(self) -> None:
        """As SIGTERM does it."""
        if self.task is not None:
            self.task.cancel()

    def check(self) -> None:
        """Raises Unreachable: whoever is dead reaches nobody."""
        if self.is_dead:
            raise Unreachable("the replica is dead")

    async def before(self, deed: str) -> None:
        self.check()
        self.deeds += 1
        if not self.doom.after:
            await self._strike(deed)

    async def after(self, deed: str) -> None:
        if self.doom.after:
            await self._strike(deed)

    async def _strike(self, deed: str) -> None:
        if self.deeds < self.doom.at or self.doom.words not in deed:
            return
        doom, self.doom = self.doom, Doom()
        if doom.freeze is not None:
            doom.freeze()
        else:
            self.kill()
            await asyncio.Event().wait()  # until it is buried


class _Deed:
    """A write on its way: whoever is to die with it dies before it, or before its answer."""

    def __init__(self, sending: AbstractAsyncContextManager[Response], replica: Replica, deed: str) -> None:
        self._sending = sending
        self._replica = replica
        self._deed = deed

    async def __aenter__(self) -> Response:
        await self._replica.before(self._deed)
        response = await self._sending.__aenter__()
        try:
            await self._replica.after(self._deed)
        except BaseException as error:
            await self._sending.__aexit__(type(error), error, error.__traceback__)
            raise
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._sending.__aexit__(kind, error, trace)


class Line:
    """Its connection. What the election writes is no deed: it goes over a line of its own."""

    def __init__(self, transport: Transport, replica: Replica, note: Callable[[Replica, Request], None]) -> None:
        self._transport = transport
        self._replica = replica
        self._note = note

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        self._replica.check()
        self._note(self._replica, request)
        sending = self._transport.send(request)
        return sending if request.method == "GET" else _Deed(sending, self._replica, str(request))

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()


class ElectionLine(Line):
    """The same, of which nothing is counted or noted."""

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        self._replica.check()
        return self._transport.send(request)


class Hands:
    """A driver of which every command is a deed."""

    can_read_state: ClassVar[bool] = True

    def __init__(self, driver: Driver, replica: Replica, witness: "Witness") -> None:
        self._driver = driver
        self._replica = replica
        self._witness = witness

    async def state(self, target: Target, within_seconds: float) -> Reading:
        self._replica.check()
        return await self._driver.state(target, within_seconds)

    async def check(self, target: Target, within_seconds: float) -> Readiness:
        self._replica.check()
        return await self._driver.check(target, within_seconds)

    async def off(self, target: Target, within_seconds: float) -> Outcome:
        return await self._command(target.node, "off", lambda: self._driver.off(target, within_seconds))

    async def on(self, target: Target, within_seconds: float) -> Outcome:
        return await self._command(target.node, "on", lambda: self._driver.on(target, within_seconds))

    async def _command(self, node: str, power: str, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        replica = self._replica
        self._witness.switched(replica, node, power)
        await replica.before(f"switch {node} {power}")
        outcome = await send()
        await replica.after(f"switch {node} {power}")
        return outcome


class _Unread(Metrics):
    """Nobody reads them, so what each request, event and pass would tell is not even counted."""

    def answered(self, verb: str, code: str, seconds: float) -> None: ...

    def watched(self, kind: str, events: int = 1) -> None: ...

    def passed(self, seconds: float) -> None: ...

    def decided(self, seconds: float) -> None: ...


@cache
def _metrics() -> Metrics:
    """Of all replicas of all days together: to make some takes as long as some passes."""
    return _Unread()


class Replicas:
    """What each has of its own goes by the name of its slot: a clock, settings, and the machines that it reaches."""

    def __init__(
        self,
        clock_of: Callable[[str], Clock],
        settings_of: Callable[[str], Settings],
        history: History,
        machines_of: Callable[[str], Mapping[str, Machine]],
        asking: AskKubelet,
    ) -> None:
        self.there: dict[str, Replica] = {}
        self._clock_of = clock_of
        self._settings_of = settings_of
        self._history = history
        self._machines_of = machines_of
        self._asking = asking
        self._numbers = count()

    def start(self, slot: str, transport: Transport, group: asyncio.TaskGroup, witness: "Witness") -> None:
        """Where one is already, nothing happens."""
        if slot in self.there and not self._has_ended(slot):
            return
        replica = Replica(slot, f"{slot}-{next(self._numbers)}")
        clock = self._clock_of(slot)
        settings = msgspec.structs.replace(self._settings_of(slot), replica_name=replica.name)
        driver = Hands(HollowPower(clock, self._machines_of(slot)), replica, witness)
        drivers: dict[str, Driver] = {DRIVER: driver, "manual": Manual(clock)}  # none is loaded in a thread
        line = Line(transport, replica, witness.noted)
        operator = Operator(line, clock, settings, _metrics(), Drivers(clock, drivers, asking=self._asking))
        quiet = ElectionLine(transport, replica, witness.noted)
        operator.leadership = leadership_of(settings, quiet, clock, operator)
        replica.operator, replica.rules = operator, rules_of(settings)
        self.there[slot] = replica
        self._history.happened(f"{replica.name} starts")
        token = REPLICA.set(slot)  # what it starts carries its name from here on
        replica.task = group.create_task(until_cancelled(operator), name=replica.name)
        REPLICA.reset(token)

    def _has_ended(self, slot: str) -> bool:
        task = self.there[slot].task
        return task is not None and task.done()

    def end(self) -> None:
        for replica in self.there.values():
            replica.kill()


class Witness:
    """Writes down what replicas ask for, and what is true at that moment: `holder` says who may do that now."""

    def __init__(self, history: History, holder: Callable[[str, str], str], runs: Callable[[str, str], bool]) -> None:
        self._history = history
        self._holder = holder
        self._runs = runs

    def noted(self, replica: Replica, request: Request) -> None:
        now = self._history.now
        blind = replica.blind_seconds(now)
        if "watch" in request.query:
            return
        parts = request.path.split("/")
        is_pod = request.method == "DELETE" and len(parts) > 1 and parts[-2] == "pods"
        asked = Asked(
            at=now,
            replica=replica.name,
            request=request,
            holder=self._holder(replica.name, request.path),
            runs_there=is_pod and self._runs(parts[-3], parts[-1]),
            blind_seconds=blind,
        )
        self._history.note(asked)

    def switched(self, replica: Replica, node: str, power: str) -> None:
        holder = self._holder(replica.name, node)
        self._history.note(
            Switched(self._history.now, replica.name, node, power, holder, replica.blind_seconds(self._history.now))
        )
