"""Where a story is told: a cluster with its nodes, its storage and a person who looks at it and has a client."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Protocol

import msgspec

from defib.clock import Clock
from defib.hollow.nodes import HollowNodes
from defib.kube.client import Client
from testbed.scenario.hollow_cluster import HollowCluster, alongside
from testbed.scenario.log_book import LogBook
from testbed.scenario.profiles import PROFILES, Profile
from testbed.scenario.replica import Connect, Replica, settings_of
from testbed.scenario.sight import Sight
from testbed.scenario.story import Story


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A story's cluster, as it stands before the first line: its nodes are there, its workloads are not.

    `replica` is Defib, where the story has it; it does not run yet.
    """

    client: Client
    clock: Clock
    nodes: HollowNodes
    sight: Sight
    profile: Profile
    replica: Replica | None = None


class Stage(Protocol):
    """Every scene is new: nothing of an earlier story is left in it."""

    @property
    def name(self) -> str: ...

    def open(self, story: Story) -> AbstractAsyncContextManager[Scene]: ...


@asynccontextmanager
async def scene_of(story: Story, person: Client, cluster: HollowCluster, connect: Connect) -> AsyncIterator[Scene]:
    """`connect` gives Defib a line of its own to the API server."""
    clock = cluster.clock
    sight = Sight(person, clock, cluster.disks, story.name, LogBook(clock))
    machines = {name: node.machine for name, node in cluster.nodes.items()}
    replica = Replica(connect, clock, settings_of(story.operator), machines) if story.operator else None
    for name, machine in machines.items():
        machine.subscribe(partial(sight.remediation.power_changed, name))
    of_defib = (replica.run(), sight.remediation.run()) if replica else ()
    async with alongside(sight.run(), *of_defib):
        yield Scene(
            client=person,
            clock=clock,
            nodes=cluster.nodes,
            sight=sight,
            profile=PROFILES[story.timers],
            replica=replica,
        )
