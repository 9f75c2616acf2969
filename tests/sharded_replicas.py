"""Operators that share the work on an embedded server, come and go as they like, and who has which bucket meanwhile."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import msgspec

from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.coordinate.seats import BUCKETS
from defib.coordinate.sharded import BUCKET_LEASE
from defib.coordinate.shards import bucket_of
from defib.kube.client import Client, Merge
from defib.kube.kinds import LEASES
from defib.kube.transport import Transport
from defib.power.registry import Drivers
from defib.replica import leadership_of
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.telemetry.metrics import Metrics

HOME = "defib-system"
LEASE_SECONDS, RETRY_SECONDS = 15.0, 2.0
SETTLED_SECONDS = 2 * LEASE_SECONDS  # after so long everybody has what they would rather have

Object = dict[str, Any]


async def seconds(count: float) -> None:
    """Virtual ones: they pass at once."""
    await asyncio.sleep(count)


class Holders(msgspec.Struct, frozen=True):
    """Who has which bucket, as it stands in the Leases; nobody, where the time is over."""

    of: dict[int, str]

    @property
    def unowned(self) -> list[int]:
        return [number for number in range(BUCKETS) if not self.of.get(number)]

    @property
    def shares(self) -> Counter[str]:
        return Counter(name for name in self.of.values() if name)

    def moved(self, later: "Holders") -> int:
        return sum(self.of.get(number) != later.of.get(number) for number in range(BUCKETS))

    def of_node(self, node: str) -> str:
        return self.of.get(bucket_of(node, BUCKETS), "")


def holders_on(server: ApiServer, now: datetime) -> Holders:
    found: dict[int, str] = {}
    for version in server.store.collection(str(LEASES)).objects.values():
        lease = version.object
        name, spec = lease["metadata"]["name"], lease["spec"]
        if not name.startswith(BUCKET_LEASE):
            continue
        silent = (now - datetime.fromisoformat(spec["renewTime"])).total_seconds()
        is_held = silent < spec["leaseDurationSeconds"]
        found[int(name.removeprefix(BUCKET_LEASE))] = spec["holderIdentity"] if is_held else ""
    return Holders(found)


class _Replica(msgspec.Struct):
    operator: Operator
    task: asyncio.Task[None]


class Replicas:
    """`line` makes the connection of each; `drivers` what switches machines for it."""

    def __init__(
        self,
        server: ApiServer,
        clock: Clock,
        group: asyncio.TaskGroup,
        line: Callable[[str], Transport] | None = None,
        drivers: Callable[[str], Drivers] | None = None,
    ) -> None:
        self.server = server
        self._clock = clock
        self._group = group
        self._line = line or (lambda name: InProcess(server, name))
        self._drivers = drivers or (lambda _: Drivers(clock))
        self._there: dict[str, _Replica] = {}

    def start(self, *names: str, **settings: Any) -> None:
        for name in names:
            line = self._line(name)
            usual = {"default_check": "off", "election": "shards"}
            chosen = Settings(replica_name=name, **(usual | settings))
            operator = Operator(line, self._clock, chosen, Metrics(), self._drivers(name))
            operator.leadership = leadership_of(chosen, line, self._clock, operator)
            self._there[name] = _Replica(operator, self._group.create_task(operator.run(), name=name))

    def kill(self, name: str) -> None:
        """As kill -9 does: nothing is ended, nothing is given back."""
        self._there.pop(name).task.cancel()

    async def stop(self, name: str) -> None:
        """As SIGTERM does: it ends what it has begun while it still leads, and then gives everything back."""
        gone = self._there.pop(name)
        has_finished = await gone.operator.finish()
        gone.task.cancel()
        await asyncio.wait({gone.task})
        if has_finished:
            await gone.operator.leadership.release()

    async def take(self, name: str, number: int) -> None:
        """As one does whom nobody here knows."""
        lock = LEASES.at(f"{BUCKET_LEASE}{number}", HOME)
        await Client(InProcess(self.server, name), self._clock).patch(lock, Merge({"spec": {"holderIdentity": name}}))

    def end(self) -> None:
        for name in tuple(self._there):
            self.kill(name)

    def is_there(self, name: str) -> bool:
        return name in self._there

    def __getitem__(self, name: str) -> Operator:
        return self._there[name].operator

    @property
    def holders(self) -> Holders:
        return holders_on(self.server, self._clock.now())

    async def settle(self) -> Holders:
        await seconds(SETTLED_SECONDS)
        return self.holders


@asynccontextmanager
async def replicas_on(
    server: ApiServer,
    clock: Clock,
    *,
    line: Callable[[str], Transport] | None = None,
    drivers: Callable[[str], Drivers] | None = None,
) -> AsyncIterator[Replicas]:
    async with asyncio.TaskGroup() as group:
        replicas = Replicas(server, clock, group, line, drivers)
        try:
            yield replicas
        finally:
            replicas.end()
