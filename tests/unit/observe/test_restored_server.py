"""A server that was restored from a backup has lost our own writes for good, also those that no watch had told us yet."""

import asyncio

from defib.kube.kinds import NODES
from defib.observe.cache import Cache
from defib.simulate.server import ApiServer
from tests.builders import a_node
from tests.unit.observe.test_cache import watched

LATER = 100_000  # than everything that the server has


def test_what_we_wrote_before_a_list_was_asked_for_and_is_not_in_it_is_gone() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        await asyncio.sleep(1)  # virtual
        assert cache.note(NODES, a_node("n9", version=LATER))
        await cache.refresh(5)
        assert "n9" not in cache.snapshot(server.clock.now()).nodes, "whoever leads anew acts on what there is"

    watched(scenario)


def test_what_we_wrote_is_seen_as_the_server_has_it_now_and_not_as_we_left_it() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        server.put("nodes", {"metadata": {"name": "n9", "annotations": {"is": "old"}}})
        await asyncio.sleep(1)  # virtual
        assert cache.note(NODES, a_node("n9", version=LATER))
        await cache.refresh(5)
        stored = server.store.get("nodes", "n9")
        assert stored is not None
        changed = {**stored.object["metadata"], "annotations": {"is": "new"}}
        server.store.put("nodes", {**stored.object, "metadata": changed})
        await asyncio.sleep(1)  # virtual

    cluster, _ = watched(scenario)
    assert cluster.nodes["n9"].annotations == {"is": "new"}
