"""Why the API server would not evict a pod: its disruption budgets, as they stand now, and what would have to change.

The order of the questions is the API server's own.
"""

from collections.abc import Iterable
from typing import Any

from defib.decide.drains.budgets import Budgets
from defib.decide.drains.findings import Finding, Reason
from defib.model.budget import Budget
from defib.model.meta import Unstructured
from defib.model.pod import Pod

ALWAYS_ALLOW = "AlwaysAllow"  # what unhealthyPodEvictionPolicy may say
SYNC_FAILED = "SyncFailed"  # the reason in a budget's condition when its pods could not be counted
LONGEST_QUOTE = 200  # of what the scheduler says
NOT_COUNTED = frozenset({"Pending", "Succeeded", "Failed"})  # phases of pods that no budget protects


def refusal(pod: Pod, protecting: tuple[Budget, ...], budgets: Budgets) -> Finding | None:
    """What stands against its eviction; None when nothing does, or when it is on its way out already."""
    if pod.is_leaving or pod.status.phase in NOT_COUNTED:
        return None
    if budgets.unseen:
        message = f"whether a disruption budget protects it is not known: {budgets.unseen}"
        return Finding(reason=Reason.BUDGETS_UNKNOWN, message=message)
    if len(protecting) > 1:
        return _several(protecting)
    return _of_one(pod, protecting[0], budgets.items.get(protecting[0].key)) if protecting else None


def _of_one(pod: Pod, budget: Budget, item: Unstructured | None) -> Finding | None:
    if item is None:
        message = f"disruption budget {budget.key} cannot be read, so nobody knows whether it protects the pod"
        return Finding(reason=Reason.BUDGETS_UNKNOWN, message=message)
    if is_ready(pod):
        return of_budget(budget, _why_uncounted(item))
    found = None if lets_unhealthy_go(budget) else of_budget(budget, _why_uncounted(item))
    return _unhealthy(found, budget) if found is not None else None


def of_budget(budget: Budget, uncounted: str = "") -> Finding | None:
    """What it says to the eviction of a pod that is well; None when it lets one go."""
    status = budget.status
    if status.observed_generation < budget.generation:
        return _stale(budget)
    if status.disruptions_allowed > 0:
        return None
    if not status.expected_pods or uncounted:
        return _uncounted(budget, uncounted)
    return _never(budget) if status.desired_healthy >= status.expected_pods else _none_now(budget)


def of_replacements(found: Finding, pending: Iterable[Pod], budgets: Budgets) -> Finding | None:
    """A budget that waits for a pod which finds no place is the most common of all reasons."""
    if found.reason not in (Reason.BUDGET_NONE_NOW, Reason.UNHEALTHY_PROTECTED):
        return None
    waits = [pod for pod in pending if not pod.is_leaving and any(one.key == found.budget for one in budgets.of(pod))]
    if not waits:
        return None
    first = min(waits, key=lambda pod: pod.key)
    more = f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
    why = _scheduler_says(first)
    message = f"the budget waits for pod {first.key}{more}, which is Pending{f': {why}' if why else ''}"
    return Finding(reason=Reason.REPLACEMENT_PENDING, message=message, budget=found.budget)


def is_ready(pod: Pod) -> bool:
    return any((one.get("type"), one.get("status")) == ("Ready", "True") for one in pod.status.conditions or ())


def lets_unhealthy_go(budget: Budget) -> bool:
    status = budget.status
    is_well = status.current_healthy >= status.desired_healthy > 0
    return is_well or budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW


def _several(protecting: tuple[Budget, ...]) -> Finding:
    names = " and ".join(budget.key for budget in protecting)
    message = f"{len(protecting)} disruption budgets select it, {names}: the API server refuses every eviction then"
    advice = "change their selectors so that one of them selects it"
    return Finding(reason=Reason.BUDGETS_SEVERAL, message=message, blocks=True, advice=advice, budget=protecting[0].key)


