"""A glance shows one kind as a whole look does, with what cannot be read of it; and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from defib.decide.doubt import brake_reason
from defib.decide.rules import Rules
from defib.kube.client import Client
from defib.kube.kinds import CONFIG_MAPS
from defib.observe.cache import Cache
from defib.observe.watch import Patience
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.unit.observe.test_cache import Deaf

RULES = Rules(namespace="default")


def test_a_glance_shows_what_a_whole_look_shows_of_the_kind_and_no_more() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        server.put("configmaps", a_config_map({"reason": "tests"}))
        await asyncio.sleep(1)  # virtual
        whole, glance = cache.snapshot(server.clock.now()), cache.glance("configmaps", server.clock.now())
        assert glance.others["configmaps"] is whole.others["configmaps"]
        assert glance.others.keys() == {"configmaps"}
        assert whole.nodes.keys() == {"n1"}
        assert not glance.nodes
        assert brake_reason(glance, RULES) == brake_reason(whole, RULES) == "tests"

    watched(scenario)


def test_a_brake_that_cannot_be_read_is_on_at_a_glance_too() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        server.store.put("configmaps", a_config_map(5))
        await asyncio.sleep(1)  # virtual
        whole, glance = cache.snapshot(server.clock.now()), cache.glance("configmaps", server.clock.now())
        assert glance.unread == whole.unread
        assert "cannot be read" in brake_reason(glance, RULES)

    watched(scenario)


def test_a_glance_at_what_is_not_followed_shows_nothing() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        glance = cache.glance("gadgets.example.com", server.clock.now())
        assert not glance.others
        assert not glance.unread

    watched(scenario)


def a_config_map(data: object) -> dict[str, Any]:
    return {"metadata": {"name": "defib-brake", "namespace": "default"}, "data": data}


def watched(scenario: Callable[[ApiServer, Cache], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("nodes", {"metadata": {"name": "n1"}})
        cache = Cache(Client(InProcess(server), clock), clock, Deaf(), Patience())
        cache.follow(CONFIG_MAPS, optional=True)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(cache.run())
            await asyncio.sleep(1)  # virtual
            await scenario(server, cache)
            running.cancel()

    run(main)
