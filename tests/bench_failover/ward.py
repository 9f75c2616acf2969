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
        self._struck_at: float | None = None
        self._old: dict[Workload, Pod] = {}
        self.marks: dict[Workload, dict[Phase, float]] = {workload: {} for workload in Workload}

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
        self._struck_at = self.scene.clock.monotonic()
        self.sight.listeners.append(self._look)
        match fault:
            case Fault.POWER_OFF:
                self.node.machine.set_power(False)
            case Fault.PARTITION:
                self.node.partition()

    def mark(self, phase: Phase, workload: Workload | None = None) -> None:
        """The first time counts; without a workload it counts for all."""
        assert self._struck_at is not None, "nothing has happened yet"
        seconds = self.scene.clock.monotonic() - self._struck_at
        for one in Workload if workload is None else (workload,):
            self.marks[one].setdefault(phase, seconds)

    def is_over(self) -> bool:
        """Everything has come that can be seen from outside."""
        database, web = self.marks[Workload.STATEFUL_SET], self.marks[Workload.DEPLOYMENT]
        return {Phase.DELETED, Phase.DETACHED, Phase.RUNNING} <= database.keys() and Phase.RUNNING in web

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

    def _look(self) -> None:
        if self.is_given_up:
            self.mark(Phase.UNKNOWN)
        if all(one.spec.node_name != VICTIM for one in self.sight.attachments(f"{DATABASE}-0")):
            self.mark(Phase.DETACHED, Workload.STATEFUL_SET)
        left = {pod.uid: pod for pod in self.old_pods()}
        for workload, app in APPS.items():
            old = left.get(self._old[workload].uid)
            if old is None:
                self.mark(Phase.DELETED, workload)
            elif old.is_deleted:
                self.mark(Phase.TERMINATING, workload)
            if any(is_ready(pod) and pod.spec.node_name != VICTIM for pod in self.sight.pods(app)):
                self.mark(Phase.RUNNING, workload)

    def _is_free(self, name: str) -> bool:
        node = self.sight.node(name)
        return node is not None and node.ready == "True" and not node.spec.taints

    def _all_run(self) -> bool:
        return all(any(is_ready(pod) for pod in self.sight.pods(app)) for app in APPS.values())

    async def _cordon_others(self, *, unschedulable: bool | None) -> None:
        for name in NODE_NAMES:
            if name != VICTIM:
                await self.client.patch(NODES.at(name), Merge({"spec": {"unschedulable": unschedulable}}))
