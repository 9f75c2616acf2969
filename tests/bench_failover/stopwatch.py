"""A stopwatch on a failing node: it takes the time of all that anybody can see from outside, for each kind of workload."""

from collections.abc import Mapping, Sequence

from defib.clock import Clock
from defib.hollow.objects import Pod
from testbed.scenario.manifests import APP
from testbed.scenario.sight import Sight, is_ready
from tests.bench_failover.results import Phase, Workload


class Stopwatch:
    """`old` are the pods that the node had. Where there are several of a kind, the last one counts."""

    def __init__(self, sight: Sight, clock: Clock, node: str, old: Mapping[Workload, Sequence[Pod]]) -> None:
        self.marks: dict[Workload, dict[Phase, float]] = {workload: {} for workload in old}
        self._sight = sight
        self._clock = clock
        self._node = node
        self._old = old
        self._begun_at = clock.monotonic()

    def mark(self, phase: Phase, workload: Workload | None = None) -> None:
        """The first time counts; without a workload it counts for all."""
        seconds = self._clock.monotonic() - self._begun_at
        for one in self._old if workload is None else (workload,):
            self.marks[one].setdefault(phase, seconds)

    def look(self) -> None:
        node = self._sight.node(self._node)
        if node is not None and node.ready == "Unknown":
            self.mark(Phase.UNKNOWN)
        for workload, pods in self._old.items():
            self._look_at(workload, pods)

    def has_seen_all(self) -> bool:
        """Everything has come that there is to see, but for what nobody waits for."""
        is_free = {Phase.DELETED, Phase.DETACHED} <= self.marks[Workload.STATEFUL_SET].keys()
        return is_free and all(Phase.RUNNING in marks for marks in self.marks.values())

    def _look_at(self, workload: Workload, pods: Sequence[Pod]) -> None:
        left = {pod.uid: pod for pod in self._sight.pods()}
        stuck = [left[pod.uid] for pod in pods if pod.uid in left]
        if not stuck:
            self.mark(Phase.DELETED, workload)
        elif all(pod.is_deleted for pod in stuck):
            self.mark(Phase.TERMINATING, workload)
        if workload is Workload.STATEFUL_SET and not any(self._holds(pod.name) for pod in pods):
            self.mark(Phase.DETACHED, workload)
        if all(self._runs_elsewhere(pod.labels[APP]) for pod in pods):
            self.mark(Phase.RUNNING, workload)

    def _holds(self, pod: str) -> bool:
        return any(one.spec.node_name == self._node for one in self._sight.attachments(pod))

    def _runs_elsewhere(self, app: str) -> bool:
        return any(is_ready(pod) and pod.spec.node_name != self._node for pod in self._sight.pods(app))
