"""All replicas of one operator, and what each of them spends. They are at rest when all are."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from testbed.cluster import ControlPlane
from tests.bench.replica import QUIET_CPU_SECONDS, Replica, operating
from tests.bench.spent import Counted, Spent


class Replicas:
    def __init__(self, members: Mapping[str, Replica]) -> None:
        self._members = members
        self._counted: dict[str, Counted] = {}
        self._cpu_seconds: dict[str, float] = {}

    async def until_ready(self) -> None:
        for replica in self._members.values():
            await replica.until_ready()

    async def until_quiet(self, rest: float = QUIET_CPU_SECONDS) -> None:
        for replica in self._members.values():
            await replica.until_quiet(rest)

    def fail_if_dead(self) -> None:
        for replica in self._members.values():
            replica.fail_if_dead()

    async def begin(self) -> None:
        """From here on it is measured."""
        self._counted = {name: await replica.counted() for name, replica in self._members.items()}
        self._cpu_seconds = {name: replica.cpu_seconds for name, replica in self._members.items()}

    async def spent(self) -> list[Spent]:
        """Since the beginning. To be asked for metrics costs something, which is left out."""
        cpu_seconds = {name: replica.cpu_seconds for name, replica in self._members.items()}
        return [
            Spent(
                replica=name,
                cpu_seconds=cpu_seconds[name] - self._cpu_seconds[name],
                counted=(await replica.counted()).since(self._counted[name]),
            )
            for name, replica in self._members.items()
        ]

    @property
    def resident_mib(self) -> float:
        """The most that any of them has."""
        return max(replica.resident_mib for replica in self._members.values())

    @property
    def peak_mib(self) -> float:
        """The most that any of them has had."""
        return max(replica.peak_mib for replica in self._members.values())


Staff = Callable[[], AbstractAsyncContextManager[Replicas]]
"""Starts an operator, and ends it."""


@asynccontextmanager
async def one_replica(cluster: ControlPlane) -> AsyncIterator[Replicas]:
    async with operating(cluster.kubeconfig, cluster.directory / "operator.log") as replica:
        yield Replicas({"operator": replica})
