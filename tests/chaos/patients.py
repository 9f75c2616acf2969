"""Nodes that fall ill one after another, and what has to be true of all of them when nobody makes trouble any more."""

import asyncio
from collections import Counter
from random import Random

from defib.kube.client import Scope
from defib.kube.errors import KubeError
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES
from defib.model import medik8s
from defib.model.node import OUT_OF_SERVICE, Node
from tests.chaos.books import Books
from tests.e2e.power_cluster import PLACE, POWER_CYCLES, TEMPLATES, PowerCluster
from tests.simulation.history import Happened

BUDGET = 3  # so many nodes may be unhealthy at once, for another remediation to be begun
IN_FLIGHT = 2
UNHEALTHY_AFTER = "3s"  # longer than a node needs to be heard again after the API server was away
PAUSE_SECONDS = 5.0  # between two that fall ill, about
DATABASES = ("zone-a-1", "zone-b-1", "zone-a-3", "zone-b-4")


class Patients:
    def __init__(self, cluster: PowerCluster, books: Books, seed: int) -> None:
        self.fallen: Counter[str] = Counter()
        self.pulled: Counter[str] = Counter()  # of these, whose cords were pulled
        self.happened: list[Happened] = []
        self._cluster = cluster
        self._books = books
        self._random = Random(f"{seed} patients")
        self._boots: dict[str, str] = {}  # of those that are ill, by which they will be known to be back

    async def come(self) -> None:
        """For ever, at no even pace. Never more than may be ill at once: nothing would be begun about one more."""
        while True:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * PAUSE_SECONDS)  # that is the pace of failures
            try:
                await self._look()
            except KubeError:
                continue

    async def _look(self) -> None:
        nodes = {node.name: node for node in (await self._cluster.client.list_all(NODES, deadline=2.0)).items}
        for name, boot in tuple(self._boots.items()):
            if name in nodes and _is_well(nodes[name]) and self._cluster.hollow.nodes[name].boot_id != boot:
                del self._boots[name]
        well = sorted(name for name, node in nodes.items() if name not in self._boots and _is_well(node))
        if len(self._boots) < BUDGET and well:
            self._fell(self._random.choice(well))

    def _fell(self, name: str) -> None:
        node = self._cluster.hollow.nodes[name]
        self._boots[name] = node.boot_id
        self.fallen[name] += 1
        how = self._random.choice(("hangs", "hangs", "loses its power"))
        self.happened.append(Happened(self._books.now, f"{name} {how}"))
        if how == "hangs":
            node.hang()
        else:
            self.pulled[name] += 1
            node.machine.set_power(False)

    async def unwell(self) -> list[str]:
        """What is not as it was before anybody fell ill."""
        client, hollow = self._cluster.client, self._cluster.hollow
        nodes = (await client.list_all(NODES)).items
        incidents = (await client.list_all(NODE_INCIDENTS)).items
        locks = (await client.list_all(LEASES, Scope(namespace=medik8s.LOCK_NAMESPACE))).items
        remediations = (await client.list_all(POWER_CYCLES, Scope(namespace=PLACE))).items
        return [
            *(f"{node.name} is not well" for node in nodes if not _is_well(node)),
            *(f"{name} is off" for name, node in hollow.nodes.items() if not node.is_on),
            *(f"an incident of {one.name} is open: {one.status.phase}" for one in incidents if one.is_open),
            *(f"lock {one.name} is left" for one in locks),
            *(f"remediation {one.name} is left" for one in remediations),
            *[f"{name} does not run" for name in DATABASES if not await hollow.running(f"db-{name}")],
        ]


def _is_well(node: Node) -> bool:
    return node.ready == "True" and OUT_OF_SERVICE not in {one.key for one in node.spec.taints or ()}


async def admit(cluster: PowerCluster) -> None:
    """One check for all nodes, and databases here and there that must not be written to from two nodes."""
    spec = {"template": {"spec": {"power": cluster.power("redfish"), "workloads": "OutOfServiceTaint"}}}
    await cluster.client.create(TEMPLATES, {"metadata": {"name": "all"}, "spec": spec}, namespace=PLACE)
    template = {"apiVersion": TEMPLATES.api_version, "kind": TEMPLATES.name, "namespace": PLACE, "name": "all"}
    ill = [{"type": "Ready", "status": status, "duration": UNHEALTHY_AFTER} for status in ("False", "Unknown")]
    check = {
        "selector": {},
        "maxUnhealthy": BUDGET,
        "unhealthyConditions": ill,
        "remediationTemplate": template,
        "guards": {"maxInFlight": IN_FLIGHT},
    }
    await cluster.client.create(NODE_HEALTH_CHECKS, {"metadata": {"name": "all"}, "spec": check})
    for node in DATABASES:
        await cluster.hollow.make_database(f"db-{node}", prefers=node)
