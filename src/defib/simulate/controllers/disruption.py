"""The arithmetic of disruption budgets: how many pods are healthy, how many must be, how many may go."""

from datetime import datetime, timedelta
from math import ceil
from typing import Any

from defib.simulate.controllers.hands import Hands
from defib.simulate.evicting import BUDGETS, ready, with_condition
from defib.simulate.kinds import metadata
from defib.simulate.selectors import matches_selector
from defib.simulate.server import ApiServer
from defib.simulate.store import Change, Object, Store, Version

_DISRUPTED_FOR = timedelta(minutes=2)  # an eviction that did not lead to a deletion by then is forgotten
_SCALED = {
    "ReplicaSet": "replicasets.apps",
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "ReplicationController": "replicationcontrollers",
}
_COUNTED = frozenset(("pods", BUDGETS, *_SCALED.values()))  # by these the numbers of a budget change


def scaled(limit: int | str, total: int) -> int:
    """A number, or a share of the total rounded up."""
    return limit if isinstance(limit, int) else ceil(int(limit.rstrip("%")) * total / 100)


class DisruptionController:
    def __init__(self, server: ApiServer) -> None:
        self._store = server.store
        self._clock = server.clock
        self._hands = Hands(server, "disruption-controller")

    def react(self, change: Change) -> None:
        if change.resource not in _COUNTED:
            return
        budgets = self._store.collection(BUDGETS)
        if not budgets.objects:
            return
        namespace = change.now.object["metadata"]["namespace"]
        for key in [k for k in budgets.keys() if k.startswith(f"{namespace}/")]:  # noqa: SIM118 - sorted
            self._count(budgets.objects[key])

    def _count(self, version: Version) -> None:
        budget = version.object
        pods = _selected(self._store, budget)
        expected, desired = self._wanted(budget["spec"], pods)
        disrupted = self._disrupted(budget, pods)
        healthy = sum(
            ready(pod) and not pod["metadata"].get("deletionTimestamp") and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        old = budget.get("status") or {}
        status: dict[str, Any] = {
            "observedGeneration": budget["metadata"].get("generation", 0),
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        state, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        now = metadata.stamp(self._clock.now())
        status["conditions"] = with_condition(old.get("conditions"), budget, state, reason, now)
        if status != old:
            self._hands.replace(BUDGETS, version, {**budget, "status": status}, subresource="status")

    def _wanted(self, spec: dict[str, Any], pods: list[Object]) -> tuple[int, int]:
        """How many pods there should be, and how many of them healthy."""
        if "maxUnavailable" in spec:
            expected = self._scale(pods)
            return expected, max(0, expected - scaled(spec["maxUnavailable"], expected))
        least = spec.get("minAvailable", 1)
        expected = len(pods) if isinstance(least, int) else self._scale(pods)
        return expected, scaled(least, expected)

    def _scale(self, pods: list[Object]) -> int:
        """The sum of the replicas that the pods' controllers wish for."""
        sizes: dict[str, int] = {}
        for pod in pods:
            controller = self._controller(pod)
            if controller:
                sizes[controller["metadata"]["uid"]] = controller["spec"].get("replicas", 1)
        return sum(sizes.values())

    def _controller(self, stored: Object) -> Object | None:
        """The topmost one: the Deployment above a ReplicaSet counts, not the ReplicaSet."""
        meta = stored["metadata"]
        owner = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), None)
        resource = _SCALED.get(owner["kind"]) if owner else None
        if owner is None or resource is None:
            return None
        found = self._store.get(resource, f"{meta['namespace']}/{owner['name']}")
        if found is None or found.object["metadata"]["uid"] != owner["uid"]:
            return None
        return self._controller(found.object) or found.object

    def _disrupted(self, budget: Object, pods: list[Object]) -> dict[str, str]:
        """Evictions that are granted but not yet seen as deletions."""
        noted: dict[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
        staying = {p["metadata"]["name"] for p in pods if not p["metadata"].get("deletionTimestamp")}
        since = self._clock.now() - _DISRUPTED_FOR
        return {name: at for name, at in noted.items() if name in staying and datetime.fromisoformat(at) > since}


def _selected(store: Store, budget: Object) -> list[Object]:
    namespace, selector = budget["metadata"]["namespace"], budget["spec"].get("selector")
    found = [v.object for k, v in store.collection("pods").objects.items() if k.startswith(f"{namespace}/")]
    return [
        pod
        for pod in found
        if matches_selector(selector, pod["metadata"].get("labels") or {})
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
