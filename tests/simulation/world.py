"""The whole of a simulated day: a cluster of a drawn shape, the replicas of the operator on it, and people."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any

from defib.clock import Clock
from defib.config import Settings
from defib.hollow.attacher import StorageTimers
from defib.hollow.kubelets import hollow_kubelets
from defib.hollow.machine import Machine
from defib.hollow.timers import Timers
from defib.kube.client import Client
from defib.model.incident import INCIDENTS, Phase
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.faults import Fault
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.virtual_time import VirtualClock
from defib.simulate.workloads import WorkloadTimers, pods
from tests.simulation.clocks import OwnClock
from tests.simulation.faults import LEADER, Trouble
from tests.simulation.freezing import FreezingLoop
from tests.simulation.furniture import definitions, furniture, let_in, serving
from tests.simulation.history import History
from tests.simulation.replicas import Replicas, Witness
from tests.simulation.self_fence.guarded import GuardedNodes
from tests.simulation.self_fence.network import TalkingLoop
from tests.simulation.shape import HOME, PODS, POWER, SELF, SHOP, Shape
from tests.simulation.sharing import LeaseTimes, holder_for

LEADER_LEASE = f"{HOME}/defib-leader"
LEASES = "leases.coordination.k8s.io"
REMEDIATIONS = tuple(f"{kind.lower()}s.defib.dev" for kind in (POWER, PODS, SELF))
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
        self.stranger = Client(self.cluster.transport("stranger"), clock)
        self.machines = {name: node.machine for name, node in self.nodes.items()}
        for machine in self.machines.values():
            let_in(machine.bmc)
        for definition in definitions():
            self.server.put(DEFINITIONS, definition)
        self.server.reactions.append(self.history.written)
        self._leases = LeaseTimes(clock)
        self.server.reactions.append(self._leases.written)
        for resource, item in furniture(shape):
            self.server.put(resource, item)
        for name in shape.extras:
            self.history.happened(f"shape: {name}")
        self.out_of_reach: set[tuple[str, str]] = set()  # a replica, and a node whose BMC it does not reach
        self.replicas = Replicas(
            self._clock_of, self._settings_of, self.history, self._reach_of, hollow_kubelets(self.nodes)
        )
        self._witness = Witness(self.history, self._holder, self._runs)
        self.wire_faults: dict[Trouble, Fault] = {}  # those that are set now
        self.busy: dict[Trouble, asyncio.Task[None]] = {}  # what somebody does all the time
        self._met: dict[Trouble, str] = {}
        self._group: asyncio.TaskGroup | None = None
        self.guarded = self._guard(loop)
        for slot in self.slots:
            self._move_in(slot)

    def _guard(self, loop: FreezingLoop) -> GuardedNodes | None:
        if self.shape.guarding is None:
            return None
        assert isinstance(loop, TalkingLoop), "agents talk to each other"
        return GuardedNodes(self.cluster, self.clock, loop, self.history, self.shape.guarding)

    def _move_in(self, slot: str) -> None:
        """Its clock goes as it goes; and where it runs on a node, it dies with that."""
        if (rate := self.shape.gait_of(slot).rate) != 1.0:
            self.loop.rates[slot] = rate
        if home := self.shape.home_of(slot):
            self.machines[home].subscribe(lambda is_on: None if is_on else self.replicas.there[slot].kill())

    def _clock_of(self, slot: str) -> Clock:
        gait = self.shape.gait_of(slot)
        return self.clock if gait.is_true else OwnClock(self.clock, gait)

    def _reach_of(self, slot: str) -> Mapping[str, Machine]:
        return Reach(self.machines, slot, self.out_of_reach)

    def _settings_of(self, slot: str) -> Settings:
        lease = self.shape.lease_seconds
        usual: Object = {
            "election": "lease",
            "default_check": "off",
            "resync_seconds": self.shape.resync_seconds,
            "lease_duration_seconds": lease,
            "renew_deadline_seconds": lease * 2 / 3,
            "retry_period_seconds": lease / 5,
            "node_name": self.shape.home_of(slot) or None,
        }
        return Settings(**(usual | self.shape.settings))

    @property
    def slots(self) -> tuple[str, ...]:
        return tuple(f"r{number}" for number in range(self.shape.replicas))

    def live_in(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        group.create_task(self.cluster.run(), name="cluster")
        if self.guarded is not None:
            self.guarded.live_in(group, self.shape.zone_of)
        for slot in self.slots:
            self.start(slot)
        group.create_task(self._bring_back(), name="bring back")

    def slot_of(self, trouble: Trouble) -> str:
        """Which replica it meets: the same in the end as in the beginning, whoever leads by then."""
        if trouble.whom != LEADER:
            return trouble.whom
        slot = self._leases.leader.partition("-")[0] or self.slots[0]
        return self._met.setdefault(trouble, slot)

    def slots_on(self, node: str) -> tuple[str, ...]:
        return tuple(slot for slot in self.slots if self.shape.home_of(slot) == node)

    def keep_busy(self, trouble: Trouble, work: Coroutine[Any, Any, None]) -> None:
        """Until the trouble is over."""
        assert self._group is not None, "people and controllers live while their world does"
        self.busy[trouble] = self._group.create_task(work, name=trouble.name)

    def start(self, slot: str) -> None:
        assert self._group is not None, "replicas live while their world does"
        self.replicas.start(slot, self.cluster.transport(slot), self._group, self._witness)

    async def _bring_back(self) -> None:
        while True:
            await asyncio.sleep(BACK_SECONDS)  # virtual
            for slot in self.slots:
                home = self.nodes.get(self.shape.home_of(slot))
                if home is None or home.is_up:
                    self.start(slot)

    # What is there

    def all(self, resource: str) -> list[Object]:
        return [version.object for version in self.server.store.collection(resource).objects.values()]

    @property
    def remediations(self) -> list[tuple[str, Object]]:
        return [(resource, item) for resource in REMEDIATIONS for item in self.all(resource)]

    def _holder(self, replica: str, about: str) -> str:
        """Who may do this now: nobody, when the time of the lock is over."""
        if not self.shape.is_shared:
            return self._leases.leader
        return holder_for(self._leases, replica, self._nodes_in(about))

    def _nodes_in(self, about: str) -> set[str]:
        """The nodes that a request, or a command to a machine, is about, as far as it says so."""
        parts = about.split("/")
        pod = self.server.store.get("pods", f"{parts[-3]}/{parts[-1]}") if parts[-2:-1] == ["pods"] else None
        words = {parts[-1].partition(".")[0], parts[-1].removeprefix("node-"), *parts[-2:]}
        return {pod.object["spec"].get("nodeName", "")} if pod else words & self.nodes.keys()

    def _runs(self, namespace: str, name: str) -> bool:
        pod = self.server.store.get("pods", f"{namespace}/{name}")
        if pod is None:
            return False
        node = self.nodes.get(pod.object["spec"].get("nodeName", ""))
        if node is None or node.name in self.shape.unguarded:
            return False
        return pod.object["metadata"]["uid"] in node.containers()

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
        serve, wanted = sum(map(_serves, self.all("pods"))), serving(self.shape)
        return [*found, *([f"{serve} of {wanted} pods serve"] if serve != wanted else [])]


class Reach(Mapping[str, Machine]):
    """The machines, as far as one replica reaches their BMCs."""

    def __init__(self, machines: Mapping[str, Machine], slot: str, cuts: set[tuple[str, str]]) -> None:
        self._machines = machines
        self._slot = slot
        self._cuts = cuts

    def __getitem__(self, name: str) -> Machine:
        if (self._slot, name) in self._cuts:
            raise KeyError(name)
        return self._machines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._machines)

    def __len__(self) -> int:
        return len(self._machines)


def _serves(pod: Object) -> bool:
    meta = pod["metadata"]
    is_ours = meta["namespace"] == SHOP and (meta.get("labels") or {}).get("app") != "log"
    return is_ours and pods.active(pod) and pods.ready(pod)


def ready_of(node: Object) -> str:
    conditions = node.get("status", {}).get("conditions", ())
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def phase_of(incident: Object) -> str:
    return str((incident.get("status") or {}).get("phase", Phase.OPEN))
