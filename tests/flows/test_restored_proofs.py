"""etcd is restored from a backup in which a machine is proved to be down, and the machine is on and writes to its disk."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from defib.hollow.machine import Unreachable
from defib.kube.client import Merge
from defib.model.incident import Phase
from defib.simulate.server import ApiServer
from defib.simulate.virtual_time import VirtualClock, run
from tests.mortal_operator import Doom
from tests.power_cycle_crash import WORKLOADS, Plot, begin, end
from tests.power_cycle_stage import HOSTS, HOSTS_HOME, VICTIM, Stage, a_stage, ready_of

pytestmark = pytest.mark.timeout(60)

FREES = {"OutOfServiceTaint": f"PATCH /api/v1/nodes/{VICTIM}", "DeleteNode": f"DELETE /api/v1/nodes/{VICTIM}"}
LONG_SECONDS = 300.0  # longer than workloads may take to be freed

Backup = dict[str, dict[str, Any]]


def back_up(server: ApiServer) -> Backup:
    """Everything that is stored, by resource and key."""
    return {
        resource: {key: version.object for key, version in collection.objects.items()}
        for resource, collection in server.store.collections().items()
    }


def restore(server: ApiServer, backup: Backup) -> None:
    """All objects are as they were then. Versions go on, as Kubernetes asks of whoever restores."""
    server.stop()
    for resource, collection in tuple(server.store.collections().items()):
        then = backup.get(resource, {})
        for key in collection.objects.keys() - then.keys():
            server.store.remove(resource, collection.objects[key].object)
        for stored in then.values():
            server.store.put(resource, stored)
    server.start()


def on_stage(way: str, workloads: str, story: Callable[[Stage, Backup], Awaitable[None]]) -> None:
    """An operator dies when the proof is written and nothing is freed; the backup is of that moment.

    Then the machine comes back by somebody's hand, its pod writes to its disk, its network is cut, and nobody hears it.
    """

    async def main(clock: VirtualClock) -> None:
        async with a_stage(clock, metal3=way == "metal3") as stage:
            await begin(stage, Plot(way=way, workloads=workloads, fault="hangs"))
            async with stage.operator(Doom(words=FREES[workloads])) as life:
                assert await stage.until(lambda: life.is_dead)
            assert (stage.phase, stage.is_proved) == (Phase.FREEING, True)
            await story(stage, back_up(stage.server))

    run(main, limit=timedelta(hours=4))


async def comes_back(stage: Stage) -> None:
    stage.machines[VICTIM].set_power(True)
    assert await stage.until(lambda: ready_of(stage.node) == "True" and stage.pod_runs_on == VICTIM, 120)
    await asyncio.sleep(5)  # virtual: its pod writes
    stage.hollow.nodes[VICTIM].partition()


@pytest.mark.parametrize("workloads", WORKLOADS)
def test_a_machine_that_is_on_keeps_its_pods_whatever_a_restored_record_says(workloads: str) -> None:
    async def story(stage: Stage, backup: Backup) -> None:
        await comes_back(stage)
        restore(stage.server, backup)
        async with stage.operator():
            await asyncio.sleep(LONG_SECONDS)  # virtual
            assert stage.wrongs == []
            assert [verdict.story for verdict in stage.hollow.disks.corrupted()] == []
            stage.hollow.nodes[VICTIM].heal()
            assert await end(stage) == []
        assert stage.leftovers() == []

    on_stage("hollow", workloads, story)


def test_a_restored_proof_is_not_believed_while_the_bmc_is_silent_and_goes_on_when_it_speaks() -> None:
    async def story(stage: Stage, backup: Backup) -> None:
        bmc = stage.machines[VICTIM].bmc
        await comes_back(stage)
        bmc.suffer(Unreachable())
        restore(stage.server, backup)
        async with stage.operator():
            assert await stage.until(lambda: stage.reason == "PowerUnknown", 60)
            await asyncio.sleep(LONG_SECONDS)  # virtual
            assert stage.wrongs == []
            assert [verdict.story for verdict in stage.hollow.disks.corrupted()] == []
            assert not stage.is_proved
            bmc.suffer()
            stage.machines[VICTIM].subscribe(lambda on: None if on else stage.hollow.nodes[VICTIM].heal())
            assert await end(stage) == []
        assert stage.leftovers() == []

    on_stage("hollow", "OutOfServiceTaint", story)


@pytest.mark.parametrize("late_seconds", [0.0, 5.0, 50.0])
def test_a_metal3_host_that_is_restored_as_off_and_is_on_keeps_its_pods(late_seconds: float) -> None:
    """The baremetal operator finds it on when it looks, which may take it a minute. What the host says until then is old."""

    async def story(stage: Stage, backup: Backup) -> None:
        (host,) = [one for one in stage.all(str(HOSTS)) if one["metadata"]["name"] == VICTIM]
        free = dict.fromkeys(host["metadata"]["annotations"])
        await stage.person.patch(HOSTS.at(VICTIM, HOSTS_HOME), Merge({"metadata": {"annotations": free}}))
        assert await stage.until(lambda: stage.machines[VICTIM].is_on and ready_of(stage.node) == "True", 120)
        stage.hollow.nodes[VICTIM].partition()
        stage.server.partition("metal3")
        restore(stage.server, backup)
        async with stage.operator():
            await asyncio.sleep(late_seconds)  # virtual
            stage.server.heal("metal3")
            await asyncio.sleep(LONG_SECONDS)  # virtual
            stage.hollow.nodes[VICTIM].heal()
            assert await end(stage) == []
        assert stage.leftovers() == [], "nothing was taken from it while it was on, above all"

    on_stage("metal3", "OutOfServiceTaint", story)


@pytest.mark.parametrize("way", ["hollow", "metal3"])
@pytest.mark.parametrize("workloads", WORKLOADS)
def test_a_machine_that_is_off_as_the_record_says_is_freed_by_it(way: str, workloads: str) -> None:
    async def story(stage: Stage, backup: Backup) -> None:
        restore(stage.server, backup)
        async with stage.operator():
            assert await end(stage) == []
        assert stage.leftovers() == []
        assert stage.attempt == 1

    on_stage(way, workloads, story)
