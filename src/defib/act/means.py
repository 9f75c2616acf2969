"""What every action is done with: the API server, the time, and whoever must be asked or told on the way."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from defib.act.shared_reads import SharedReads
from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.discovery import Discovery
from defib.kube.errors import KubeError, NotFound
from defib.kube.kinds import Kind, R, Ref
from defib.model.health_check import KindRef
from defib.model.mandate import Mandate
from defib.model.meta import Unstructured
from defib.power.registry import Drivers

REQUEST_SECONDS = 10.0  # so that an action has time left to look what became of a request without an answer

Note = Callable[[Kind[Any], Any], object]
A = TypeVar("A")
B = TypeVar("B")


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """`stop` gives the reason why nothing new may be started now, or nothing. `note` hears of what we wrote."""

    client: Client
    discovery: Discovery
    clock: Clock
    lock_namespace: str
    namespace: str  # our own
    stop: Callable[[], str]
    note: Note
    drivers: Drivers
    reads: SharedReads = msgspec.field(default_factory=SharedReads)

    async def live(self, ref: Ref[R]) -> R | None:
        """As it is now, not as we remember it; None when it is not there."""
        try:
            return await self.client.get(ref, deadline=REQUEST_SECONDS)
        except NotFound:
            return None

    async def live_for_many(self, ref: Ref[R]) -> R | None:
        """The same, where many actions ask after one object in the same moment: no answer is older than its question."""
        found = await self.reads.ask(ref, lambda: self._live_or_why_not(ref))
        if isinstance(found, KubeError):
            raise found
        return found

    async def _live_or_why_not(self, ref: Ref[R]) -> R | KubeError | None:
        """A failure is an answer for all too: else each would wait for one of its own, one after the other."""
        try:
            return await self.live(ref)
        except KubeError as error:
            return error

    async def address(self, kind: KindRef, name: str, namespace: str) -> Ref[Unstructured] | None:
        """Where an object of a kind that was unknown at build time lives; None when the kind has another scope now."""
        found = await self.discovery.find(kind.group, kind.name, kind.version)
        if found.namespaced == bool(namespace):
            return found.at(name, namespace)
        self.discovery.forget(found)
        return None

    def forbids(self, mandate: Mandate) -> str:
        """Why nothing may be written; empty when it may."""
        return "" if mandate.holds(self.clock.monotonic()) else "our mandate has ended"

    def forbids_start(self, mandate: Mandate) -> str:
        """Why no remediation may begin; empty when one may."""
        return self.forbids(mandate) or self.stop()


async def side_by_side(one: Coroutine[Any, Any, A], other: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """What two reads say. When one fails the other is given up, and the error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(one), group.create_task(other)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return first.result(), second.result()
