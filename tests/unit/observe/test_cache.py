"""Kinds come and go while the cache runs; a snapshot says what it holds and what it cannot see."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from defib.kube.client import Client, Scope
from defib.kube.kinds import CONFIG_MAPS, LEASES, NODE_HEALTH_CHECKS, NODES, metadata_only, unstructured
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.config_map import ConfigMap
from defib.model.meta import Meta
from defib.model.node import Lease
from defib.observe.cache import LOCKS_NAME, Cache
from defib.observe.watch import Patience
from defib.simulate.faults import Fault, Refuse
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.builders import a_node

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
    def changed(self, name: str) -> None: ...

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


LOCKS = Scope(namespace=medik8s.LOCK_NAMESPACE)


def follow_all(cache: Cache) -> None:
    """As the operator does."""
    cache.follow(NODE_HEALTH_CHECKS, optional=True)
    cache.follow(LEASES, LOCKS, name=LOCKS_NAME, optional=True)
    cache.follow(CONFIG_MAPS, Scope(namespace="default"), optional=True)


def a_lock(name: str, version: str = "") -> Lease:
    return Lease(metadata=Meta(name=name, namespace=medik8s.LOCK_NAMESPACE, resource_version=version))


def test_locks_and_heartbeats_are_the_same_kind_on_different_shelves() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        follow_all(cache)
        await asyncio.sleep(1)  # virtual; the namespace of the locks does not exist yet
        assert cache.snapshot(server.clock.now()).locks == {}
        assert cache.snapshot(server.clock.now()).complete
        server.put("namespaces", {"metadata": {"name": medik8s.LOCK_NAMESPACE}})
        lock = {"metadata": {"name": "node-n1", "namespace": medik8s.LOCK_NAMESPACE}, "spec": {"holderIdentity": "x"}}
        server.put(str(LEASES), lock)
        server.put("configmaps", a_config_map("defib-brake"))
        await asyncio.sleep(1)  # virtual

    cluster, _ = watched(scenario)
    assert {key: lock.spec.holder_identity for key, lock in cluster.locks.items()} == {"medik8s-leases/node-n1": "x"}
    assert set(cluster.heartbeats) == {"kube-node-lease/n1"}
    assert LOCKS_NAME not in cluster.others
    brake = cluster.config_map("default/defib-brake")
    assert brake is not None
    assert brake.data == {"big": "x" * 1000}


def test_an_optional_kind_that_does_not_exist_is_absent_and_seen_soon_after_it_comes() -> None:
    """The server is asked every 10 to 15 s, and nobody is told that sight is lost."""

    async def scenario(server: ApiServer, cache: Cache) -> None:
        cache.follow(GADGETS, optional=True)
        await asyncio.sleep(1)  # virtual
        seen = cache.snapshot(server.clock.now())
        assert seen.complete
        why = "the cluster has no kind Gadget in group example.com at version v1: is its CRD installed?"
        assert seen.absent == {"gadgets.example.com": why}
        assert cache.is_gone("gadgets.example.com")
        await asyncio.sleep(299)  # virtual
        server.put("customresourcedefinitions.apiextensions.k8s.io", GADGET_CRD)
        server.put("gadgets.example.com", {"metadata": {"name": "g1"}})
        await asyncio.sleep(16)  # virtual

    cluster, asked = watched(scenario)
    assert set(cluster.others["gadgets.example.com"]) == {"g1"}
    assert not cluster.absent
    assert 300 / 15 <= asked.count("/apis/example.com/v1/gadgets") <= 300 / 10 + 2


def test_an_optional_kind_that_we_may_not_see_is_absent_in_the_words_of_the_server() -> None:
    forbidden = Fault(effect=Refuse(code=403, message="it is forbidden"), resource="configmaps")

    async def scenario(server: ApiServer, cache: Cache) -> None:
        server.faults.inject(forbidden)
        cache.follow(CONFIG_MAPS, optional=True)
        await asyncio.sleep(60)  # virtual
        seen = cache.snapshot(server.clock.now())
        assert seen.complete
        assert seen.absent["configmaps"].endswith("it is forbidden")
        assert cache.is_settled("configmaps")
        assert not cache.is_gone("configmaps")
        server.faults.clear()
        server.put("configmaps", a_config_map("one"))
        await asyncio.sleep(16)  # virtual

    cluster, asked = watched(scenario)
    assert set(cluster.others["configmaps"]) == {"default/one"}
    assert not cluster.absent
    assert asked.count("/api/v1/configmaps") <= 2 + 76 / 10 + 1


def test_an_optional_kind_on_a_server_that_fails_is_out_of_sight_like_any_other() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        cache.follow(GADGETS, optional=True)
        await asyncio.sleep(1)  # virtual
        server.stop()
        await asyncio.sleep(30)  # virtual

    cluster, _ = watched(scenario)
    assert {blindness.kind for blindness in cluster.blind} == {"nodes", "heartbeats", "gadgets.example.com"}
    assert not cluster.absent


def test_what_we_wrote_is_seen_at_once_where_it_belongs() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        follow_all(cache)
        await asyncio.sleep(1)  # virtual
        assert cache.note(LEASES, a_lock("node-n1", "1000"))
        assert not cache.note(LEASES, a_lock("node-n1", "1000")), "once is enough"
        assert cache.note(NODES, a_node("n1", version=1001))
        elsewhere = ConfigMap(metadata=Meta(name="a", namespace="elsewhere", resource_version="1002"))
        assert not cache.note(CONFIG_MAPS, elsewhere)
        assert not cache.note(GADGETS, GADGETS.type(metadata=Meta(name="a", resource_version="1003"))), "not followed"
        assert server.store.revision < 1000, "the watch has not told any of this"

    cluster, _ = watched(scenario)
    assert set(cluster.locks) == {"medik8s-leases/node-n1"}
    assert set(cluster.heartbeats) == {"kube-node-lease/n1"}
    assert cluster.nodes["n1"].metadata.resource_version == "1001"
    assert cluster.others["configmaps"] == {}


def test_what_a_selector_selects_is_left_to_the_watch() -> None:
    async def scenario(server: ApiServer, cache: Cache) -> None:
        del server
        cache.follow(CONFIG_MAPS, Scope(labels="app=yes"))
        await asyncio.sleep(1)  # virtual
        item = ConfigMap(metadata=Meta(name="a", namespace="default", resource_version="1000"))
        assert not cache.note(CONFIG_MAPS, item)

    cluster, _ = watched(scenario)
    assert cluster.others["configmaps"] == {}
