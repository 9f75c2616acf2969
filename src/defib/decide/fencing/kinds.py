"""Kinds of other projects that have several versions: the newest that a cluster serves is looked at, and no other."""

from collections.abc import Iterator

from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured

Versions = tuple[KindRef, ...]  # of one kind, the newest first

OPENSHIFT = "machine.openshift.io"
CLUSTER_API = "cluster.x-k8s.io"


def _versions(group: str, name: str, *versions: str) -> Versions:
    return tuple(KindRef(f"{group}/{version}", name) for version in versions)


MACHINES = (_versions(OPENSHIFT, "Machine", "v1beta1"), _versions(CLUSTER_API, "Machine", "v1beta2", "v1beta1"))
MACHINE_HEALTH_CHECKS = (
    _versions(OPENSHIFT, "MachineHealthCheck", "v1beta1"),
    _versions(CLUSTER_API, "MachineHealthCheck", "v1beta2", "v1beta1"),
)
METAL3_MACHINES = _versions("infrastructure.cluster.x-k8s.io", "Metal3Machine", "v1beta2", "v1beta1")
METAL3_REMEDIATIONS = _versions("infrastructure.cluster.x-k8s.io", "Metal3Remediation", "v1beta2", "v1beta1")


def to_ask_for(versions: Versions, cluster: Cluster) -> Versions:
    """The newest, and an older one only where the cluster does not have it."""
    for place, kind in enumerate(versions):
        if not isinstance(cluster.kinds.get(kind), Missing):
            return versions[: place + 1]
    return versions


def items_of(versions: Versions, cluster: Cluster) -> Iterator[tuple[KindRef, Unstructured]]:
    kind = next((kind for kind in versions if isinstance(cluster.kinds.get(kind), Served)), None)
    if kind is not None:
        yield from ((kind, item) for item in cluster.every(kind))


def are_in_sight(versions: Versions, cluster: Cluster) -> bool:
    """Whether we know all that there are: none, where the cluster does not have the kind."""
    for kind in versions:
        known = cluster.kinds.get(kind)
        if isinstance(known, Served):
            is_blind = any(blindness.kind == known.collection for blindness in cluster.blind)
            return not is_blind and known.collection not in cluster.absent
        if not isinstance(known, Missing):
            return False
    return True
