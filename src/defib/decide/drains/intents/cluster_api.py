"""Cluster API drains the node of a Machine that is being deleted, unless it was told not to.

The Machines stand in the management cluster, often beside those of many other clusters whose nodes may have the same
names. So a Machine counts only for the node that says it belongs to it.
"""

from defib.decide.drains.intent import Intent, cordoned_at, is_cordoned
from defib.decide.drains.intents.lengths import as_duration, as_seconds, later
from defib.decide.drains.intents.sight import in_sight
from defib.decide.fencing.kinds import CLUSTER_API
from defib.decide.upgrade.cluster_api import CLUSTER_NAMESPACE, VERSIONS
from defib.decide.upgrade.signal import inside, is_usable, moment
from defib.model.cluster import Cluster, Wanted
from defib.model.drain_policy import Source
from defib.model.health_check import KindRef
from defib.model.machine import PAUSED
from defib.model.meta import Unstructured
from defib.model.node import Node

MACHINES = tuple(KindRef(f"{CLUSTER_API}/{version}", "Machine") for version in VERSIONS)
WATCHED = tuple((kind, Wanted(can_wait=True)) for kind in MACHINES)

MACHINE = "cluster.x-k8s.io/machine"  # on a node, beside the namespace of its Machine
EXCLUDED = "machine.cluster.x-k8s.io/exclude-node-draining"
PRE_DRAIN_HOOK = "pre-drain.delete.hook.machine.cluster.x-k8s.io"


def cluster_api(node: Node, cluster: Cluster) -> Intent | None:
    machine = _machine_of(node, cluster)
    if machine is None or not is_cordoned(node) or not _is_draining(machine):
        return None
    started_at = moment(inside(machine.status, "deletion", "nodeDrainStartTime"))
    limit = as_seconds(inside(machine.spec, "deletion", "nodeDrainTimeoutSeconds"))
    limit = limit or as_duration(inside(machine.spec, "nodeDrainTimeout"))
    deleted_at = machine.metadata.deletion_timestamp
    begun_at = started_at or cordoned_at(node) or (deleted_at if is_usable(deleted_at) else None)
    return Intent(
        source=Source.CLUSTER_API,
        why=f"Cluster API is deleting Machine {machine.key}",
        started_at=started_at,
        deadline=later(begun_at, limit),
    )


def _machine_of(node: Node, cluster: Cluster) -> Unstructured | None:
    key = f"{node.annotations.get(CLUSTER_NAMESPACE, '')}/{node.annotations.get(MACHINE, '')}"
    served = next((seen for kind in MACHINES if (seen := in_sight(kind, cluster)) is not None), {})
    machine = served.get(key)
    is_mine = machine is not None and inside(machine.status, "nodeRef", "name") == node.name
    return machine if is_mine else None


def _is_draining(machine: Unstructured) -> bool:
    """Not before its hooks are done with it, nor when it only waits for volumes: then whatever is left may stay."""
    said = machine.annotations
    if machine.metadata.deletion_timestamp is None or EXCLUDED in said or PAUSED in said:
        return False
    is_done = inside(machine.status, "deletion", "waitForNodeVolumeDetachStartTime") is not None
    return not is_done and not any(name.startswith(PRE_DRAIN_HOOK) for name in said)
