"""cluster-autoscaler drains a node that it does not need any more. Its taint says since when, and stands for a cordon.

Its other taint, DeletionCandidateOfClusterAutoscaler, is no drain: it may be taken back at any time.
"""

from datetime import UTC, datetime, timedelta

from defib.decide.drains.intent import Intent
from defib.model.cluster import Cluster
from defib.model.drain_policy import Source
from defib.model.node import Node

TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"

# It tries to evict for 2 minutes, and waits 10 more for pods to end; then it deletes the machine with whatever is left,
# or gives up and takes the taint away. Those are its usual limits, with some time for it to notice.
GIVES_UP_AFTER = timedelta(minutes=15)
# One that is older was left behind: the node is not being removed, and its pods must stay.
STALE_AFTER = timedelta(hours=2)

_DIGITS = 10  # of seconds since 1970, from 2001 to 2286
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cluster_autoscaler(node: Node, cluster: Cluster) -> Intent | None:
    taints = [one for one in node.spec.taints or () if (one.key, one.effect) == (TO_BE_DELETED, "NoSchedule")]
    started_at = _moment(taints[0].value) if taints else None
    if started_at is None or started_at + STALE_AFTER < cluster.now:
        return None
    return Intent(
        source=Source.CLUSTER_AUTOSCALER,
        why="cluster-autoscaler is removing the node",
        started_at=started_at,
        deadline=started_at + GIVES_UP_AFTER,
        ends_at=started_at + STALE_AFTER,
        taint=TO_BE_DELETED,
    )


def _moment(text: str) -> datetime | None:
    """Seconds since 1970. Cluster-autoscaler always writes them, so a taint without them is not its own."""
    is_number = text.isascii() and text.isdigit() and len(text) == _DIGITS
    return _EPOCH + timedelta(seconds=int(text)) if is_number else None
