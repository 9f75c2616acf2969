"""The whole of a simulated day: a cluster of a drawn shape, the replicas of the operator on it, and people."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from defib.config import Settings
from defib.hollow.attacher import StorageTimers
from defib.hollow.timers import Timers
from defib.kube.client import Client
from defib.model.incident import INCIDENTS, Phase
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.faults import Fault
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.virtual_time import VirtualClock
from defib.simulate.workloads import WorkloadTimers, pods
from tests.simulation.faults import LEADER, Trouble
from tests.simulation.freezing import FreezingLoop
from tests.simulation.history import History
from tests.simulation.replicas import Replicas, Witness
from tests.simulation.shape import DRIVER, HOME, PODS, POWER, SHOP, Shape, definitions, furniture, let_in

LEADER_LEASE = f"{HOME}/defib-leader"
LEASES = "leases.coordination.k8s.io"
REMEDIATIONS = tuple(f"{kind.lower()}s.defib.dev" for kind in (POWER, PODS))
TIMERS = Timers(grace_seconds=25.0, boot_seconds=20.0)  # twice as fast as usual, so that a day is shorter
BACK_SECONDS = 5.0  # as a kubelet would start the container again

Object = dict[str, Any]


class World:
    def __init__(self, clock: VirtualClock, loop: FreezingLoop, shape: Shape) -> None:
        self.clock = clock
        self.loop = loop
        self.shape = shape
        self.history = History(clock)
        self.cluster = SimulatedCluster(clock, TIMERS, shape.blueprints(), WorkloadTimers(), StorageTimers())
        self.server = self.cluster.server
        self.nodes = self.cluster.nodes
        self.person = Client(self.cluster.transport("person"), clock)
        machines = {name: node.machine for name, node in self.nodes.items()}
        for machine in machines.values():
            let_in(machine.bmc)
        for definition in definitions():
            self.server.put(DEFINITIONS, definition)
        self.server.reactions.append(self.history.written)
        for resource, item in furniture(shape):
            self.server.put(resource, item)
        self.replicas = Replicas(clock, self._settings(), self.history, machines, DRIVER)
        self._witness = Witness(self.history, self._leader, self._runs)
        self.wire_faults: dict[Trouble, Fault] = {}  # those that are set now
        self._met: dict[Trouble, str] = {}
        self._group: asyncio.TaskGroup | None = None

    def _settings(self) -> Settings:
        lease = self.shape.lease_seconds
        return Settings(
            election="lease",
            default_check="off",
            resync_seconds=self.shape.resync_seconds,
            lease_duration_seconds=lease,
            renew_deadline_seconds=lease * 2 / 3,
            retry_period_seconds=lease / 7.5,
        )

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(f"r{number}" for number in range(self.shape.replicas))

    def live_in(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        group.create_task(self.cluster.run(), name="cluster")
        for slot in self.slots:
            self.start(slot)
        group.create_task(self._bring_back(), name="bring back")

    def slot_of(self, trouble: Trouble) -> str:
        """Which replica it meets: the same in the end as in the beginning, whoever leads by then."""
        if trouble.whom != LEADER:
            return trouble.whom
        slot = self._leader().partition("-")[0] or self.slots[0]
        return self._met.setdefault(trouble, slot)

    def start(self, slot: str) -> None:
        assert self._group is not None, "replicas live while their world does"
        self.replicas.start(slot, self.cluster.transport(slot), self._group, self._witness)

    async def _bring_back(self) -> None:
        while True:
            await asyncio.sleep(BACK_SECONDS)  # virtual
            for slot in self.slots:
                self.start(slot)

    # What is there

    def all(self, resource: str) -> list[Object]:
        return [version.object for version in self.server.store.collection(resource).objects.values()]

    @property
    def remediations(self) -> list[tuple[str, Object]]:
        return [(resource, item) for resource in REMEDIATIONS for item in self.all(resource)]

    def _leader(self) -> str:
        """Who has the lock; nobody, when its time is over."""
        lease = self.server.store.get(LEASES, LEADER_LEASE)
        spec = lease.object["spec"] if lease else {}
        if not spec.get("renewTime"):
            return ""
        ends = datetime.fromisoformat(spec["renewTime"]) + timedelta(seconds=spec["leaseDurationSeconds"])
        return str(spec.get("holderIdentity") or "") if self.clock.now() < ends else ""

    def _runs(self, namespace: str, name: str) -> bool:
        pod = self.server.store.get("pods", f"{namespace}/{name}")
        if pod is None:
            return False
        node = self.nodes.get(pod.object["spec"].get("nodeName", ""))
        return node is not None and pod.object["metadata"]["uid"] in node.containers()

    def unsettled(self) -> list[str]:
        """What is still to come, or waits for somebody."""
        found = [f"{resource} {item['metadata']['name']} is there" for resource, item in self.remediations]
        ready = {node["metadata"]["name"]: ready_of(node) for node in self.all("nodes")}
        found += [f"node {name} is {ready.get(name, 'gone')}" for name in self.nodes if ready.get(name) != "True"]
        found += [
            f"incident {item['metadata']['name']} is in {phase_of(item)}"
            for item in self.all(INCIDENTS)
            if phase_of(item) != Phase.CLOSED
        ]
        running = [pod for pod in self.all("pods") if pods.active(pod) and pods.ready(pod)]
        serving = sum(pod["metadata"]["namespace"] == SHOP for pod in running)
        wanted = self.shape.databases + self.shape.web_pods
        return [*found, *([f"{serving} of {wanted} pods serve"] if serving != wanted else [])]


def ready_of(node: Object) -> str:
    conditions = node.get("status", {}).get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def phase_of(incident: Object) -> str:
    return str((incident.get("status") or {}).get("phase", Phase.OPEN))
