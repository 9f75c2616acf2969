"""The stage in this process: the embedded API server with its controllers, in whatever time the clock shows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.transport import Transport
from defib.simulate import controllers
from defib.simulate.in_process import InProcess
from defib.simulate.node_lifecycle import NodeLifecycle
from defib.simulate.server import ApiServer
from defib.simulate.workloads import Workloads
from testbed.scenario.hollow_cluster import alongside, hollow_cluster
from testbed.scenario.manifests import NAMESPACES, blueprints
from testbed.scenario.profiles import PROFILES
from testbed.scenario.stage import Scene, scene_of
from testbed.scenario.story import Story


class EmbeddedStage:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def name(self) -> str:
        return "the embedded server"

    @asynccontextmanager
    async def open(self, story: Story) -> AsyncIterator[Scene]:
        clock, profile = self._clock, PROFILES[story.timers]
        server = ApiServer(clock)
        controllers.attach(server)

        def client(name: str) -> Client:
            return Client(InProcess(server, name), clock)

        async def connect() -> Transport:
            return InProcess(server, "defib")

        person = client("person")
        await person.create(NAMESPACES, {"metadata": {"name": story.name}})
        manager = alongside(
            Workloads(server, clock, profile.workloads()).run(),
            NodeLifecycle(client("node-lifecycle"), clock, profile.nodes).run(),
        )
        async with (
            manager,
            hollow_cluster(client("kubelet"), clock, profile, blueprints(story)) as cluster,
            scene_of(story, person, cluster, connect) as scene,
        ):
            yield scene
