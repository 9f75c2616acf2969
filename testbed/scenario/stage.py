"""Where a story is told: a cluster with its nodes, its storage and a person who looks at it and has a client."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from defib.clock import Clock
from defib.hollow.nodes import HollowNodes
from defib.kube.client import Client
from testbed.scenario.profiles import Profile
from testbed.scenario.sight import Sight
from testbed.scenario.story import Story


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """A story's cluster, as it stands before the first line: its nodes are there, its workloads are not."""

    client: Client
    clock: Clock
    nodes: HollowNodes
    sight: Sight
    profile: Profile


class Stage(Protocol):
    """Every scene is new: nothing of an earlier story is left in it."""

    @property
    def name(self) -> str: ...

    def open(self, story: Story) -> AbstractAsyncContextManager[Scene]: ...
