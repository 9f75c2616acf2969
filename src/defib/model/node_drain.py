"""NodeDrain: our record of one drain of one node. Named after its node; owned by the policy that watches it.

It remembers when the drain began, however often the node is uncordoned meanwhile, and which step was taken for which
pod. A step is written down here before it is taken.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from defib.model.drain_policy import Source
from defib.model.health_check import KindRef, StatusCondition
from defib.model.meta import Unstructured, Wire
from defib.model.moment import is_sensible
from defib.model.pod import Pod
from defib.model.pod_failover import API_VERSION, KEEP

DRAIN = KindRef(API_VERSION, "NodeDrain")
LOCK_HOLDER = "defib-drain"  # on the lock of a node, while anything is forced there

# On a node, by a person. The first: somebody else drains it, and Defib is to see that it ends.
WATCH_MARK = "defib.dev/watch-drain"  # label or annotation, "true"
# The second: Defib is to drain it, from now on. The value is the reason, for whoever reads it.
DRAIN_MARK = "defib.dev/drain"
# For a policy in mode Approve: until when pods of this node may be forced to leave.
APPROVED_UNTIL = "defib.dev/drain-approved-until"
# Others, on pods, by which somebody asked that they be left alone.
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"  # annotation "true"
CLUSTER_API_SKIP = "cluster.x-k8s.io/drain"  # label "skip"
UPGRADER = "upgrade.cattle.io/controller"  # label of the pods by which system-upgrade-controller drains the node


def opt_out(pod: Pod) -> str:
    """By what somebody asked that this pod be left alone, as a sentence; empty when nobody did."""
    reasons = (
        (KEEP in pod.annotations, f"its annotation {KEEP} says that it stays"),
        (pod.annotations.get(DO_NOT_DISRUPT) == "true", f"its annotation {DO_NOT_DISRUPT} says that it stays"),
        (pod.labels.get(CLUSTER_API_SKIP) == "skip", f"its label {CLUSTER_API_SKIP}=skip says that it stays"),
    )
    return next((why for is_so, why in reasons if is_so), "")


class Phase(StrEnum):
    WATCHING = "Watching"  # whoever drains it still has time
    OBSERVED = "Observed"  # something is due, and the policy only observes
    APPROVAL = "WaitingForApproval"
    HELD = "Held"  # something is due, and something else stands against it; `reason` says what
    FORCING = "Forcing"
    DRAINED = "Drained"  # nothing is left that would have to go
    PAUSED = "Paused"  # nobody drains it at the moment; if that stays so, the record goes


class Rung(StrEnum):
    """What can be done about one pod, from the mildest."""

    EVICT = "Evict"
    DELETE = "Delete"
    FINALIZERS = "RemoveFinalizers"
    KILL = "Kill"  # deleted with a second of grace: its kubelet kills it, and says when it is dead
    FORCE = "ForceDelete"  # deleted without asking its kubelet


class PodEntry(Wire, frozen=True):
    """The last step that was taken for a pod, or is about to be."""

    namespace: str
    name: str
    uid: str
    rung: Rung
    at: datetime
    why: str = ""


class DrainStatus(Wire, frozen=True):
    node_uid: str = msgspec.field(default="", name="nodeUID")
    policy: str = ""
    source: Source | None = None
    why: str = ""  # by what we know that it is being drained
    started_at: datetime | None = None
    peer_deadline: datetime | None = None  # until then whoever drains it forces by itself
    paused_at: datetime | None = None
    phase: Phase = Phase.WATCHING
    reason: str = ""
    message: str = ""
    begun: bool = False  # something was forced, or is about to be: it has a place in the budget until it is over
    failed: bool = False
    pods_left: int | None = None
    next_at: datetime | None = None
    next: str = ""
    pods: list[PodEntry] | None = None
    conditions: list[StatusCondition] | None = None

    def entry(self, uid: str) -> PodEntry | None:
        return next((one for one in self.pods or () if one.uid == uid), None)

    @property
    def is_in_the_calendar(self) -> bool:
        """Whether the moments by which we go can be compared with now, and have a length added to them."""
        told = (self.started_at, self.paused_at, *(one.at for one in self.pods or ()))
        return all(one is None or (one.tzinfo is not None and is_sensible(one)) for one in told)


def read_drain_status(item: Unstructured) -> DrainStatus:
    """A status that makes no sense counts as none: the drain begins anew, which forces nobody too early."""
    try:
        status = msgspec.convert(item.status or {}, DrainStatus)
    except msgspec.ValidationError:
        return DrainStatus()
    return status if status.is_in_the_calendar else DrainStatus()


def forced_nodes(drains: Iterable[Unstructured]) -> frozenset[str]:
    """Nodes from which pods are made to leave now, or are about to be: as good as out. Cheap, for those who only count."""
    statuses = ((item.name, item.status) for item in drains)
    return frozenset(name for name, status in statuses if isinstance(status, dict) and status.get("begun") is True)
