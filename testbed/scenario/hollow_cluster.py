"""Hollow nodes and hollow storage at work on some API server, for as long as a context lasts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from defib.clock import Clock
from defib.hollow.disk import Disks
from defib.hollow.machine import Machine
from defib.hollow.nodes import HollowNodes
from defib.hollow.site import Blueprint, Site
from defib.hollow.storage import HollowStorage
from defib.kube.client import Client
from testbed.scenario.profiles import Profile

LOOK_SECONDS = 0.1


class HollowCluster(msgspec.Struct, frozen=True, kw_only=True):
    client: Client
    clock: Clock
    nodes: HollowNodes
    disks: Disks


@asynccontextmanager
async def hollow_cluster(
    client: Client,
    clock: Clock,
    profile: Profile,
    blueprints: Iterable[Blueprint],
    machines: Iterable[Machine] = (),
) -> AsyncIterator[HollowCluster]:
    disks = Disks(clock)
    nodes = HollowNodes(Site(client=client, clock=clock, timers=profile.nodes, disks=disks), blueprints, machines)
    storage = HollowStorage(client, clock, profile.storage)
    await storage.install()
    async with alongside(nodes.run(), storage.run()):
        yield HollowCluster(client=client, clock=clock, nodes=nodes, disks=disks)


@asynccontextmanager
async def alongside(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs these until the context is left. Whoever is in it hears at once when one of them dies.

    What goes wrong comes out as itself: one error in a group of one would hide its name from those who handle it.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as errors:
        raise alone(errors) from None


def alone(error: BaseException) -> BaseException:
    """What went wrong, out of the groups of one that it came in."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def until(holds: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Whether it held at some moment within this time; asks again and again."""
    try:
        async with asyncio.timeout(seconds):
            while not await holds():  # noqa: ASYNC110 - the API server is asked, it does not call
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        return False
    return True
