"""Whether the control plane survives losing one more node for a while.

Where OpenShift guards etcd with a disruption budget, that budget is asked, as upstream does. Everywhere else the
control-plane nodes are counted: etcd needs more than half of them.
"""

from collections.abc import Mapping
from typing import Any

from defib.decide.ground import Ground, is_control_plane
from defib.model.budget import BUDGET
from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.verdict import Gate

CLUSTER_VERSION = KindRef("config.openshift.io/v1", "ClusterVersion")
PODS = KindRef("v1", "Pod")
ETCD_NAMESPACE = "openshift-etcd"


def quorum_gate(node: Node, ground: Ground) -> Gate:
    if not is_control_plane(node):
        return Gate(name="Quorum", is_open=True, message="it does not count for the quorum")
    if isinstance(ground.cluster.kinds.get(CLUSTER_VERSION), Served):
        return _guarded(node, ground)
    return _counted(node, ground)


def _counted(node: Node, ground: Ground) -> Gate:
    members = [one for one in ground.cluster.nodes.values() if is_control_plane(one)]
    needed = len(members) // 2 + 1
    others = sum(1 for one in members if one.name != node.name and one.ready == "True")
    return Gate(
        name="Quorum",
        is_open=others >= needed,
        value=f"{others} others ready",
        limit=f"at least {needed} of {len(members)}",
        message=f"without it {others} of {len(members)} control-plane nodes are ready, and etcd needs {needed}",
    )


def _guarded(node: Node, ground: Ground) -> Gate:
    if why := _out_of_sight(ground.cluster):
        return Gate(name="Quorum", is_open=False, message=f"nobody can say whether etcd has a quorum: {why}")
    budgets = [item for item in ground.cluster.every(BUDGET) if item.namespace == ETCD_NAMESPACE]
    if len(budgets) != 1:
        message = f"there are {len(budgets)} disruption budgets in {ETCD_NAMESPACE}, so nobody can say whether etcd has a quorum"
        return Gate(name="Quorum", is_open=False, value=str(len(budgets)), limit="1", message=message)
    (budget,) = budgets
    allowed = (budget.status or {}).get("disruptionsAllowed")
    if isinstance(allowed, int) and allowed >= 1:
        return Gate(name="Quorum", is_open=True, value=str(allowed), limit="1", message="etcd can spare a member")
    if _guard_runs(node, budget, ground):
        message = f"etcd cannot spare a member, and the one on {node.name} still works"
        return Gate(name="Quorum", is_open=False, value="0", limit="1", message=message)
    return Gate(name="Quorum", is_open=True, value="0", limit="1", message="its member of etcd is the one that is down")


def _out_of_sight(cluster: Cluster) -> str:
    """Why what guards etcd cannot be asked; empty when it can."""
    blind = {one.kind: one.why for one in cluster.blind} | dict(cluster.absent)
    for kind in (BUDGET, PODS):
        match cluster.kinds.get(kind):
            case Served(collection=collection) if collection in blind:
                return f"{collection} are out of sight: {blind[collection]}"
            case None:
                return f"{kind} is being looked for"
            case Missing(why):
                return why
    return ""


def _guard_runs(node: Node, budget: Unstructured, ground: Ground) -> bool:
    """Whether the pod that stands for this node's member is ready, or nobody knows."""
    wanted = _labels((budget.spec or {}).get("selector"))
    return any(
        _readiness(pod) in ("True", "Unknown")
        for pod in ground.cluster.every(PODS)
        if pod.namespace == ETCD_NAMESPACE
        and (pod.spec or {}).get("nodeName") == node.name
        and wanted.items() <= pod.labels.items()
    )


def _labels(selector: object) -> Mapping[str, str]:
    labels = selector.get("matchLabels") if isinstance(selector, dict) else None
    return labels if isinstance(labels, dict) else {}


def _readiness(pod: Unstructured) -> str:
    conditions: Any = (pod.status or {}).get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "Ready":
            return str(condition.get("status"))
    return ""
