"""Taint eviction: a NoExecute taint sends away every pod that does not tolerate it, at once or when its time is over."""

from typing import Any

from defib.simulate.store import DELETED, Change, Object, key_of
from defib.simulate.workloads import nodes, pods
from defib.simulate.workloads.controller import Controller

_WHY = {"reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}


class TaintEviction(Controller):
    name = "taint-eviction-controller"
    resource = "pods"
    listens = ("pods", "nodes")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._planned: dict[str, float] = {}  # when a pod goes, by its UID

    def notice(self, change: Change) -> None:
        stored, before = change.now.object, change.before.object if change.before else None
        if change.resource == "pods":
            if change.kind == DELETED:
                self._planned.pop(stored["metadata"]["uid"], None)
            elif before is None or _stands(before) != _stands(stored):
                self.look_at(key_of(stored))
        elif change.kind != DELETED and (before is None or nodes.taints_of(before) != nodes.taints_of(stored)):
            for pod in self.sight.on_node(stored["metadata"]["name"]):
                self.look_at(key_of(pod))

    def handle(self, key: str) -> None:
        pod = self.sight.get("pods", key)
        if pod is None or not pod["spec"].get("nodeName"):
            return
        uid, now = pod["metadata"]["uid"], self.clock.monotonic()
        node = self.sight.get("nodes", pod["spec"]["nodeName"])
        # What is planned stays planned when the node goes away.
        moment = self._moment(node, pod) if node else self._planned.get(uid)
        if moment is None:
            self._planned.pop(uid, None)
        elif moment > now:
            self._planned[uid] = moment
            self.look_after(key, moment - now)
        else:
            self._planned.pop(uid, None)
            self._evict(pod)

    def _moment(self, node: Object, pod: Object) -> float | None:
        """When the pod must go. A plan, once made, is kept for as long as some taint asks for one."""
        taints = [taint for taint in nodes.taints_of(node) if taint["effect"] == nodes.NO_EXECUTE]
        seconds = _patience(taints, pod["spec"].get("tolerations") or [])
        if not seconds:
            return None if seconds is None else 0.0
        return self._planned.get(pod["metadata"]["uid"], self.clock.monotonic() + seconds)

    def _evict(self, pod: Object) -> None:
        conditions = pods.mark(pod, "DisruptionTarget", self.clock.now(), status="True", **_WHY)
        if conditions != (pod.get("status") or {}).get("conditions"):
            self.hands.patch("pods", pod, {"status": {"conditions": conditions}}, "status")
        self.hands.delete("pods", pod)


def _stands(pod: Object) -> tuple[Any, Any]:
    return pod["spec"].get("nodeName"), pod["spec"].get("tolerations")


def _patience(taints: list[dict[str, Any]], tolerations: list[dict[str, Any]]) -> float | None:
    """For how many seconds a pod bears all of these; None means for ever."""
    used = []
    for taint in taints:
        found = next((one for one in tolerations if nodes.tolerates(one, taint)), None)
        if found is None:
            return 0.0
        used.append(found)
    limits = [max(0.0, float(one["tolerationSeconds"])) for one in used if one.get("tolerationSeconds") is not None]
    return min(limits) if limits else None
