"""The demo's two replicas of the operator: one leads, the other stands by, and the one that leads can be killed."""

import asyncio
from collections.abc import Mapping
from itertools import count

import msgspec

from defib.app import Operator
from defib.clock import Clock
from defib.config import Settings
from defib.hollow.machine import Machine
from defib.hollow.power import HollowPower
from defib.picture import Picture
from defib.power.registry import Drivers
from defib.replica import leadership_of
from defib.simulate.cluster import SimulatedCluster
from defib.telemetry.metrics import Metrics

PREFIX = "defib-"
START_AGAIN_SECONDS = 3.0  # as a kubelet would start the container again
# Lease, renewal and retry as the operator has them by itself, when the demo is not faster than real life.
LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS = 15.0, 10.0, 2.0
LEAST_LEASE_SECONDS = 2.0  # a busy machine must not look like a dead leader


class Replica(msgspec.Struct, eq=False):
    name: str
    operator: Operator
    running: asyncio.Task[None]

    @property
    def leads(self) -> bool:
        return not self.running.done() and self.operator.leadership.standing.leads


class Cast:
    def __init__(self, cluster: SimulatedCluster, clock: Clock, speed: float, driver: str) -> None:
        self._cluster = cluster
        self._clock = clock
        self._speed = speed
        self._driver = driver
        self._machines: Mapping[str, Machine] = {name: node.machine for name, node in cluster.nodes.items()}
        self._names = count()
        self.replicas: list[Replica] = []
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Two replicas, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._start()
            self._start()
            await asyncio.Event().wait()

    @property
    def leader(self) -> str:
        """Empty while nobody leads."""
        return next((replica.name for replica in self.replicas if replica.leads), "")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(replica.name for replica in self.replicas)

    @property
    def picture(self) -> Picture | None:
        """What the leader sees, or while there is none, what any replica does."""
        leading = sorted(self.replicas, key=lambda replica: not replica.leads)
        return leading[0].operator.picture if leading else None

    def kill_leader(self) -> str:
        """As kill -9 does it: nothing is ended and nothing released. Another one is started in its place; its name."""
        dead = next((replica for replica in self.replicas if replica.leads), None)
        if dead is None or self._group is None:
            return ""
        dead.running.cancel()
        self.replicas.remove(dead)
        self._group.create_task(self._start_later(), name="start again")
        return dead.name

    async def _start_later(self) -> None:
        await asyncio.sleep(START_AGAIN_SECONDS)
        self._start()

    def _start(self) -> None:
        assert self._group is not None
        name = f"{PREFIX}{next(self._names)}"
        operator = self._operator(name)
        self.replicas.append(Replica(name, operator, self._group.create_task(_run(operator), name=name)))

    def _operator(self, name: str) -> Operator:
        lease = max(LEASE_SECONDS / self._speed, LEAST_LEASE_SECONDS)
        settings = Settings(
            election="lease",
            replica_name=name,
            default_check="off",
            resync_seconds=0.25,  # frequent passes: heartbeats alone do not cause one, and their age is shown
            lease_duration_seconds=lease,
            renew_deadline_seconds=lease * RENEW_SECONDS / LEASE_SECONDS,
            retry_period_seconds=lease * RETRY_SECONDS / LEASE_SECONDS,
        )
        transport = self._cluster.transport(name)
        drivers = Drivers(self._clock, {self._driver: HollowPower(self._clock, self._machines)})
        operator = Operator(transport, self._clock, settings, Metrics(), drivers)
        operator.leadership = leadership_of(settings, transport, self._clock, operator)
        return operator


async def _run(operator: Operator) -> None:
    try:
        await operator.run()
    finally:
        await operator.close()
