"""An API server that has just started forbids everything until it has read its roles: that is no kind we may not see."""

import asyncio

import pytest

from defib.kube.kinds import CONFIG_MAPS
from defib.observe.cache import Cache
from defib.simulate.faults import Fault, Refuse
from defib.simulate.server import ApiServer
from tests.unit.observe.test_cache import watched

FORBIDDEN = Fault(effect=Refuse(code=403, message="it is forbidden"), resource="configmaps")


async def seen_then_forbidden(server: ApiServer, cache: Cache, seconds: float) -> None:
    cache.follow(CONFIG_MAPS, optional=True)
    await asyncio.sleep(20)  # virtual
    server.stop()
    server.start()
    server.faults.inject(FORBIDDEN)
    await asyncio.sleep(seconds)  # virtual


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0])
def test_what_we_saw_and_may_not_see_for_a_moment_is_out_of_sight_and_soon_seen_again(seconds: float) -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        await seen_then_forbidden(server, cache, seconds)
        during = cache.snapshot(server.clock.now())
        assert not during.absent, "we could do without it then, and act as if there were none"
        assert "configmaps" in {one.kind for one in during.blind}
        server.faults.clear()
        await asyncio.sleep(5)  # virtual

    cluster, _ = watched(scenario)
    assert not cluster.absent
    assert cluster.complete


def test_what_we_saw_and_may_not_see_any_more_is_absent_before_long_and_asked_for_at_an_even_pace() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        await seen_then_forbidden(server, cache, 60)

    cluster, asked = watched(scenario)
    assert cluster.absent["configmaps"].endswith("it is forbidden")
    assert cluster.complete
    assert asked.count("/api/v1/configmaps") <= 15
