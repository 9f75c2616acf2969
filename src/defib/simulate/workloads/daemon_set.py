"""DaemonSets: one pod on every node that takes it."""

from typing import Any

from defib.simulate.store import Change, Object, key_of
from defib.simulate.workloads import nodes, pods
from defib.simulate.workloads.controller import Controller
from defib.simulate.workloads.sight import controller_of

DAEMON_SETS = "daemonsets.apps"
_REVISION = "controller-revision-hash"

# A daemon stays on its node whatever becomes of it, and runs there before others may.
_TOLERATED = (
    (nodes.NOT_READY, nodes.NO_EXECUTE),
    (nodes.UNREACHABLE, nodes.NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", nodes.NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", nodes.NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", nodes.NO_SCHEDULE),
    (nodes.UNSCHEDULABLE, nodes.NO_SCHEDULE),
)
_NO_NETWORK = ("node.kubernetes.io/network-unavailable", nodes.NO_SCHEDULE)


class DaemonSetController(Controller):
    name = "daemon-set-controller"
    resource = DAEMON_SETS
    listens = (DAEMON_SETS, "pods", "nodes")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._failures_on: dict[tuple[str, str], tuple[float, float]] = {}  # when the last was deleted, and the pause

    def notice(self, change: Change) -> None:
        stored = change.now.object
        if change.resource == DAEMON_SETS:
            self.look_at(key_of(stored))
        elif change.resource == "nodes":
            self.start()
        else:
            owner = controller_of(stored)
            if owner and owner["kind"] == "DaemonSet":
                self.look_at(f"{stored['metadata']['namespace']}/{owner['name']}")

    def handle(self, key: str) -> None:
        daemon_set = self.sight.get(DAEMON_SETS, key)
        if daemon_set is None:
            return
        if not pods.terminating(daemon_set):
            known = self._by_node(daemon_set)
            for node in self.sight.all("nodes"):
                self._tend(daemon_set, node, known.get(node["metadata"]["name"], []))
            self._update(daemon_set)
        self._count(daemon_set)

    def _by_node(self, daemon_set: Object) -> dict[str, list[Object]]:
        found: dict[str, list[Object]] = {}
        for pod in self.sight.owned(daemon_set, "pods"):
            found.setdefault(_node_of(pod), []).append(pod)
        return found

    def _tend(self, daemon_set: Object, node: Object, there: list[Object]) -> None:
        runs, stays = _fits(daemon_set, node)
        if runs and not there:
            self._create(daemon_set, node)
            return
        doomed = [pod for pod in there if not pods.terminating(pod)]
        if stays:
            living = [pod for pod in doomed if not pods.finished(pod)]
            ended = [pod for pod in doomed if pods.finished(pod)]
            doomed = [*self._patiently(daemon_set, node, ended), *sorted(living, key=_age)[1:]]
        for pod in doomed:
            self.hands.delete("pods", pod)

    def _patiently(self, daemon_set: Object, node: Object, ended: list[Object]) -> list[Object]:
        """Failed pods are not replaced in a hot loop: a kubelet may go on refusing them."""
        failed = [pod for pod in ended if pods.phase(pod) == "Failed"]
        if not failed:
            return ended
        place = daemon_set["metadata"]["uid"], node["metadata"]["name"]
        now = self.clock.monotonic()
        last, pause = self._failures_on.get(place, (0.0, 0.0))
        if last + pause > now:
            self.look_after(key_of(daemon_set), last + pause - now)
            return [pod for pod in ended if pod not in failed]
        longer = min(2 * pause or self.timers.daemon_backoff_seconds, self.timers.daemon_backoff_limit_seconds)
        self._failures_on[place] = now, longer
        return ended

    def _create(self, daemon_set: Object, node: Object) -> None:
        pod = pods.from_template("DaemonSet", "apps/v1", daemon_set, self.timers.toleration_seconds)
        meta, spec = pod["metadata"], pod["spec"]
        meta["labels"] = {
            **meta.get("labels", {}),
            _REVISION: _revision(daemon_set),
            "pod-template-generation": str(daemon_set["metadata"].get("generation", 1)),
        }
        spec["tolerations"] = _tolerations(daemon_set)
        spec["affinity"] = _pinned(spec.get("affinity") or {}, node["metadata"]["name"])
        self.hands.create("pods", pod)

    def _update(self, daemon_set: Object) -> None:
        """Replaces pods of an old template: those that are broken anyway, then one after the other."""
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        revision = _revision(daemon_set)
        mine = [pod for pod in self.sight.owned(daemon_set, "pods") if not pods.finished(pod)]
        old = [p for p in mine if (p["metadata"].get("labels") or {}).get(_REVISION) != revision and pods.active(p)]
        broken = [pod for pod in old if not pods.ready(pod)]
        for pod in broken:
            self.hands.delete("pods", pod)
        if not broken and old and all(pods.active(pod) and pods.ready(pod) for pod in mine):
            self.hands.delete("pods", old[0])

    def _count(self, daemon_set: Object) -> None:
        latest = self.sight.get(DAEMON_SETS, key_of(daemon_set))
        if latest is None:
            return
        known, revision = self._by_node(latest), _revision(latest)
        wanted = scheduled = astray = ready = updated = 0
        for node in self.sight.all("nodes"):
            there = known.get(node["metadata"]["name"], [])
            if not _fits(latest, node)[0]:
                astray += bool(there)
                continue
            wanted += 1
            if there:
                scheduled += 1
                oldest = min(there, key=_age)
                ready += pods.ready(oldest)
                updated += (oldest["metadata"].get("labels") or {}).get(_REVISION) == revision
        lacking = {"numberAvailable": ready, "numberUnavailable": wanted - ready, "updatedNumberScheduled": updated}
        status = {
            "currentNumberScheduled": scheduled,
            "numberMisscheduled": astray,
            "desiredNumberScheduled": wanted,
            "numberReady": ready,
            "observedGeneration": latest["metadata"].get("generation", 0),
            **{name: number for name, number in lacking.items() if number},
        }
        self.hands.set_status(DAEMON_SETS, latest, status)


def _fits(daemon_set: Object, node: Object) -> tuple[bool, bool]:
    """Whether a pod should start on a node, and whether one that is there may stay."""
    if not nodes.wanted_by(daemon_set["spec"]["template"]["spec"], node):
        return False, False
    tolerations, taints = _tolerations(daemon_set), nodes.taints_of(node)
    stays = nodes.untolerated(taints, tolerations, (nodes.NO_EXECUTE,)) is None
    return stays and nodes.untolerated(taints, tolerations) is None, stays


def _tolerations(daemon_set: Object) -> list[dict[str, Any]]:
    spec = daemon_set["spec"]["template"]["spec"]
    rows = (*_TOLERATED, _NO_NETWORK) if spec.get("hostNetwork") else _TOLERATED
    return [
        *(spec.get("tolerations") or []),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in rows),
    ]


def _pinned(affinity: Object, node: str) -> Object:
    """The scheduler places daemons too; each may go to one node only."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [{**term, "matchFields": [field]} for term in required.get("nodeSelectorTerms") or [{}]]
    pinned = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": {**of_nodes, **pinned}}


def _node_of(pod: Object) -> str:
    """Where it is, or where it may go."""
    found: str = pod["spec"].get("nodeName", "")
    if found:
        return found
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            found = field["values"][0]
    return found


def _age(pod: Object) -> tuple[bool, str, str]:
    """The one to keep sorts first: placed, then old."""
    meta = pod["metadata"]
    return not pod["spec"].get("nodeName"), meta["creationTimestamp"], meta["name"]


def _revision(daemon_set: Object) -> str:
    return pods.hash_of(daemon_set["spec"]["template"])
