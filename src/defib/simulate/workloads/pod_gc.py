"""The pod garbage collector: pods that no kubelet will ever confirm as gone are taken away by force.

Three kinds of them: those on a node that no longer exists, those that are being deleted on a node out of service, and
those that are being deleted and never had a node.
"""

from typing import Any

from defib.simulate.store import Change, Object, key_of
from defib.simulate.workloads import nodes, pods
from defib.simulate.workloads.controller import Controller

_ROUND = "round"
_INSTANT = 1e-6  # seconds that are no time
_ORPHANED = {"reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}


class PodGarbageCollector(Controller):
    """Works by the clock and not by changes, as the real one does: the seconds until its next round matter."""

    name = "pod-garbage-collector"
    resource = "pods"
    listens = ()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._missed: dict[str, float] = {}  # nodes with pods but without an object, and since when

    def start(self) -> None:
        self.look_at(_ROUND)

    def notice(self, change: Change) -> None:
        """Nothing that happens brings the next round closer."""

    def handle(self, key: str) -> None:
        self.look_after(key, self.timers.pod_gc_seconds)
        lost = self._lost_nodes()
        for node in ("", *self.sight.nodes_with_pods()):
            for pod in self.sight.on_node(node):
                self._judge(pod, node, lost=node in lost)

    def _lost_nodes(self) -> list[str]:
        """Those that stayed away for the whole quarantine."""
        now = self.clock.monotonic()
        away = [name for name in self.sight.nodes_with_pods() if self.sight.get("nodes", name) is None]
        self._missed = {name: self._missed.get(name, now) for name in away}
        enough = self.timers.quarantine_seconds - _INSTANT  # seen on the real one: the second round after is enough
        return [name for name, since in self._missed.items() if now - since >= enough]

    def _judge(self, pod: Object, node: str, *, lost: bool) -> None:
        if lost:
            conditions = pods.mark(pod, "DisruptionTarget", self.clock.now(), status="True", **_ORPHANED)
            self._end(pod, {"conditions": conditions})
        elif pods.terminating(pod) and (not node or self._out_of_service(node)):
            self._end(pod, {})

    def _out_of_service(self, name: str) -> bool:
        node = self.sight.get("nodes", name)
        return node is not None and not nodes.is_ready(node) and nodes.out_of_service(node)

    def _end(self, pod: Object, said: dict[str, Any]) -> None:
        """Failed first, so that whoever owns it sees an ending; then gone without asking a kubelet."""
        if not pods.finished(pod):
            self.hands.patch("pods", pod, {"status": {"phase": "Failed", **said}}, "status")
        latest = self.sight.get("pods", key_of(pod))
        if latest is not None:
            self.hands.delete("pods", latest, grace_seconds=0)
