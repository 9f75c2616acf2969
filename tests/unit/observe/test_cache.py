"""Kinds come and go while the cache runs; a snapshot says what it holds and what it cannot see."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from defib.kube.client import Client, Scope
from defib.kube.kinds import metadata_only, unstructured
from defib.model.cluster import Cluster
from defib.observe.cache import Cache
from defib.observe.watch import Patience
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run

CONFIG_MAPS = unstructured("", "v1", "configmaps", "ConfigMap", namespaced=True)
GADGETS = unstructured("example.com", "v1", "gadgets", "Gadget", namespaced=False)
GADGET_CRD = {
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


class Deaf:
    def heard(self, name: str, events: int, news: int) -> None: ...

    def relisted(self, name: str, reason: str) -> None: ...

    def sight_changed(self, name: str) -> None: ...


Scenario = Callable[[ApiServer, Cache], Awaitable[None]]


def watched(scenario: Scenario) -> tuple[Cluster, list[str]]:
    """The cluster as seen after the scenario, and the paths that were asked for."""

    async def main(clock: VirtualClock) -> tuple[Cluster, list[str]]:
        server = ApiServer(clock)
        server.put("nodes", {"metadata": {"name": "n1"}})
        lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "n1"}}
        server.put("leases.coordination.k8s.io", lease)
        cache = Cache(Client(InProcess(server, client="operator"), clock), clock, Deaf(), Patience())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(cache.run())
            await asyncio.sleep(1)  # virtual
            await scenario(server, cache)
            cluster = cache.snapshot(clock.now())
            running.cancel()
        assert not cache.snapshot(clock.now()).complete, "a cache that no longer watches must not claim to see"
        return cluster, [asked.path for asked in server.audit if asked.client == "operator"]

    return run(main, limit=timedelta(hours=1))


def a_config_map(name: str, **labels: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "data": {"big": "x" * 1000}}


def test_nodes_and_heartbeats_are_always_there() -> None:
    async def nothing(server: ApiServer, cache: Cache) -> None: ...

    cluster, _ = watched(nothing)
    assert set(cluster.nodes) == {"n1"}
    heartbeat = cluster.heartbeat_of("n1")
    assert heartbeat is not None
    assert heartbeat.spec.holder_identity == "n1"
    assert cluster.complete


def test_a_kind_is_followed_from_when_it_is_asked_for_until_it_is_dropped() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        server.put("configmaps", a_config_map("one"))
        cache.follow(CONFIG_MAPS)
        cache.follow(CONFIG_MAPS)
        await asyncio.sleep(1)  # virtual
        assert set(cache.snapshot(server.clock.now()).others["configmaps"]) == {"default/one"}
        cache.drop(CONFIG_MAPS)
        await asyncio.sleep(1)  # virtual
        assert not list(server.watches.of("operator"))[2:], "the dropped watch is still open"

    cluster, asked = watched(scenario)
    assert cluster.others == {}
    assert cluster.complete
    assert asked.count("/api/v1/configmaps") == 1


def test_a_kind_can_be_followed_by_its_metadata_and_by_selectors() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        cache.follow(
            metadata_only(CONFIG_MAPS), Scope(namespace="default", labels="app=yes", fields="metadata.name!=no")
        )
        await asyncio.sleep(1)  # virtual
        for name, app in (("one", "yes"), ("two", "other"), ("no", "yes")):
            server.put("configmaps", a_config_map(name, app=app))
        await asyncio.sleep(1)  # virtual

    cluster, _ = watched(scenario)
    assert set(cluster.others["configmaps"]) == {"default/one"}


def test_a_kind_that_does_not_exist_yet_blinds_only_itself_and_is_seen_when_it_comes() -> None:
    seen_before: list[str] = []

    async def scenario(server: ApiServer, cache: Cache) -> None:
        cache.follow(GADGETS)
        await asyncio.sleep(30)  # virtual
        seen_before.extend(blindness.kind for blindness in cache.snapshot(server.clock.now()).blind)
        server.put("customresourcedefinitions.apiextensions.k8s.io", GADGET_CRD)
        server.put("gadgets.example.com", {"metadata": {"name": "g1"}})
        await asyncio.sleep(60)  # virtual

    cluster, _ = watched(scenario)
    assert seen_before == ["gadgets.example.com"]
    assert set(cluster.others["gadgets.example.com"]) == {"g1"}
    assert cluster.complete


def test_a_snapshot_names_what_it_cannot_read() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        del cache
        server.store.put("nodes", {"metadata": {"name": "bad", "uid": "u", "labels": 5}})
        await asyncio.sleep(1)  # virtual

    cluster, _ = watched(scenario)
    assert [(item.kind, item.key) for item in cluster.unread] == [("nodes", "bad")]


def test_a_cache_can_be_run_again_and_followed_kinds_wait_for_it() -> None:
    async def main(clock: VirtualClock) -> Cluster:
        server = ApiServer(clock)
        server.put("configmaps", a_config_map("one"))
        cache = Cache(Client(InProcess(server, client="operator"), clock), clock, Deaf(), Patience())
        for _ in range(2):
            async with asyncio.TaskGroup() as group:
                running = group.create_task(cache.run())
                await asyncio.sleep(1)  # virtual
                cluster = cache.snapshot(clock.now())
                running.cancel()
            cache.follow(CONFIG_MAPS)
        return cluster

    cluster = run(main)
    assert set(cluster.others["configmaps"]) == {"default/one"}
    assert cluster.complete
