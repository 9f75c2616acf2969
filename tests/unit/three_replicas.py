"""Several whole operators on one embedded server in virtual time, of which one leads by a Lease."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.kube.transport import Request, Response, Transport
from defib.model.mandate import Mandate
from defib.power.base import Driver
from defib.replica import leadership_of, until_cancelled
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.store import DELETED, Change
from defib.telemetry.metrics import Metrics
from tests.mortal_operator import NEVER, Doom, Life, MortalLine, mortal
from tests.unit.three_nodes import HOME, Cluster3, play

LOCK = "defib-leader"
LEASES = "leases.coordination.k8s.io"
LEASE, RENEW, RETRY = 15.0, 10.0, 2.0
SICK = 10.0  # seconds until the check believes it
MOMENT = 0.1  # for what takes no time but a few turns


class SkewedClock:
    """Shows another time of day; what lasts a second lasts a second."""

    def __init__(self, clock: Clock, skew: timedelta) -> None:
        self._clock = clock
        self._skew = skew

    def now(self) -> datetime:
        return self._clock.now() + self._skew

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def jitter(self, span: float) -> float:
        return self._clock.jitter(span)


class LifeLine:
    """A connection for the election alone: none of its writes is a deed, and it ends with the operator's life."""

    def __init__(self, transport: Transport, life: Life) -> None:
        self._transport = transport
        self._life = life

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        self._life.check()
        async with self._transport.send(request) as response:
            yield response

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()


class Replica(msgspec.Struct, eq=False):
    name: str
    operator: Operator
    life: Life
    task: asyncio.Task[None] | None = None

    @property
    def mandate(self) -> Mandate | None:
        """By which it may act now."""
        permit = self.operator.leadership.permit
        return permit if isinstance(permit, Mandate) and not self.life.is_dead else None

    def kill(self) -> None:
        """As kill -9 does it: nothing that it wanted to say is heard."""
        self.life.is_dead = True
        self.terminate()

    def terminate(self) -> None:
        """As SIGTERM does it."""
        assert self.task is not None
        self.task.cancel()


class Held(msgspec.Struct, frozen=True):
    """What stood in the lock, and from when on."""

    at: float
    holder: str
    seconds: int
    transitions: int


class Replicas:
    """Who runs, who led when, and what stood in the lock."""

    def __init__(self, server: ApiServer, clock: Clock, group: asyncio.TaskGroup) -> None:
        self.server = server
        self.clock = clock
        self.all: list[Replica] = []
        self.held: list[Held] = []
        self._group = group
        server.reactions.append(self._noticed)

    def start(
        self,
        name: str,
        *,
        doom: Doom = NEVER,
        skew: timedelta = timedelta(0),
        drivers: Mapping[str, Driver] | None = None,
        **settings: Any,
    ) -> Replica:
        life = Life(doom)
        clock = SkewedClock(self.clock, skew)
        line = InProcess(self.server, name)
        known = Settings(election="lease", replica_name=name, default_check="off", **settings)
        mortals = mortal(drivers or {}, clock, life)
        operator = Operator(MortalLine(line, life, lambda _: None), clock, known, Metrics(), mortals)
        operator.leadership = leadership_of(known, LifeLine(line, life), clock, operator)
        replica = Replica(name, operator, life)
        self.all.append(replica)
        self.run(replica)
        return replica

    def run(self, replica: Replica) -> None:
        replica.task = self._group.create_task(until_cancelled(replica.operator), name=replica.name)

    def end(self) -> None:
        for replica in self.all:
            if replica.task is not None and not replica.task.done():
                replica.kill()

    @property
    def leaders(self) -> list[str]:
        return [replica.name for replica in self.all if replica.mandate is not None]

    async def until_leads(self, name: str, within: float) -> float:
        """How long it took, to a tenth of a second; at no moment may two lead."""
        began = self.clock.monotonic()
        while self.leaders != [name]:
            assert len(self.leaders) <= 1, self.leaders
            assert self.clock.monotonic() < began + within, f"{self.leaders} and not {name} after {within} s"
            await asyncio.sleep(MOMENT)  # virtual
        return self.clock.monotonic() - began

    async def pass_by(self, seconds: float) -> set[str]:
        """Who led in the meantime; at no moment may two lead."""
        led: set[str] = set()
        for _ in range(round(seconds / MOMENT)):
            await asyncio.sleep(MOMENT)  # virtual
            assert len(self.leaders) <= 1, self.leaders
            led |= set(self.leaders)
        return led

    def writes(self, name: str) -> list[str]:
        """Whatever it wrote or tried to, besides the lock by which it leads."""
        asked = [f"{one.verb} {one.path}" for one in self.server.audit.writes(name)]
        return [one for one in asked if f"/{HOME}/leases" not in one]

    def last_write(self, name: str) -> datetime | None:
        """Of the same."""
        times = [one.time for one in self.server.audit.writes(name) if f"/{HOME}/leases" not in one.path]
        return times[-1] if times else None

    @property
    def holders(self) -> list[str]:
        """Who stood in the lock, one after the other."""
        names = [one.holder for one in self.held]
        return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]

    @property
    def last_renewal(self) -> float:
        return self.held[-1].at

    def _noticed(self, change: Change) -> None:
        if change.resource != LEASES or change.kind == DELETED:
            return
        meta, spec = change.now.object["metadata"], change.now.object["spec"]
        if (meta["namespace"], meta["name"]) == (HOME, LOCK):
            seen = spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]
            self.held.append(Held(self.clock.monotonic(), *seen))


def creations(replicas: Replicas) -> list[str]:
    """Who made remediations."""
    asked = [one for one in replicas.server.audit if one.verb == "create" and "podfailoverremediations" in one.path]
    return [one.client for one in asked if one.status == 201]


def done(server: ApiServer, verb: str, what: str) -> Counter[str]:
    """How often each path of a kind was written with success, by whomever."""
    asked = [one for one in server.audit if one.verb == verb and f"/{what}" in one.path and one.status in (200, 201)]
    return Counter(one.path for one in asked)


Scenario = Callable[[Replicas, Cluster3], Awaitable[None]]


@asynccontextmanager
async def replicas_on(server: ApiServer, clock: Clock) -> AsyncIterator[Replicas]:
    async with asyncio.TaskGroup() as group:
        replicas = Replicas(server, clock, group)
        try:
            yield replicas
        finally:
            replicas.end()


def together(scenario: Scenario) -> None:
    """On a small cluster with a check that is quick to judge."""

    async def main(stage: Cluster3) -> None:
        await stage.make_check()
        async with replicas_on(stage.server, stage.clock) as replicas:
            await scenario(replicas, stage)

    play(main)
