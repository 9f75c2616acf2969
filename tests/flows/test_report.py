"""A check that remembers: nodes flap, one dies, and `defib report` says what each setting would have made of it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from defib.app import Operator
from defib.config import Settings
from defib.console.report import Question, reported
from defib.console.session import Session
from defib.decide.answers.report import Alternative, CheckReport, ConditionReport
from defib.hollow.kubelets import hollow_kubelets
from defib.hollow.node import HollowNode
from defib.hollow.power import HollowPower
from defib.kube.client import Client
from defib.model import medik8s
from defib.power.registry import Drivers
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.virtual_time import VirtualClock, run
from defib.telemetry.metrics import Metrics
from tests.flows.calm_cluster import calm_cluster, calm_shape
from tests.simulation.shape import DRIVER

pytestmark = pytest.mark.timeout(60)

Object = dict[str, Any]
UNNOTICED, NOTICED = 35, 85  # seconds: Kubernetes calls a node Unknown 50 to 55 after its last heartbeat


class Stage:
    def __init__(self, clock: VirtualClock, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self._clock = clock
        machines = {name: node.machine for name, node in cluster.nodes.items()}
        drivers = Drivers(clock, {DRIVER: HollowPower(clock, machines)}, asking=hollow_kubelets(cluster.nodes))
        self.operator = Operator(
            cluster.transport("operator"), clock, Settings(default_check="off"), Metrics(), drivers
        )

    def node(self, number: int) -> HollowNode:
        return self.cluster.nodes[f"n{number}"]

    async def silence(self, number: int, seconds: float) -> None:
        """It hangs for so long, and is given the time to be well again."""
        self.node(number).hang()
        await asyncio.sleep(seconds)  # virtual
        self.node(number).resume()
        await asyncio.sleep(120)  # virtual

    async def report(self) -> CheckReport:
        session = Session(Client(self.cluster.transport("person"), self._clock), self._clock)
        (told,) = (await reported(Question(), session)).checks
        return told

    def status(self) -> Object:
        (check,) = self.cluster.server.store.collection(medik8s.CHECKS).objects.values()
        return dict(check.object["status"])


def play(scenario: Callable[[Stage], Awaitable[None]], *, mode: str, fast_path: Object | None = None) -> None:
    async def main(clock: VirtualClock) -> None:
        cluster = calm_cluster(clock, calm_shape(fast_path, nodes=10, mode=mode))
        async with asyncio.TaskGroup() as group:
            living = group.create_task(cluster.run())
            stage = Stage(clock, cluster)
            working = group.create_task(stage.operator.run())
            await asyncio.sleep(60)  # virtual
            await scenario(stage)
            working.cancel()
            living.cancel()

    run(main, limit=timedelta(hours=6))


def ready(told: CheckReport) -> ConditionReport:
    (pool,) = told.pools
    (found,) = [one for one in pool.conditions if one.type == "Ready"]
    return found


def at(told: CheckReport, name: str) -> Alternative:
    (found,) = [one for one in ready(told).alternatives if one.name == name]
    return found


def test_nodes_that_flap_and_one_that_dies_are_told_apart_and_the_duration_between_them_is_recommended() -> None:
    async def scenario(stage: Stage) -> None:
        for number in (1, 2, 1, 3):
            await stage.silence(number, NOTICED)
        stage.node(4).machine.set_power(False)
        await asyncio.sleep(1200)  # virtual
        told = await stage.report()
        assert (told.mode, told.spells, told.most_at_once) == ("Observe", 5, 1)
        assert [(one.node, one.outages) for one in told.pools[0].often] == [("n1", 2)]
        assert (ready(told).outages, ready(told).came_back) == (5, 4)
        assert (at(told, "10s").acted, at(told, "10s").came_back, at(told, "10s").stayed) == (5, 4, 1)
        assert (at(told, "1m").acted, at(told, "1m").came_back, at(told, "1m").stayed) == (1, 0, 1)
        assert at(told, "5m").is_now
        assert at(told, "1m").sooner_seconds == at(told, "5m").sooner_seconds + 240
        assert ready(told).advice.duration in ("30s", "1m")
        assert at(told, ready(told).advice.duration).came_back == 0

    play(scenario, mode="Observe")


def test_the_shadow_of_a_fast_path_is_what_it_was_sure_of_also_where_kubernetes_never_noticed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.silence(1, UNNOTICED)
        await stage.silence(2, NOTICED)
        stage.node(3).machine.set_power(False)
        await asyncio.sleep(1200)  # virtual
        told = await stage.report()
        fast = ready(told).fast_path
        assert fast is not None
        assert (fast.acted, fast.came_back, fast.stayed, fast.at_most, fast.is_now) == (3, 2, 1, False, True)
        assert ready(told).outages == 2

    play(scenario, mode="Observe", fast_path={})


def test_without_a_fast_path_its_shadow_is_an_upper_bound_from_the_last_heartbeats() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.silence(1, UNNOTICED)
        await stage.silence(2, NOTICED)
        told = await stage.report()
        fast = ready(told).fast_path
        assert fast is not None
        assert (fast.acted, fast.came_back, fast.at_most) == (1, 1, True)
        assert any("no fast path" in note for note in told.unknown)

    play(scenario, mode="Observe")


@pytest.mark.parametrize("fast_path", [None, {}])
def test_what_was_remediated_is_cut_short_there_and_nobody_claims_to_know_more(fast_path: Object | None) -> None:
    async def scenario(stage: Stage) -> None:
        stage.node(1).machine.set_power(False)
        await asyncio.sleep(1200)  # virtual
        told = await stage.report()
        assert not any(one.get("ended") is None for one in stage.status()["spells"]), "it was brought back"
        assert (ready(told).outages, ready(told).came_back) == (1, 0)
        if fast_path is None:
            assert (at(told, "1m").acted, at(told, "1m").not_known) == (1, 1)
            assert 235 <= at(told, "1m").sooner_seconds <= 245
        else:
            fast = ready(told).fast_path
            assert fast is not None
            assert (fast.acted, fast.not_known) == (1, 1)
            assert (at(told, "1m").acted, at(told, "1m").unsure) == (0, 1)

    play(scenario, mode="Automatic", fast_path=fast_path)


def test_a_cluster_that_is_well_is_not_written_about() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.silence(1, NOTICED)
        await asyncio.sleep(600)  # virtual
        before = stage.status()
        assert len(before["spells"]) == 1
        await asyncio.sleep(3600)  # virtual
        assert stage.status() == before

    play(scenario, mode="Automatic")
