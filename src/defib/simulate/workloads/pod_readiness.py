"""The part of the node lifecycle controller that stops counting on pods: none on a node that fell silent is ready.

A node that says itself that it is not ready still has a kubelet, which speaks for its pods.
"""

from defib.simulate.store import DELETED, Change, Object, key_of
from defib.simulate.workloads import nodes, pods
from defib.simulate.workloads.controller import Controller


class PodReadiness(Controller):
    name = "node-controller"
    resource = "pods"
    listens = ("nodes",)

    def notice(self, change: Change) -> None:
        if change.kind == DELETED or not _is_silent(change.now.object):
            return
        if change.before is None or not _is_silent(change.before.object):
            for pod in self.sight.on_node(change.now.object["metadata"]["name"]):
                self.look_at(key_of(pod))

    def handle(self, key: str) -> None:
        pod = self.sight.get("pods", key)
        if pod is None or not pods.ready(pod):
            return
        node = self.sight.get("nodes", pod["spec"].get("nodeName", ""))
        if node is None or not _is_silent(node):
            return
        said = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
        kept = {name: said[name] for name in ("reason", "message") if name in said}
        conditions = pods.mark(pod, "Ready", self.clock.now(), **kept, status="False")
        self.hands.patch("pods", pod, {"status": {"conditions": conditions}}, "status")


def _is_silent(node: Object) -> bool:
    return nodes.ready_status(node) == "Unknown"
