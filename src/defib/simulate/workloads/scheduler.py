"""The scheduler: every pod without a node gets one that fits, or is told why there is none.

Where several fit, the one with the fewest pods wins, then the first by name, so that a run can be repeated.
"""

from collections import Counter
from typing import Any

from defib.simulate.store import Change, Object, key_of
from defib.simulate.workloads import claims, nodes, pods
from defib.simulate.workloads.claims import CLAIMS, CLASSES, VOLUMES
from defib.simulate.workloads.controller import Controller
from defib.simulate.workloads.placement import Room, Rooms
from defib.simulate.workloads.sight import claims_of
from defib.simulate.workloads.volume_binder import reference_to

SCHEDULER = "default-scheduler"
_EXCLUSIVE_TO_A_POD = "ReadWriteOncePod"


class Scheduler(Controller):
    name = "kube-scheduler"
    resource = "pods"
    listens = ("pods", "nodes", CLAIMS, VOLUMES, CLASSES)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._waiting: dict[str, None] = {}  # pods that nobody had room for
        self._rooms: Rooms | None = None

    def notice(self, change: Change) -> None:
        stored = change.now.object
        if change.resource == "pods" and not stored["spec"].get("nodeName"):
            if _to_place(stored):
                self.look_at(key_of(stored))
            return
        # Anything else may be what somebody waits for: room, a volume, company.
        for key in self._waiting:
            self.look_at(key)

    def work(self) -> None:
        self._rooms = None  # what was true in the last round may not be so now
        super().work()

    def in_order(self, keys: list[str]) -> list[str]:
        """By priority, then by age."""
        found = [(key, self.sight.get("pods", key)) for key in keys]
        ranked = [
            (-pod["spec"].get("priority", 0), pod["metadata"]["creationTimestamp"], key)
            for key, pod in found
            if pod is not None
        ]
        gone = [key for key, pod in found if pod is None]
        return gone + [key for _, _, key in sorted(ranked)]

    def handle(self, key: str) -> None:
        pod = self.sight.get("pods", key)
        self._waiting.pop(key, None)
        if pod is None or not _to_place(pod):
            return
        wanted = [(name, self.sight.get(CLAIMS, name)) for name in claims_of(pod)]
        found = [claim for _, claim in wanted if claim is not None]
        missing = [name.partition("/")[2] for name, claim in wanted if claim is None]
        why = f'persistentvolumeclaim "{missing[0]}" not found' if missing else self._unusable(pod, found)
        if why:
            self._put_off(pod, f"0/{len(self.rooms.all)} nodes are available: {why}.")
            return
        self._place(pod, found)

    @property
    def rooms(self) -> Rooms:
        if self._rooms is None:
            self._rooms = Rooms(self.sight)
        return self._rooms

    def _place(self, pod: Object, wanted: list[Object]) -> None:
        refusals: Counter[str] = Counter()
        fitting = []
        for room in self.rooms.all:
            why = self.rooms.refusal(pod, room) or self._no_volume(wanted, room)
            if why:
                refusals[why] += 1
            else:
                fitting.append(room)
        if not fitting:
            self._put_off(pod, _explain(len(self.rooms.all), refusals))
            return
        best = min(fitting, key=lambda room: (len(room.pods), room.name))
        if self._volumes_ready(wanted, best):
            self.hands.bind(pod, best.name)
            self.rooms.place(self.sight.get("pods", key_of(pod)) or pod, best)
        else:
            self._waiting[key_of(pod)] = None  # for the volumes, which are now on their way

    def _put_off(self, pod: Object, why: str) -> None:
        self._waiting[key_of(pod)] = None
        said = {"status": "False", "reason": "Unschedulable", "message": why}
        conditions = pods.mark(pod, "PodScheduled", self.clock.now(), **said)
        if conditions != (pod.get("status") or {}).get("conditions"):
            self.hands.patch("pods", pod, {"status": {"conditions": conditions}}, "status")

    def _unusable(self, pod: Object, wanted: list[Object]) -> str:
        """What keeps a pod from every node."""
        for claim in wanted:
            name = claim["metadata"]["name"]
            if pods.terminating(claim):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if not claims.is_bound(claim) and not claims.waits_for_consumer(self.sight, claim):
                return "pod has unbound immediate PersistentVolumeClaims"
            if claims.is_bound(claim) and claims.volume_of(self.sight, claim) is None:
                return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
            if _EXCLUSIVE_TO_A_POD in (claim["spec"].get("accessModes") or ()) and self._in_use(pod, claim):
                return "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
        return ""

    def _in_use(self, pod: Object, claim: Object) -> bool:
        others = self.sight.with_claim(key_of(claim))
        return any(
            other["metadata"]["uid"] != pod["metadata"]["uid"]
            and other["spec"].get("nodeName")
            and not pods.finished(other)
            for other in others
        )

    def _no_volume(self, wanted: list[Object], room: Room) -> str:
        """Why the volumes of a pod cannot come to a node; empty when they can."""
        for claim in wanted:
            volume = claims.volume_of(self.sight, claim)
            if volume:
                affinity = volume["spec"].get("nodeAffinity") or {}
                if not nodes.in_terms(affinity.get("required"), room.node):
                    return "node(s) didn't match PersistentVolume's node affinity"
            elif not self._could_come(claim, room):
                return "node(s) didn't find available persistent volumes to bind"
        return ""

    def _could_come(self, claim: Object, room: Room) -> bool:
        chosen = claims.annotation(claim, claims.SELECTED_NODE)
        if chosen:
            return chosen == room.name  # a driver is at work there
        return self._free_volume(claim, room) is not None or bool(claims.provisioner_of(self.sight, claim))

    def _free_volume(self, claim: Object, room: Room) -> Object | None:
        """The smallest that is free, will do and can come to the node."""
        promised = [v for v in self.sight.all(VOLUMES) if claims.claimed_by(v, claim)]
        free = [v for v in self.sight.all(VOLUMES) if not v["spec"].get("claimRef") and claims.satisfies(v, claim)]
        near = [
            volume
            for volume in promised or free
            if nodes.in_terms((volume["spec"].get("nodeAffinity") or {}).get("required"), room.node)
        ]
        return min(near, key=lambda volume: (claims.size_of(volume), volume["metadata"]["name"]), default=None)

    def _volumes_ready(self, wanted: list[Object], room: Room) -> bool:
        """Sees to the volumes that are not bound yet; a pod is bound only after all of its volumes."""
        unbound = [claim for claim in wanted if not claims.is_bound(claim)]
        for claim in unbound:
            volume = self._free_volume(claim, room)
            if volume is None:
                if claims.annotation(claim, claims.SELECTED_NODE) != room.name:
                    chosen = {claims.SELECTED_NODE: room.name}
                    self.hands.patch(CLAIMS, claim, {"metadata": {"annotations": chosen}})
            elif not volume["spec"].get("claimRef"):
                self.hands.patch(VOLUMES, volume, {"spec": {"claimRef": reference_to(claim)}})
        return not unbound


def _to_place(pod: Object) -> bool:
    spec = pod["spec"]
    if spec.get("nodeName") or pods.terminating(pod) or pods.finished(pod):
        return False
    return spec.get("schedulerName", SCHEDULER) == SCHEDULER and not spec.get("schedulingGates")


def _explain(total: int, refusals: Counter[str]) -> str:
    if not total:
        return "no nodes available to schedule pods"
    listed = ", ".join(f"{number} {why}" for why, number in sorted(refusals.items()))
    return f"0/{total} nodes are available: {listed}."
