"""That somebody drains a node, and how we know."""

from datetime import datetime

import msgspec

from defib.decide.upgrade.signal import is_usable
from defib.model.drain_policy import Source
from defib.model.node import Node

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """`started_at` is what the drainer itself says, where it says anything."""

    source: Source
    why: str  # a sentence, for people: by what we know
    started_at: datetime | None = None
    deadline: datetime | None = None  # from then on it forces by itself
    ends_at: datetime | None = None  # when it is none any more, whatever stands there
    taint: str = ""  # the key of the taint that stands for a cordon; empty: the node is cordoned
    evicts: bool = False  # nobody else evicts its pods, so we do, from the start
    upgrade: str = ""  # which upgrade it belongs to, where that has a name


def is_cordoned(node: Node) -> bool:
    """As Nodekeeper sees it: marked as unschedulable, and Kubernetes has made a taint of it. Other taints do not count."""
    return node.spec.unschedulable and any(_is_cordon(taint.key, taint.effect) for taint in node.spec.taints or ())


def cordoned_at(node: Node) -> datetime | None:
    """When Kubernetes added its taint, where it says so."""
    moments = [taint.time_added for taint in node.spec.taints or () if _is_cordon(taint.key, taint.effect)]
    return max((moment for moment in moments if is_usable(moment)), default=None)


def _is_cordon(key: str, effect: str) -> bool:
    return (key, effect) == (UNSCHEDULABLE, "NoSchedule")
