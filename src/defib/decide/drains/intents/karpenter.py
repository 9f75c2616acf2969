"""Karpenter drains a node whose NodeClaim is being deleted. Its taint stands for a cordon.

The taint alone is no drain: Karpenter sets it while it still waits for a replacement, and takes it back if none comes.
With a termination grace period, it deletes pods in time by itself, whatever budgets say: that is its deadline.
"""

from collections.abc import Mapping
from datetime import datetime

from defib.decide.drains.intent import Intent
from defib.decide.drains.intents.lengths import as_duration, later
from defib.decide.drains.intents.sight import in_sight
from defib.decide.upgrade.signal import inside, is_usable, moment
from defib.model.cluster import Cluster, Wanted
from defib.model.drain_policy import Source
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.node import Node

DISRUPTED = "karpenter.sh/disrupted"
NODE_CLAIMS = KindRef("karpenter.sh/v1", "NodeClaim")
TERMINATION = "karpenter.sh/nodeclaim-termination-timestamp"
WATCHED = ((NODE_CLAIMS, Wanted(can_wait=True)),)


def karpenter(node: Node, cluster: Cluster) -> Intent | None:
    if not any((taint.key, taint.effect) == (DISRUPTED, "NoSchedule") for taint in node.spec.taints or ()):
        return None
    claim = _claim_of(node, in_sight(NODE_CLAIMS, cluster) or {})
    if claim is None or claim.metadata.deletion_timestamp is None:
        return None
    deleted_at = claim.metadata.deletion_timestamp
    started_at = deleted_at if is_usable(deleted_at) else None
    return Intent(
        source=Source.KARPENTER,
        why=f"Karpenter is deleting NodeClaim {claim.name}",
        started_at=started_at,
        deadline=_deadline(claim, started_at),
        taint=DISRUPTED,
    )


def _claim_of(node: Node, claims: Mapping[str, Unstructured]) -> Unstructured | None:
    """A node belongs to its claim, which spares a search among thousands; but it is the claim that counts."""
    owners = [owner.name for owner in node.metadata.owner_references or () if owner.kind == NODE_CLAIMS.name]
    known = [claims[name] for name in owners if name in claims]
    return next((claim for claim in known or claims.values() if inside(claim.status, "nodeName") == node.name), None)


def _deadline(claim: Unstructured, deleted_at: datetime | None) -> datetime | None:
    """Karpenter writes it down a moment after the deletion; until then it follows from the claim."""
    written = moment(claim.annotations.get(TERMINATION))
    return written or later(deleted_at, as_duration(inside(claim.spec, "terminationGracePeriod")))
