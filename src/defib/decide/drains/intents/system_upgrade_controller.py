"""Rancher's system-upgrade-controller (k3s, RKE2 and others) runs `kubectl drain` in a Job, for a Plan that asks for it.

It has no deadline after which it would force anything. `drain.timeout` ends `kubectl drain` with an error, and the Job
tries again. `force`, `disableEviction` and `skipWaitForDeleteTimeout` apply from the first moment on, or not at all.
"""

from collections.abc import Collection
from datetime import datetime

from defib.decide.drains.intent import Intent, is_cordoned
from defib.decide.drains.intents.sight import in_sight
from defib.decide.upgrade.signal import condition, inside, moment, true_condition, words
from defib.decide.upgrade.system_upgrade_controller import HOSTNAME
from defib.model.cluster import Cluster, Wanted
from defib.model.drain_policy import Source
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.node import Node

PLANS = KindRef("upgrade.cattle.io/v1", "Plan")
JOBS = KindRef("batch/v1", "Job")
NODE = "upgrade.cattle.io/node"
PLAN = "upgrade.cattle.io/plan"

# A Job only tells when the drain began. Where the controller lives elsewhere, the cordon tells it as well; to watch the
# Jobs of all namespaces for that would be a waste.
WATCHED = ((PLANS, Wanted(can_wait=True)), (JOBS, Wanted("system-upgrade", can_wait=True)))


def system_upgrade_controller(node: Node, cluster: Cluster) -> Intent | None:
    if not is_cordoned(node):
        return None
    names = {node.name, node.labels.get(HOSTNAME, node.name)}  # which of them is meant differs between versions
    plan = next((plan for plan in (in_sight(PLANS, cluster) or {}).values() if _drains(plan, names)), None)
    if plan is None:
        return None
    version = words(inside(plan.status, "latestVersion"))
    return Intent(
        source=Source.SYSTEM_UPGRADE_CONTROLLER,
        why=f"system-upgrade-controller is applying Plan {plan.key} ({version or 'no version'}) to the node",
        started_at=_started_at(plan, names, cluster),
        upgrade=version,
    )


def _drains(plan: Unstructured, names: Collection[str]) -> bool:
    """Without `drain`, a Plan leaves the pods where they are, even if it cordons the node."""
    applying = inside(plan.status, "applying")
    if not isinstance(applying, list) or true_condition(inside(plan.status, "conditions"), "Complete"):
        return False
    return isinstance(inside(plan.spec, "drain"), dict) and any(name in applying for name in names)


def _started_at(plan: Unstructured, names: Collection[str], cluster: Cluster) -> datetime | None:
    jobs = (job for job in (in_sight(JOBS, cluster) or {}).values() if job.namespace == plan.namespace)
    mine = (job for job in jobs if job.labels.get(PLAN) == plan.name and job.labels.get(NODE) in names)
    starts = (moment(inside(job.status, "startTime")) for job in mine if not _has_ended(job))
    return max((start for start in starts if start is not None), default=None)


def _has_ended(job: Unstructured) -> bool:
    ends = (condition(inside(job.status, "conditions"), kind) for kind in ("Complete", "Failed"))
    return any(end is not None and end.get("status") == "True" for end in ends)
