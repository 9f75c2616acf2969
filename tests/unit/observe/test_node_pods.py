"""The pods of a node are followed while somebody needs them, and those of no other node."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from defib.clock import Clock
from defib.kube.client import Client
from defib.model.pod import Pod, pods_on
from defib.observe.cache import Cache
from defib.observe.node_pods import NodePods
from defib.observe.watch import Patience
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.unit.observe.test_cache import Deaf

Scenario = Callable[[ApiServer, Cache, NodePods], Awaitable[None]]


def watched(scenario: Scenario) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
            spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
            server.put("pods", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        cache = Cache(Client(InProcess(server, client="us"), clock), clock, Deaf(), Patience())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(cache.run())
            await scenario(server, cache, NodePods(cache))
            running.cancel()

    run(main, limit=timedelta(hours=1))


def seen(cache: Cache, clock: Clock, node: str) -> list[str]:
    cluster = cache.snapshot(clock.now())
    return sorted(pod.name for pod in cluster.all_of(pods_on(node), Pod).values())


async def a_second() -> None:
    """A virtual one: it passes at once."""
    await asyncio.sleep(1)


def test_only_the_pods_of_wanted_nodes_are_seen() -> None:
    async def scenario(server: ApiServer, cache: Cache, pods: NodePods) -> None:
        pods.want({"n1"})
        await a_second()
        assert seen(cache, server.clock, "n1") == ["a", "b"]
        assert seen(cache, server.clock, "n2") == []
        pods.want({"n1", "n2"})
        await a_second()
        assert seen(cache, server.clock, "n2") == ["c"]

    watched(scenario)


def test_what_nobody_wants_any_more_is_forgotten_and_no_longer_watched() -> None:
    async def scenario(server: ApiServer, cache: Cache, pods: NodePods) -> None:
        await a_second()
        quiet = len(server.watches.of())
        pods.want({"n1", "n2"})
        await a_second()
        assert len(server.watches.of()) == quiet + 2
        pods.want({"n2"})
        pods.want({"n2"})
        await a_second()
        assert len(server.watches.of()) == quiet + 1
        others = cache.snapshot(server.clock.now()).others
        assert (pods_on("n1") in others, pods_on("n2") in others) == (False, True)
        pods.want(frozenset())
        await a_second()
        assert len(server.watches.of()) == quiet

    watched(scenario)


def test_pods_that_we_may_not_see_are_absent_and_no_blindness() -> None:
    async def scenario(server: ApiServer, cache: Cache, pods: NodePods) -> None:
        server.faults.inject(Fault(effect=Refuse(code=403, message="pods is forbidden"), resource="pods"))
        pods.want({"n1"})
        await a_second()
        cluster = cache.snapshot(server.clock.now())
        assert "pods is forbidden" in cluster.absent[pods_on("n1")]
        assert pods_on("n1") not in {blindness.kind for blindness in cluster.blind}

    watched(scenario)
