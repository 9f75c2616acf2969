"""Many nodes are lost in one second on a real control plane: pods of so many of them are moved, and the rest is told."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from defib.hollow.site import numbered
from defib.kube.client import Merge
from defib.kube.kinds import NODES
from defib.model.failover_policy import State
from testbed.programs import Programs
from tests.e2e.failover_cluster import FailoverCluster, failover_cluster
from tests.e2e.hollow_cluster import TIMERS
from tests.e2e.running_operator import RunningOperator, defib_run

pytestmark = [pytest.mark.real, pytest.mark.timeout(90, func_only=True), pytest.mark.asyncio(loop_scope="module")]

ALL, LOST, BUDGET = 45, 20, 2
QUIET_SECONDS = 5.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FailoverCluster]:
    path = tmp_path_factory.mktemp("failover") / "audit.yaml"
    timers = msgspec.structs.replace(TIMERS, renew_seconds=1.0)
    async with failover_cluster(programs, numbered(ALL), path, timers) as cluster:
        yield cluster


async def held_nodes(operator: RunningOperator) -> dict[str, float]:
    """By reason, as the operator counts them."""
    async with aiohttp.ClientSession() as session, session.get(f"{operator.address}metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
    samples = [sample for family in families for sample in family.samples]
    return {one.labels["reason"]: one.value for one in samples if one.name == "defib_failover_held_nodes"}


async def cordon(cluster: FailoverCluster, nodes: list[str], *, unschedulable: bool | None) -> None:
    for name in nodes:
        await cluster.client.patch(NODES.at(name), Merge({"spec": {"unschedulable": unschedulable}}))


async def test_ev_16_of_twenty_nodes_lost_at_once_two_are_served_and_the_rest_is_explained(
    cluster: FailoverCluster,
) -> None:
    team = await cluster.team("shop")
    await team.deploy("web", 2 * ALL)
    await team.until_running(2 * ALL)
    spread = Counter(pod.spec.node_name for pod in await team.pods())
    victims = sorted(spread)[:LOST]
    assert len(victims) == LOST
    # So that no copy is put there in the moment before all of them are known to be lost.
    await cordon(cluster, victims, unschedulable=True)
    before = {f"{pod.namespace}/{pod.name}": pod.spec.node_name for pod in await team.pods()}
    async with defib_run(cluster, f"--failover-max-unhealthy={BUDGET}") as operator:
        await team.ask_for("web", selector={"matchLabels": {"app": "web"}})
        await team.until_served("web")
        for name in victims:
            cluster.hollow.nodes[name].partition()

        async def all_are_told_of() -> bool:
            status = await team.status("web")
            states = Counter(entry.state for entry in status.nodes or ())
            return states == {State.MOVED: BUDGET, State.HELD: LOST - BUDGET}

        await cluster.eventually("two nodes are served, and the others wait", all_are_told_of)
        await asyncio.sleep(QUIET_SECONDS)  # that nothing more happens takes its time
        assert await all_are_told_of()
        status = await team.status("web")
        served = {entry.name for entry in status.nodes or () if entry.state is State.MOVED}
        assert await team.deleted() == sorted(key for key, node in before.items() if node in served)
        assert status.moved == sum(spread[name] for name in served)
        for entry in status.nodes or ():
            if entry.state is State.HELD:
                waits = "1 pod waits" if spread[entry.name] == 1 else f"{spread[entry.name]} pods wait"
                why = "pods of at most 2 nodes are moved at a time (setting failover_max_unhealthy)"
                assert (entry.reason, entry.message) == ("Budget", f"{waits}: {why}")
        settled = status.condition("Settled")
        assert settled is not None
        assert (settled.status, settled.reason) == ("False", "Budget")
        told = {message.split()[1] for reason, message in await team.events("web") if reason == "FailoverHeld"}
        assert {name.rstrip(":") for name in told} == set(victims) - served
        assert await held_nodes(operator) == {"Budget": LOST - BUDGET}
        await cordon(cluster, victims, unschedulable=None)
        for name in victims:
            cluster.hollow.nodes[name].heal()
        status = await team.until_it_says("web", "Quiet")
        assert status.moved == len(await team.deleted())
