"""OpenShift's control-plane topologies: some clusters fence their own nodes, and two who do that would kill each other."""

from defib.decide.templates import Disabled
from defib.model.cluster import Cluster
from defib.model.health_check import KindRef

INFRASTRUCTURE = KindRef("config.openshift.io/v1", "Infrastructure")
SUPPORTED = ("HighlyAvailable", "HighlyAvailableArbiter", "SingleReplica", "External")
UNSUPPORTED = "UnsupportedTopology"


def unsupported(cluster: Cluster) -> Disabled | None:
    """What nobody says is no reason; a topology that we do not know is one."""
    for item in cluster.every(INFRASTRUCTURE):
        topology = (item.status or {}).get("controlPlaneTopology")
        if isinstance(topology, str) and topology and topology not in SUPPORTED:
            return Disabled(
                UNSUPPORTED,
                f"Unsupported control plane topology {topology[:60]!r}: such a cluster may fence its nodes by itself; "
                f"supported are {', '.join(SUPPORTED)}",
            )
    return None