def _stale(budget: Budget) -> Finding:
    message = (
        f"disruption budget {budget.key} has been changed, and Kubernetes has not counted its pods since; "
        "until then the API server refuses evictions"
    )
    advice = "if that lasts for more than a minute, see whether the kube-controller-manager is well"
    return _blocking(Reason.BUDGET_STALE, message, advice, budget)


def _uncounted(budget: Budget, why: str) -> Finding:
    message = f"disruption budget {budget.key} allows nothing, since Kubernetes has not counted its pods"
    advice = f"kubectl -n {budget.namespace} describe pdb {budget.name}"
    return _blocking(Reason.BUDGET_UNCOUNTED, f"{message}{f': {why}' if why else ''}", advice, budget)


def _never(budget: Budget) -> Finding:
    expected = budget.status.expected_pods
    pods = "1 pod" if expected == 1 else f"{expected} pods"
    message = f"disruption budget {budget.key} never lets a pod go: {_wish(budget)} of {pods}{_rounded(budget)}"
    more = "run a second pod and set" if expected == 1 else "set"
    return _blocking(Reason.BUDGET_NEVER, message, f"{more} maxUnavailable 1 instead", budget)


def _none_now(budget: Budget) -> Finding:
    status = budget.status
    counted = f"{status.current_healthy} of {status.expected_pods} pods are healthy, {status.desired_healthy} must stay"
    if status.current_healthy > status.desired_healthy:
        message = f"disruption budget {budget.key} allows none now: {counted} ({_wish(budget)}), and one is leaving"
        return _blocking(Reason.BUDGET_NONE_NOW, message, "it allows the next when another one is healthy", budget)
    message = f"disruption budget {budget.key} allows none now: {counted} ({_wish(budget)})"
    advice = f"it lets one go when {status.desired_healthy + 1} are healthy; see {_how_to_see(budget)}"
    return _blocking(Reason.BUDGET_NONE_NOW, message, advice, budget)


def _unhealthy(found: Finding, budget: Budget) -> Finding:
    message = f"it is not ready itself, and still protected: {found.message}"
    advice = f"unhealthyPodEvictionPolicy {ALWAYS_ALLOW} in the budget would let pods go that are not ready"
    return _blocking(Reason.UNHEALTHY_PROTECTED, message, advice, budget)


def _blocking(reason: Reason, message: str, advice: str, budget: Budget) -> Finding:
    return Finding(reason=reason, message=message, blocks=True, advice=advice, budget=budget.key)


def _wish(budget: Budget) -> str:
    if budget.spec.max_unavailable is not None:
        return f"maxUnavailable {budget.spec.max_unavailable}"
    return f"minAvailable {budget.spec.min_available}"


def _rounded(budget: Budget) -> str:
    """A share is rounded up, which surprises people who have few pods."""
    share = budget.spec.min_available
    is_odd = isinstance(share, str) and share != "100%"
    return f", which is rounded up to {budget.status.desired_healthy}" if is_odd else ""


def _how_to_see(budget: Budget) -> str:
    selector = budget.spec.selector or {}
    labels = selector.get("matchLabels")
    if not isinstance(labels, dict) or not labels or selector.get("matchExpressions"):
        return f"kubectl -n {budget.namespace} describe pdb {budget.name}"
    wanted = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return f"kubectl -n {budget.namespace} get pods -l {wanted}"


def _why_uncounted(item: Unstructured) -> str:
    conditions: Any = (item.status or {}).get("conditions")
    entries = [one for one in conditions if isinstance(one, dict)] if isinstance(conditions, list) else []
    failed = next((one for one in entries if one.get("reason") == SYNC_FAILED and one.get("status") == "False"), None)
    return _quote(str(failed.get("message", ""))) if failed is not None else ""


def _scheduler_says(pod: Pod) -> str:
    conditions = pod.status.conditions or ()
    said = next((one.get("message") for one in conditions if one.get("type") == "PodScheduled"), None)
    return _quote(str(said or ""))


def _quote(text: str) -> str:
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
