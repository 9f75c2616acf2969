"""Whether a kind of somebody else is seen as it is now. What is out of sight proves nothing, so it is nobody's drain."""

from collections.abc import Mapping

from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured


def in_sight(kind: KindRef, cluster: Cluster) -> Mapping[str, Unstructured] | None:
    """Its objects by key; None while nobody has asked, where the cluster does not have it, or where we cannot see it."""
    served = cluster.kinds.get(kind)
    if not isinstance(served, Served) or served.collection not in cluster.others:
        return None
    is_lost = served.collection in cluster.absent or any(lost.kind == served.collection for lost in cluster.blind)
    return None if is_lost else cluster.all_of(served.collection, Unstructured)


def is_missing(kind: KindRef, cluster: Cluster) -> bool:
    """Whether we were told that there is no such kind, which is more than not seeing it."""
    return isinstance(cluster.kinds.get(kind), Missing)
