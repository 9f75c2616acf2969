"""Looks at a cluster in which all our kinds are at work: a power cycle, a failover, a drain; and foreign kinds beside them.

They are taken from a real operator on the embedded server in virtual time, so that what is spoilt later was right before.
"""

import asyncio
import importlib
import pkgutil
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec

import defib.decide
import defib.model
from defib.app import Operator
from defib.cli.demo.furniture import DRIVER, furniture, labels, let_in
from defib.config import Settings
from defib.console.recording import shelves_of
from defib.decide.rules import Rules
from defib.hollow.attacher import StorageTimers
from defib.hollow.power import HollowPower
from defib.hollow.site import Blueprint
from defib.hollow.timers import Timers
from defib.kube.client import Client, Merge
from defib.kube.kinds import NODES
from defib.kube.transport import Transport
from defib.manifests import definitions
from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.power.registry import Drivers
from defib.rules_of import rules_of
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.virtual_time import VirtualClock, run
from defib.simulate.workloads import WorkloadTimers
from defib.telemetry.metrics import Metrics
from tests.hostile.foreign import FOREIGN

HOME, SHOP = "defib-system", "shop"
NAMES = tuple(f"n{number}" for number in range(1, 8))
VICTIM, DRAINED, MOVED = "n1", "n2", "n3"
CORDON = "node.kubernetes.io/unschedulable"
TIMERS = Timers(grace_seconds=25.0, boot_seconds=20.0)
SETTINGS = Settings(default_check="off", resync_seconds=30.0)
RULES: Rules = rules_of(SETTINGS)
SETTLED_SECONDS, LOOK_SECONDS, LOOKS = 30, 0.05, 3000  # shorter than a pass is from the next

Object = dict[str, Any]


def more_furniture() -> Iterator[tuple[str, Object]]:
    """Beside what the demo has: an app team's policy, and a remediation that a person asks for."""
    yield (
        "podfailoverpolicies.defib.dev",
        {"metadata": {"name": "web", "namespace": SHOP}, "spec": {"selector": {"matchLabels": {"app": "web"}}}},
    )
    yield (
        "podfailoverremediations.defib.dev",
        {"metadata": {"name": MOVED, "namespace": HOME}, "spec": {}},
    )


def a_town(clock: VirtualClock) -> SimulatedCluster:
    blueprints = [
        Blueprint(name=name, zone=f"zone-{'abc'[place % 3]}", address=f"10.0.0.{place + 1}", labels=dict(labels()))
        for place, name in enumerate(NAMES)
    ]
    cluster = SimulatedCluster(clock, TIMERS, blueprints, WorkloadTimers(), StorageTimers())
    for definition in definitions():
        cluster.server.put(DEFINITIONS, definition)
    for resource, item in (*furniture(HOME, "5s", 60.0), *more_furniture()):
        cluster.server.put(resource, item)
    for node in cluster.nodes.values():
        let_in(node.machine.bmc)
    return cluster


def an_operator(cluster: SimulatedCluster, clock: VirtualClock, transport: Transport | None = None) -> Operator:
    machines = {name: node.machine for name, node in cluster.nodes.items()}
    drivers = Drivers(clock, {DRIVER: HollowPower(clock, machines)})
    return Operator(transport or cluster.transport("operator"), clock, SETTINGS, Metrics(), drivers)


@cache
def looks() -> tuple[Cluster, ...]:
    """The first is of a calm day; then one node fails, one is drained, and so on to the end."""

    async def main(clock: VirtualClock) -> tuple[Cluster, ...]:
        town = a_town(clock)
        operator = an_operator(town, clock)
        person = Client(town.transport("person"), clock)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(town.run()), group.create_task(operator.run())]
            await asyncio.sleep(SETTLED_SECONDS)  # virtual
            found = [operator.picture.cluster]
            town.nodes[VICTIM].hang()
            cordon = {"key": CORDON, "effect": "NoSchedule", "timeAdded": f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"}
            await person.patch(NODES.at(DRAINED), Merge({"spec": {"unschedulable": True, "taints": [cordon]}}))
            for _ in range(LOOKS):
                await asyncio.sleep(LOOK_SECONDS)  # virtual
                if operator.picture.cluster is not found[-1]:
                    found.append(operator.picture.cluster)
            for task in tasks:
                task.cancel()
        again = [msgspec.structs.replace(one, underway=(), failures={}) for one in found]  # so that all is decided anew
        return (*again, *map(with_foreign_kinds, again))

    return run(main, limit=timedelta(hours=1))


def with_foreign_kinds(cluster: Cluster) -> Cluster:
    """As if every kind that anything here knows of were installed, with an object of it that makes sense."""
    foreign = {
        kind: Served(str(kind), namespaced=True)
        for kind in known_kinds()
        if not isinstance(cluster.kinds.get(kind), Served)
    }
    others = {served.collection: _foreign_objects(kind) for kind, served in foreign.items()}
    return msgspec.structs.replace(cluster, kinds={**cluster.kinds, **foreign}, others={**others, **cluster.others})


@cache
def known_kinds() -> frozenset[KindRef]:
    """All that stand in our code by name."""
    found: set[KindRef] = set()
    for package in (defib.decide, defib.model):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            held = vars(importlib.import_module(module.name)).values()
            found.update(one for one in held if isinstance(one, KindRef))
            found.update(one for many in held if isinstance(many, tuple) for one in many if isinstance(one, KindRef))
    return frozenset(found)


def _foreign_objects(kind: KindRef) -> dict[str, Unstructured]:
    body = FOREIGN.get(kind.name, {})
    meta = {"name": "one", "namespace": HOME, "uid": f"uid of {kind}", "resourceVersion": "1"}
    whole = {**body, "apiVersion": kind.api_version, "kind": kind.name, "metadata": meta | body.get("metadata", {})}
    item = msgspec.convert(whole, Unstructured)
    return {item.key: item}


def texts_of(cluster: Cluster) -> dict[str, dict[str, Object]]:
    """All objects as JSON, by shelf and key."""
    return {
        shelf: {key: msgspec.json.decode(msgspec.json.encode(item)) for key, item in objects.items()}
        for shelf, objects in shelves_of(cluster).items()
    }
