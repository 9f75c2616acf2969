"""The whole operator beside objects that make no sense: it lives on, and the node that really fails is brought back."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from defib.app import Operator
from defib.cli.demo.furniture import CHECK
from defib.kube.client import Client, Merge
from defib.kube.errors import Unreachable
from defib.kube.kinds import unstructured
from defib.kube.transport import Request, Response, Transport
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.incident import Phase
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.virtual_time import VirtualClock, run
from tests.hostile.spoiling import spoil
from tests.hostile.town import HOME, NAMES, SETTLED_SECONDS, VICTIM, a_town, an_operator, looks

DAYS = int(os.environ.get("HOSTILE_EXAMPLES", "2000")) // 100
PARTS = 2
LONG = 600
BACK_SECONDS = 400  # some four times as long as it takes where everything makes sense
BAD = "bad"  # no node is called so
CYCLES = "powercycleremediations.defib.dev"
CYCLE_KIND = unstructured("defib.dev", "v1alpha1", "powercycleremediations", "PowerCycleRemediation", namespaced=True)

# By what a look calls them.
RESOURCES = {
    medik8s.CHECKS: medik8s.CHECKS,
    "nodeincidents.defib.dev": "nodeincidents.defib.dev",
    "NodeDrain.v1alpha1.defib.dev": "nodedrains.defib.dev",
    "DrainPolicy.v1alpha1.defib.dev": "drainpolicies.defib.dev",
    "PodFailoverPolicy.v1alpha1.defib.dev": "podfailoverpolicies.defib.dev",
    "PodFailoverRemediation.v1alpha1.defib.dev": "podfailoverremediations.defib.dev",
    "PowerCycleRemediation.v1alpha1.defib.dev": CYCLES,
    "PowerCycleRemediationTemplate.v1alpha1.defib.dev": "powercycleremediationtemplates.defib.dev",
    "locks": "leases.coordination.k8s.io",
}

Object = dict[str, Any]


class Stumbling:
    """The embedded server stumbles over what it never let in. A real one would answer 500: here no answer comes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        asking = self._transport.send(request)
        try:
            response = await asking.__aenter__()
        except (AttributeError, KeyError, TypeError) as error:
            raise Unreachable(f"{request}: the server stumbled") from error
        try:
            yield response
        finally:
            await asking.__aexit__(None, None, None)

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()


def spoilt_objects(chance: Random) -> list[tuple[str, Object]]:
    """One of each kind of ours, under a name of its own, past all validation: a server with older definitions has such."""
    found: list[tuple[str, Object]] = []
    for shelf, resource in RESOURCES.items():
        right = chance.choice([one for one in looks() if shelf_of(one, shelf)])
        item: Object = msgspec.to_builtins(chance.choice(list(shelf_of(right, shelf).values())))
        meta: Object = {
            "name": BAD,
            "uid": f"uid of {resource}",
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "generation": 1,
        }
        meta |= {"namespace": item["metadata"]["namespace"]} if "namespace" in item["metadata"] else {}
        whole: Object = {
            "rest": {name: item[name] for name in ("spec", "status") if item.get(name)},
            "annotations": {
                name: text
                for name, text in item["metadata"].get("annotations", {}).items()
                if name != medik8s.NODE_NAME
            },
        }
        spoil(whole, chance)
        rest, annotations = whole.get("rest"), whole.get("annotations")
        if isinstance(annotations, dict) and all(isinstance(one, str) for one in annotations.values()):
            meta["annotations"] = annotations
        head: Object = {name: item[name] for name in ("apiVersion", "kind") if name in item}
        found.append((resource, {**head, **(rest if isinstance(rest, dict) else {}), "metadata": meta}))
    return found


def shelf_of(cluster: Cluster, shelf: str) -> Any:
    return cluster.locks if shelf == "locks" else cluster.others.get(shelf, {})


def is_back(town: SimulatedCluster) -> bool:
    node = town.server.store.get("nodes", VICTIM)
    conditions = node.object["status"]["conditions"] if node else []
    return (
        any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        and town.nodes[VICTIM].machine.is_on
    )


def off_by(town: SimulatedCluster) -> list[str]:
    """The machines that went off, in turn, from now on."""
    found: list[str] = []

    def watch(name: str) -> None:
        town.nodes[name].machine.subscribe(lambda on: None if on else found.append(name))

    for name in NAMES:
        watch(name)
    return found


def is_in(operator: Operator, phase: Phase) -> bool:
    return any(one.status.phase is phase for one in operator.picture.cluster.incidents().values())


def is_told(town: SimulatedCluster) -> bool:
    """A remediation or an incident that cannot be read may be one that counts: then nothing is begun, and all see why."""
    check = town.server.store.get(medik8s.CHECKS, CHECK)
    cycle = town.server.store.get(CYCLES, f"{HOME}/{VICTIM}")
    conditions = [one for item in (check, cycle) if item for one in item.object["status"]["conditions"]]
    return any(BAD in one["message"] for one in conditions if one["status"] != "True" or one["type"] == "Processing")


def live_through(seed: int) -> None:
    spoilt = spoilt_objects(Random(seed))

    async def main(clock: VirtualClock) -> None:
        town = a_town(clock)
        operator = an_operator(town, clock, Stumbling(town.transport("operator")))
        went_off = off_by(town)
        for resource, item in spoilt:
            town.server.store.put(resource, item)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(town.run()), group.create_task(operator.run())]
            await asyncio.sleep(SETTLED_SECONDS)  # virtual
            town.nodes[VICTIM].hang()
            ends = clock.monotonic() + BACK_SECONDS
            await asyncio.sleep(60)  # virtual
            while not is_back(town) and clock.monotonic() < ends:  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(5)  # virtual
            assert set(went_off) <= {VICTIM}, "only the one that has failed"
            assert is_back(town) or is_told(town)
            for task in tasks:
                task.cancel()

    run(main, limit=timedelta(hours=1))


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("part", range(PARTS))
def test_beside_nonsense_of_every_kind_of_ours_a_failed_node_is_brought_back_and_no_other_is_touched(part: int) -> None:
    for seed in range(part, DAYS, PARTS):
        try:
            live_through(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}") from error


@pytest.mark.parametrize("phase", [Phase.POWERING_OFF, Phase.FREEING, Phase.POWERING_ON, Phase.RETURNING])
def test_a_machine_that_we_switched_off_comes_back_though_its_remediation_names_another_node(phase: Phase) -> None:
    async def main(clock: VirtualClock) -> None:
        town = a_town(clock)
        operator = an_operator(town, clock)
        person = Client(town.transport("person"), clock)
        went_off = off_by(town)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(town.run()), group.create_task(operator.run())]
            await asyncio.sleep(SETTLED_SECONDS)  # virtual
            town.nodes[VICTIM].hang()
            while not is_in(operator, phase):  # noqa: ASYNC110  nobody tells
                await asyncio.sleep(0.01)  # virtual
            await person.patch(
                CYCLE_KIND.at(VICTIM, HOME), Merge({"metadata": {"annotations": {medik8s.NODE_NAME: "n5"}}})
            )
            await asyncio.sleep(BACK_SECONDS)  # virtual
            assert set(went_off) <= {VICTIM}
            assert is_back(town)
            for task in tasks:
                task.cancel()

    run(main, limit=timedelta(hours=1))
