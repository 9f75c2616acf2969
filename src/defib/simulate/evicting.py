"""The eviction subresource: a delete that asks the pod's disruption budget first."""

from typing import Any

import msgspec

from defib.clock import Clock
from defib.simulate.bodies import decoded
from defib.simulate.deleting import DeleteOptions, Deleter, check_preconditions, read_options
from defib.simulate.kinds import metadata
from defib.simulate.kinds.catalog import Served
from defib.simulate.refusals import Refusal, bad_request, internal
from defib.simulate.routing import Call
from defib.simulate.selectors import matches_selector
from defib.simulate.store import Object, Store, Version

BUDGETS = "poddisruptionbudgets.policy"
_DISRUPTED_MAX = 2000
_RETRY_SECONDS = 10


def ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def budgets_of(store: Store, pod: Object) -> list[Version]:
    """The budgets that select a pod."""
    meta = pod["metadata"]
    labels = meta.get("labels") or {}
    return [
        budget
        for budget in store.collection(BUDGETS).objects.values()
        if budget.object["metadata"]["namespace"] == meta["namespace"]
        and matches_selector((budget.object.get("spec") or {}).get("selector"), labels)
    ]


def _no_budget_needed(pod: Object) -> bool:
    """Ended, not yet started, or already going: taking it away disrupts nothing."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _free_of_charge(pod: Object, budget: Object) -> bool:
    """A pod that is not ready may go without being counted, if the budget's policy says so."""
    if ready(pod):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _too_many(why: str, retry_after: int = 0) -> Refusal:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return Refusal(429, "TooManyRequests", message, details)


def _check_budget(budget: Object) -> None:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)
    if len(status.get("disruptedPods") or ()) > _DISRUPTED_MAX:
        why = "disrupted pods map too big - too many evictions not confirmed by PDB controller"
        raise Refusal(403, "Forbidden", f'poddisruptionbudgets.policy "{name}" is forbidden: {why}', {"name": name})
    if status.get("disruptionsAllowed", 0) == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _too_many(f"The disruption budget {name} needs {needs} healthy pods and has {has} currently")


class Evictor:
    def __init__(self, store: Store, clock: Clock, deleter: Deleter) -> None:
        self._store = store
        self._clock = clock
        self._deleter = deleter

    def evict(self, call: Call, pod: Version) -> dict[str, Any]:
        options = self._options(call)
        if not _no_budget_needed(pod.object):
            self._charge(pod.object, options)
        self._delete(call.served, pod, options)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _options(self, call: Call) -> DeleteOptions:
        body = decoded(call)
        if not isinstance(body, dict) or body.get("kind", "Eviction") != "Eviction":
            raise bad_request("no kind Eviction in the body")
        if (body.get("metadata") or {}).get("name", call.name) != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = read_options(body.get("deleteOptions") or {})
        return msgspec.structs.replace(options, dry_run=["All"]) if call.dry_run else options

    def _charge(self, pod: Object, options: DeleteOptions) -> None:
        """Takes one disruption from the pod's budget, or refuses."""
        budgets = budgets_of(self._store, pod)
        if len(budgets) > 1:
            raise internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        if not budgets or _free_of_charge(pod, budgets[0].object):
            return
        budget = budgets[0].object
        _check_budget(budget)
        if options.only_tries:
            return
        now = metadata.stamp(self._clock.now())
        status = budget["status"]
        left = status["disruptionsAllowed"] - 1
        disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: now}
        charged = {**status, "disruptionsAllowed": left, "disruptedPods": disrupted}
        if left == 0:
            charged["conditions"] = with_condition(status.get("conditions"), budget, "False", "InsufficientPods", now)
        self._store.put(BUDGETS, {**budget, "status": charged})

    def _delete(self, served: Served, pod: Version, options: DeleteOptions) -> None:
        """Marked as the target of a disruption first, so that whoever owns the pod knows why it went."""
        check_preconditions(served, pod.object, options.preconditions)  # late: a miss is charged all the same
        if not options.only_tries:
            marked = self._marked(pod.object)
            pod = pod if marked == pod.object else self._store.put(served.place, marked)
            options = msgspec.structs.replace(options, preconditions=None)  # they held before our own write
        self._deleter.delete(served, pod, options)

    def _marked(self, pod: Object) -> Object:
        status = pod.get("status") or {}
        conditions = status.get("conditions") or []
        if any((c["type"], c["status"]) == ("DisruptionTarget", "True") for c in conditions):
            return pod
        why = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": metadata.stamp(self._clock.now()),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        kept = [c for c in conditions if c["type"] != "DisruptionTarget"]
        return {**pod, "status": {**status, "conditions": [*kept, why]}}


def with_condition(
    conditions: list[dict[str, Any]] | None, budget: Object, status: str, reason: str, now: str
) -> list[dict[str, Any]]:
    """The conditions of a budget with DisruptionAllowed as given; its time moves only when its status does."""
    old = next((c for c in conditions or () if c["type"] == "DisruptionAllowed"), None)
    made = {
        "type": "DisruptionAllowed",
        "status": status,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": old["lastTransitionTime"] if old and old["status"] == status else now,
        "reason": reason,
        "message": "",
    }
    return [*(c for c in conditions or () if c["type"] != "DisruptionAllowed"), made]
