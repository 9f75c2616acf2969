"""OpenShift's MachineHealthChecks: two who remediate the same nodes would fight, so only one of them may."""

from typing import Any

from defib.decide.quorum import CLUSTER_VERSION
from defib.decide.templates import LOOKING, Disabled
from defib.decide.topology import INFRASTRUCTURE
from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.node_drain import DRAIN

MACHINE_HEALTH_CHECK = KindRef("machine.openshift.io/v1beta1", "MachineHealthCheck")
CONFLICT = "ConflictingMachineHealthCheckDetected"
TERMINATING = "Terminating"


def unasked(cluster: Cluster) -> Disabled | None:
    """Before we know whether this is an OpenShift, with guards of its own, and who is drained, nothing may be begun."""
    asked = [CLUSTER_VERSION, MACHINE_HEALTH_CHECK, DRAIN]
    if isinstance(cluster.kinds.get(CLUSTER_VERSION), Served):
        asked.append(INFRASTRUCTURE)
    kind = next((kind for kind in asked if kind not in cluster.kinds), None)
    return Disabled(LOOKING, f"{kind} is being looked for") if kind is not None else None


def conflict(cluster: Cluster) -> Disabled | None:
    """One check that looks after terminating nodes alone is no conflict: we leave those to it."""
    found = _machine_checks(cluster)
    if not found or (len(found) == 1 and _is_for_terminating(found[0])):
        return None
    names = ", ".join(sorted(item.key for item in found)[:3])
    return Disabled(
        CONFLICT, f"{len(found)} MachineHealthChecks remediate nodes too ({names}); delete them, or this check"
    )


def spares_terminating(cluster: Cluster) -> bool:
    return bool(_machine_checks(cluster))


def _machine_checks(cluster: Cluster) -> list[Unstructured]:
    return list(cluster.every(MACHINE_HEALTH_CHECK))


def _is_for_terminating(item: Unstructured) -> bool:
    conditions: Any = (item.spec or {}).get("unhealthyConditions")
    if not isinstance(conditions, list) or len(conditions) != 1:
        return False
    return isinstance(conditions[0], dict) and conditions[0].get("type") == TERMINATING
