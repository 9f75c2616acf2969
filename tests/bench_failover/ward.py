"""A small cluster in which one node is about to fail, with a stateless pod and a database on it, and a stopwatch."""

from enum import Enum

from defib.hollow.node import HollowNode
from defib.hollow.objects import Pod
from defib.kube.client import Merge
from defib.kube.kinds import NODES
from testbed.scenario.manifests import manifest_of
from testbed.scenario.sight import is_ready
from testbed.scenario.stage import Scene
from testbed.scenario.story import Access, Deployment, NewName, Nodes, StatefulSetWithVolume, Story, Timers
from tests.bench_failover.results import Phase, Workload
from tests.bench_failover.stopwatch import Stopwatch

NODE_NAMES = ("n1", "n2", "n3")
VICTIM = "n1"
WEB, DATABASE = NewName("web"), NewName("db")
WORKLOADS = (Deployment(name=WEB, replicas=1), StatefulSetWithVolume(name=DATABASE, replicas=1, access=Access.RWO))
APPS = {Workload.DEPLOYMENT: str(WEB), Workload.STATEFUL_SET: str(DATABASE)}
ARRANGE_SECONDS = 60.0


class Fault(Enum):
    POWER_OFF = "power off"
    PARTITION = "partition"


class NotArranged(Exception):
    """The cluster did not come to be as the measurement needs it."""


def bare_cluster(name: str, timers: Timers) -> Story:
    """A story without lines: nodes, and nothing else yet."""
    names = tuple(NewName(one) for one in NODE_NAMES)
    return Story(path=name, title=name, timers=timers, nodes=(Nodes(names=names),), workloads=(), budgets=(), steps=())


class Ward:
    """`mark` is for modes that have a verdict and a fence; everything else is seen from outside."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sight = scene.sight
        self.client = scene.client
        self.node: HollowNode = scene.nodes[VICTIM]
        self._old: dict[Workload, Pod] = {}
        self._stopwatch: Stopwatch | None = None

    async def arrange(self) -> None:
        """Both pods run on the node that will fail, and the others are free to take them."""
        if not await self.sight.until(lambda: all(self._is_free(name) for name in NODE_NAMES), ARRANGE_SECONDS):
            raise NotArranged(f"not all nodes were ready within {ARRANGE_SECONDS:g} s:\n{self.sight.book}")
        await self._cordon_others(unschedulable=True)
        for workload in WORKLOADS:
            made = manifest_of(workload)
            await self.client.create(made.kind, made.body, namespace=self.sight.namespace)
        if not await self.sight.until(self._all_run, ARRANGE_SECONDS):
            raise NotArranged(f"not all pods ran within {ARRANGE_SECONDS:g} s:\n{self.sight.book}")
        await self._cordon_others(unschedulable=None)
        self._old = {workload: self.sight.pods(app)[0] for workload, app in APPS.items()}

    def strike(self, fault: Fault) -> None:
        self.sight.book.start()
        self.sight.book.note("fault", f"{fault.value} {VICTIM}")
        old = {workload: (pod,) for workload, pod in self._old.items()}
        self._stopwatch = Stopwatch(self.sight, self.scene.clock, VICTIM, old)
        self.sight.listeners.append(self._stopwatch.look)
        match fault:
            case Fault.POWER_OFF:
                self.node.machine.set_power(False)
            case Fault.PARTITION:
                self.node.partition()

    def mark(self, phase: Phase) -> None:
        self._running.mark(phase)

    @property
    def marks(self) -> dict[Workload, dict[Phase, float]]:
        return self._running.marks

    def is_over(self) -> bool:
        return self._running.has_seen_all()

    @property
    def is_given_up(self) -> bool:
        node = self.sight.node(VICTIM)
        return node is not None and node.ready == "Unknown"

    def old_pods(self) -> list[Pod]:
        """Those of before the fault that the API server still knows."""
        left = {pod.uid: pod for pod in self.sight.pods()}
        return [left[pod.uid] for pod in self._old.values() if pod.uid in left]

    def corrupted(self) -> bool:
        disk = self.sight.disk(f"{DATABASE}-0")
        assert disk is not None, "a database without a disk"
        return disk.verdict().corrupted

    @property
    def _running(self) -> Stopwatch:
        assert self._stopwatch is not None, "nothing has happened yet"
        return self._stopwatch

    def _is_free(self, name: str) -> bool:
        node = self.sight.node(name)
        return node is not None and node.ready == "True" and not node.spec.taints

    def _all_run(self) -> bool:
        return all(any(is_ready(pod) for pod in self.sight.pods(app)) for app in APPS.values())

    async def _cordon_others(self, *, unschedulable: bool | None) -> None:
        for name in NODE_NAMES:
            if name != VICTIM:
                await self.client.patch(NODES.at(name), Merge({"spec": {"unschedulable": unschedulable}}))
