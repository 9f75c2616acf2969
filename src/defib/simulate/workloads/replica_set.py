"""ReplicaSets: as many living pods as wished for."""

from datetime import datetime
from typing import Any

from defib.simulate.store import Change, Object, key_of
from defib.simulate.workloads import pods
from defib.simulate.workloads.controller import Controller
from defib.simulate.workloads.sight import controller_of

REPLICA_SETS = "replicasets.apps"


class ReplicaSetController(Controller):
    name = "replicaset-controller"
    resource = REPLICA_SETS
    listens = (REPLICA_SETS, "pods")

    def notice(self, change: Change) -> None:
        stored = change.now.object
        if change.resource == REPLICA_SETS:
            self.look_at(key_of(stored))
            return
        owner = controller_of(stored)
        if owner and owner["kind"] == "ReplicaSet":
            self.look_at(f"{stored['metadata']['namespace']}/{owner['name']}")

    def handle(self, key: str) -> None:
        replica_set = self.sight.get(REPLICA_SETS, key)
        if replica_set is None:
            return
        if not pods.terminating(replica_set):
            self._scale(replica_set)
        self._count(replica_set)

    def _scale(self, replica_set: Object) -> None:
        living = [pod for pod in self.sight.owned(replica_set, "pods") if pods.active(pod)]
        missing = replica_set["spec"].get("replicas", 1) - len(living)
        for _ in range(missing):
            pod = pods.from_template("ReplicaSet", "apps/v1", replica_set, self.timers.toleration_seconds)
            self.hands.create("pods", pod)
        if missing < 0:
            for pod in sorted(living, key=self._worth)[:-missing]:
                self.hands.delete("pods", pod)

    def _worth(self, pod: Object) -> tuple[Any, ...]:
        """The least goes first: not placed, not running, not ready, cheap, one of many on its node, young."""
        meta = pod["metadata"]
        node = pod["spec"].get("nodeName", "")
        cost = int((meta.get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0"))
        owner = controller_of(pod) or {}
        beside = [p for p in self.sight.on_node(node) if (controller_of(p) or {}).get("uid") == owner.get("uid")]
        age = -datetime.fromisoformat(meta["creationTimestamp"]).timestamp()
        return bool(node), pods.phase(pod) == "Running", pods.ready(pod), cost, -len(beside), age, meta["name"]

    def _count(self, replica_set: Object) -> None:
        latest = self.sight.get(REPLICA_SETS, key_of(replica_set))
        if latest is None:
            return
        living = [pod for pod in self.sight.owned(latest, "pods") if pods.active(pod)]
        ready = sum(pods.ready(pod) for pod in living)
        labels = (latest["spec"]["template"].get("metadata") or {}).get("labels") or {}
        labelled = sum((pod["metadata"].get("labels") or {}).items() >= labels.items() for pod in living)
        counted = {"fullyLabeledReplicas": labelled, "readyReplicas": ready, "availableReplicas": ready}
        status = {
            "replicas": len(living),
            **{name: number for name, number in counted.items() if number},
            "observedGeneration": latest["metadata"].get("generation", 0),
        }
        self.hands.set_status(REPLICA_SETS, latest, status)
