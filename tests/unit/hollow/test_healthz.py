"""A hollow kubelet answers its neighbours as a real one in the same trouble would. In real time, on loopback."""

import asyncio

import aiohttp
import pytest

from defib.clock import SystemClock
from defib.hollow.disk import Disks
from defib.hollow.healthz import healthz
from defib.hollow.nodes import HollowNodes
from defib.hollow.site import Site
from defib.hollow.timers import Timers
from defib.kube.client import Client
from defib.kube.kinds import unstructured
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from tests.unit.hollow.day import blueprints

RAW_NODES = unstructured("", "v1", "nodes", "Node", namespaced=False)
BRIEFLY = aiohttp.ClientTimeout(total=0.3)


@pytest.fixture
def server() -> ApiServer:
    return ApiServer(SystemClock())


@pytest.fixture
def nodes(server: ApiServer) -> HollowNodes:
    clock = SystemClock()
    client = Client(InProcess(server), clock)
    site = Site(client=client, clock=clock, timers=Timers(boot_seconds=0), disks=Disks(clock))
    return HollowNodes(site, blueprints())


async def ask(port: int) -> str:
    async with aiohttp.ClientSession(timeout=BRIEFLY) as session:
        try:
            async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
                return await answer.text()
        except TimeoutError:
            return "silence"
        except aiohttp.ClientError:
            return "broken"


async def test_a_kubelet_answers_as_its_trouble_lets_it(nodes: HollowNodes) -> None:
    node = nodes["n1"]
    async with healthz(node) as port:
        assert await ask(port) == "ok"
        node.hang()
        assert await ask(port) == "silence"
        node.resume()
        assert await ask(port) == "ok"
        node.partition()
        assert await ask(port) == "silence"
        node.heal()
        assert await ask(port) == "ok"
        node.partition(from_api_only=True)
        assert await ask(port) == "ok"
        node.machine.set_power(False)
        assert await ask(port) == "broken"
        node.machine.set_power(True)
        assert await ask(port) == "ok"


async def test_the_port_stands_in_the_node_s_status(nodes: HollowNodes, server: ApiServer) -> None:
    person = Client(InProcess(server), SystemClock())
    async with healthz(nodes["n1"]) as port, asyncio.TaskGroup() as group:
        living = group.create_task(nodes.run())
        async with asyncio.timeout(5):
            while "n1" not in {node.name for node in (await person.list_all(RAW_NODES)).items}:
                pass  # each list gives the node a turn
        known = await person.get(RAW_NODES.at("n1"))
        living.cancel()
    assert known.status
    assert known.status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": port}}
