"""What a scheduler knows of the nodes while it places pods: who is where, what is left, who keeps away from whom."""

from collections.abc import Iterator
from typing import Any

from defib.simulate.selectors import matches_selector
from defib.simulate.store import Object
from defib.simulate.workloads import nodes, pods
from defib.simulate.workloads.claims import quantity
from defib.simulate.workloads.sight import Sight

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_RESOURCES = ("cpu", "memory")


class Room:
    """One node and its pods."""

    def __init__(self, node: Object, there: list[Object]) -> None:
        self.node = node
        self.name: str = node["metadata"]["name"]
        self.labels: dict[str, str] = node["metadata"].get("labels") or {}
        self.taints = nodes.effective_taints(node)
        self.pods = there
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        self._most = {name: quantity(allocatable[name]) for name in ("pods", *_RESOURCES) if name in allocatable}
        self._used = {name: sum(_requested(pod, name) for pod in there) for name in _RESOURCES if name in self._most}

    def add(self, pod: Object) -> None:
        self.pods.append(pod)
        for name in self._used:
            self._used[name] += _requested(pod, name)

    def lacks(self, pod: Object) -> str:
        """What there is too little of; empty when the pod fits."""
        if len(self.pods) + 1 > self._most.get("pods", float("inf")):
            return "Too many pods"
        for name, used in self._used.items():
            asked = _requested(pod, name)
            if asked and used + asked > self._most[name]:
                return f"Insufficient {name}"
        return ""


class Rooms:
    """All nodes, as they were when a round began and with what was placed since."""

    def __init__(self, sight: Sight) -> None:
        self.all = [
            Room(node, [pod for pod in sight.on_node(node["metadata"]["name"]) if not pods.finished(pod)])
            for node in sight.all("nodes")
        ]
        self._shy = [(room, pod) for room in self.all for pod in room.pods if list(_terms(pod, "podAntiAffinity"))]

    def place(self, pod: Object, room: Room) -> None:
        room.add(pod)
        if list(_terms(pod, "podAntiAffinity")):
            self._shy.append((room, pod))

    def refusal(self, pod: Object, room: Room) -> str:
        """Why a pod cannot go to a node; empty when it can."""
        spec = pod["spec"]
        if not nodes.wanted_by(spec, room.node):
            return "node(s) didn't match Pod's node affinity/selector"
        if nodes.untolerated(room.taints, spec.get("tolerations") or []):
            return "node(s) had untolerated taint(s)"
        return room.lacks(pod) or self._unsocial(pod, room)

    def _unsocial(self, pod: Object, room: Room) -> str:
        for term in _terms(pod, "podAntiAffinity"):
            if any(_selects(term, pod, other) for other in self._near(room, term["topologyKey"])):
                return "node(s) didn't match pod anti-affinity rules"
        for place, other in self._shy:
            for term in _terms(other, "podAntiAffinity"):
                if _same(place, room, term["topologyKey"]) and _selects(term, other, pod):
                    return "node(s) didn't satisfy existing pods anti-affinity rules"
        for term in _terms(pod, "podAffinity"):
            if not self._welcome(pod, room, term):
                return "node(s) didn't match pod affinity rules"
        return self._lopsided(pod, room)

    def _welcome(self, pod: Object, room: Room, term: Object) -> bool:
        """The first of a group that wants to be together may go anywhere."""
        if any(_selects(term, pod, other) for other in self._near(room, term["topologyKey"])):
            return True
        lonely = not any(_selects(term, pod, other) for one in self.all for other in one.pods)
        return lonely and _selects(term, pod, pod) and term["topologyKey"] in room.labels

    def _lopsided(self, pod: Object, room: Room) -> str:
        for rule in pod["spec"].get("topologySpreadConstraints") or ():
            if rule.get("whenUnsatisfiable", "DoNotSchedule") != "DoNotSchedule":
                continue
            key = rule["topologyKey"]
            if key not in room.labels:
                return "node(s) didn't match pod topology spread constraints (missing required label)"
            counts = self._spread(pod, rule)
            if counts[room.labels[key]] + 1 - min(counts.values()) > rule["maxSkew"]:
                return "node(s) didn't match pod topology spread constraints"
        return ""

    def _spread(self, pod: Object, rule: Object) -> dict[str, int]:
        """How many of a pod's kind each domain has, among the nodes the pod could want."""
        counts: dict[str, int] = {}
        for room in self.all:
            domain = room.labels.get(rule["topologyKey"])
            if domain is None or not nodes.wanted_by(pod["spec"], room.node):
                continue
            alike = sum(_alike(rule, pod, other) for other in room.pods if not pods.terminating(other))
            counts[domain] = counts.get(domain, 0) + alike
        return counts

    def _near(self, room: Room, topology_key: str) -> Iterator[Object]:
        for one in self.all:
            if _same(one, room, topology_key):
                yield from one.pods


def _same(one: Room, other: Room, topology_key: str) -> bool:
    domain = one.labels.get(topology_key)
    return domain is not None and domain == other.labels.get(topology_key)


def _terms(pod: Object, kind: str) -> list[Object]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return affinity.get(_REQUIRED) or []


def _selects(term: Object, owner: Object, other: Object) -> bool:
    """Whether a term of one pod speaks of another. Namespace selectors are read as naming none."""
    namespaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
    if other["metadata"]["namespace"] not in namespaces:
        return False
    return matches_selector(term.get("labelSelector"), other["metadata"].get("labels") or {})


def _alike(rule: Object, pod: Object, other: Object) -> bool:
    if pod["metadata"]["namespace"] != other["metadata"]["namespace"]:
        return False
    return matches_selector(rule.get("labelSelector"), other["metadata"].get("labels") or {})


def _requested(pod: Object, resource: str) -> float:
    containers: list[dict[str, Any]] = pod["spec"].get("containers") or []
    return sum(
        quantity(((container.get("resources") or {}).get("requests") or {}).get(resource, 0))
        for container in containers
    )
