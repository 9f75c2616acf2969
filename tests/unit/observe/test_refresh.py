"""Whoever begins to lead looks again: what is seen then, what is not, and what a look costs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from defib.kube.client import Client, Scope
from defib.kube.kinds import CONFIG_MAPS, PODS
from defib.model.cluster import Cluster
from defib.model.meta import Unstructured
from defib.model.node import Lease
from defib.observe.cache import NAMED_MAX, NOT_SEEN_AGAIN, Cache, catch_up_seconds
from defib.observe.watch import Patience
from defib.simulate.faults import Fault, Hang, LateEvents, Refuse, RequestEffect, Slow
from defib.simulate.in_process import InProcess
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.builders import T0, a_node
from tests.unit.observe.test_cache import Deaf

LIMIT = 10.0
NEVER = 3000.0
MOMENT = 0.1
ON_N1 = "pods on n1"


class Scene(msgspec.Struct):
    server: ApiServer
    clock: VirtualClock
    cache: Cache

    @property
    def seen(self) -> Cluster:
        return self.cache.snapshot(self.clock.now())

    @property
    def blind(self) -> list[str]:
        return [one.kind for one in self.seen.blind]

    def put_pod(self, name: str) -> None:
        meta, spec = (
            {"name": name, "namespace": "default"},
            {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]},
        )
        self.server.put("pods", {"metadata": meta, "spec": spec})

    def cordon(self) -> None:
        stored = self.server.store.get("nodes", "n1")
        assert stored is not None
        self.server.store.put("nodes", {**stored.object, "spec": {"unschedulable": True}})

    async def hear_late(self, *resources: str) -> None:
        """From now on the watches tell nothing; a new list does."""
        for name in resources:
            self.server.faults.inject(Fault(effect=LateEvents(seconds=NEVER), verbs=("watch",), resource=name))
        for watch in list(self.server.watches.of("operator")):
            watch.cut()
        await seconds(5)
        self.server.faults.clear()

    def ail(self, effect: RequestEffect, resource: str) -> None:
        self.server.faults.inject(Fault(effect=effect, verbs=("list", "watch"), resource=resource))

    async def refresh(self) -> float:
        """How long it took."""
        began = self.clock.monotonic()
        await self.cache.refresh(LIMIT)
        return self.clock.monotonic() - began

    def asked(self) -> Counter[str]:
        return Counter(one.path.rpartition("/")[2] for one in self.server.audit if one.client == "operator")


async def seconds(count: float) -> None:
    """Virtual ones."""
    await asyncio.sleep(count)


Scenario = Callable[[Scene], Awaitable[None]]


def play(scenario: Scenario, *faults: Fault) -> None:
    """On a cache that sees nodes, heartbeats, config maps and the pods of one node."""

    async def main(clock: VirtualClock) -> None:
        server = ApiServer(clock)
        server.put("nodes", {"metadata": {"name": "n1"}})
        server.faults.inject(*faults)
        cache = Cache(Client(InProcess(server, client="operator"), clock), clock, Deaf(), Patience())
        cache.follow(CONFIG_MAPS)
        cache.follow(PODS, Scope(fields="spec.nodeName=n1"), name=ON_N1, optional=True)
        async with asyncio.TaskGroup() as group:
            running: asyncio.Task[Any] = group.create_task(cache.run())
            await seconds(5)
            scene = Scene(server, clock, cache)
            assert scene.blind == []
            await scenario(scene)
            running.cancel()

    run(main, limit=timedelta(hours=1))


def test_le_13_nodes_and_pods_are_seen_as_they_are_when_we_begin_to_lead() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.hear_late("nodes", "pods")
        scene.cordon()
        scene.put_pod("web-1")
        await seconds(30)
        assert not scene.seen.nodes["n1"].spec.unschedulable
        assert not scene.seen.others[ON_N1]
        assert await scene.refresh() < MOMENT
        assert scene.seen.nodes["n1"].spec.unschedulable
        assert set(scene.seen.others[ON_N1]) == {"default/web-1"}

    play(scenario)


def test_until_the_new_list_is_there_nodes_are_neither_blind_nor_gone() -> None:
    async def scenario(scene: Scene) -> None:
        scene.ail(Slow(seconds=LIMIT - 1), "nodes")
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(scene.refresh())
            while not looking.done():
                assert scene.blind == []
                assert set(scene.seen.nodes) == {"n1"}
                await seconds(MOMENT)
        assert looking.result() == pytest.approx(LIMIT - 1)

    play(scenario)


@pytest.mark.parametrize("ailing", ["configmaps", "pods", "nodes"])
def test_one_kind_that_hangs_is_out_of_sight_and_stops_nothing_else(ailing: str) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.hear_late("nodes", "pods", "configmaps")
        scene.cordon()
        scene.put_pod("web-1")
        scene.ail(Hang(), ailing)
        with capture_logs() as told:
            assert await scene.refresh() == LIMIT
        name = ON_N1 if ailing == "pods" else ailing
        assert scene.blind == [name]
        assert [one.why for one in scene.seen.blind] == [NOT_SEEN_AGAIN]
        assert [one["kinds"] for one in told if one["event"] == NOT_SEEN_AGAIN] == [[name]]
        assert bool(scene.seen.nodes["n1"].spec.unschedulable) is (ailing != "nodes")
        assert set(scene.seen.nodes) == {"n1"}, "what it showed last stays to be read"

    play(scenario)


def test_what_answers_after_the_time_is_up_is_seen_again() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.hear_late("nodes")
        scene.cordon()
        scene.ail(Slow(seconds=LIMIT + 1), "nodes")
        await scene.refresh()
        assert scene.blind == ["nodes"]
        await seconds(2)
        assert scene.blind == []
        assert scene.seen.nodes["n1"].spec.unschedulable

    play(scenario)


def test_a_quiet_kind_that_hangs_is_blind_since_we_asked_and_not_since_it_last_said_something() -> None:
    async def scenario(scene: Scene) -> None:
        await seconds(50)
        asked_at = scene.clock.now()
        scene.ail(Hang(), "nodes")
        await scene.refresh()
        assert [one.since for one in scene.cache.lost()] == [asked_at]

    play(scenario)


def test_a_line_about_many_kinds_names_some_of_them() -> None:
    async def scenario(scene: Scene) -> None:
        for number in range(50):
            scene.cache.follow(PODS, Scope(fields=f"spec.nodeName=m{number}"), name=f"pods on m{number}")
        await seconds(1)
        scene.ail(Hang(), "pods")
        with capture_logs() as told:
            await scene.refresh()
        (line,) = [one for one in told if one["event"] == NOT_SEEN_AGAIN]
        assert (len(line["kinds"]), line["count"]) == (NAMED_MAX, 51)

    play(scenario)


def test_a_kind_that_the_server_refuses_is_an_answer() -> None:
    async def scenario(scene: Scene) -> None:
        scene.ail(Refuse(code=503), "configmaps")
        assert await scene.refresh() < MOMENT
        assert scene.blind == ["configmaps"]

    play(scenario)


def test_a_kind_that_is_dropped_as_we_begin_to_look_is_not_waited_for() -> None:
    async def scenario(scene: Scene) -> None:
        async def drop() -> None:
            scene.cache.drop(PODS, ON_N1)

        async with asyncio.TaskGroup() as group:
            looking = group.create_task(scene.refresh())
            group.create_task(drop())
        assert looking.result() < MOMENT
        assert scene.blind == []

    play(scenario)


def test_a_kind_that_is_looked_for_meanwhile_is_still_waited_for() -> None:
    async def scenario(scene: Scene) -> None:
        scene.ail(Slow(seconds=2), "configmaps")
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(scene.refresh())
            await seconds(1)
            scene.cache.retry("configmaps")
        assert looking.result() >= 3, "the first try was given up, and told nothing"

    play(scenario)


def test_a_cache_that_ends_keeps_nobody_waiting() -> None:
    async def main(clock: VirtualClock) -> float:
        server = ApiServer(clock)
        cache = Cache(Client(InProcess(server, client="operator"), clock), clock, Deaf(), Patience())
        async with asyncio.TaskGroup() as group:
            running = group.create_task(cache.run())
            await seconds(1)
            server.faults.inject(Fault(effect=Hang()))
            looking = group.create_task(cache.refresh(LIMIT))
            await seconds(1)
            running.cancel()
            began = clock.monotonic()
            await looking
        return clock.monotonic() - began

    assert run(main) < MOMENT


def test_heartbeats_are_not_asked_for_again() -> None:
    async def scenario(scene: Scene) -> None:
        before = scene.asked()
        await scene.refresh()
        assert set(scene.asked() - before) == {"nodes", "configmaps", "pods"}

    play(scenario)


def test_a_server_that_does_not_stream_lists_says_so_once_for_each_kind() -> None:
    """A list and a watch are what it costs from then on."""

    async def scenario(scene: Scene) -> None:
        before = scene.asked()
        with capture_logs() as told:
            await scene.refresh()
            await seconds(1)
        assert scene.asked() - before == Counter({"nodes": 2, "configmaps": 2, "pods": 2})
        assert [one for one in told if one["event"] == "server does not stream lists"] == []

    refusal = Refuse(code=422, reason="Invalid")
    play(
        scenario,
        *(Fault(effect=refusal, verbs=("watch",), resource=name, times=1) for name in ("nodes", "configmaps", "pods")),
    )


@pytest.mark.parametrize(("nodes", "seconds"), [(0, 10), (499, 10), (5_000, 20), (15_000, 40), (1_000_000, 60)])
def test_the_more_there_is_to_list_the_longer_it_is_waited_for_within_bounds(nodes: int, seconds: int) -> None:
    known = Cluster(now=T0, nodes=dict.fromkeys(map(str, range(nodes)), a_node("n")))
    assert catch_up_seconds(known) == seconds


def test_whatever_is_listed_counts_and_heartbeats_are_not_listed() -> None:
    some = dict.fromkeys(map(str, range(500)), Unstructured())
    lease = dict.fromkeys(map(str, range(500)), Lease())
    assert catch_up_seconds(Cluster(now=T0, others={"foos": some, ON_N1: some}, locks=lease, heartbeats=lease)) == 13
