"""Who drains which node. One recogniser for each source, by what that source itself leaves in the cluster.

None of them raises, whatever stands there: what cannot be read counts as no drain, or as one that does not say when it
began. A source may be switched off, and one whose objects are out of sight is as good as off.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from types import MappingProxyType

import msgspec

from defib.decide.drains.intent import Intent
from defib.decide.drains.intents import (
    cluster_api,
    cluster_autoscaler,
    defib_mark,
    karpenter,
    kubectl,
    kured,
    openshift,
    system_upgrade_controller,
)
from defib.decide.drains.intents.sight import in_sight, is_missing
from defib.model.cluster import Cluster, Wanted
from defib.model.drain_policy import Source
from defib.model.health_check import KindRef
from defib.model.node import Node

__all__ = ["RECOGNISERS", "WATCHES", "Intents", "find_intent", "find_intents", "kinds_for"]

# Where several drain the same node, the first counts: those that force by themselves at a time that they tell, then
# those that tell when they began, then people. Of people, those who ask us before those who drain by hand.
RECOGNISERS: Mapping[Source, Callable[[Node, Cluster], Intent | None]] = MappingProxyType(
    {
        Source.KARPENTER: karpenter.karpenter,
        Source.CLUSTER_API: cluster_api.cluster_api,
        Source.CLUSTER_AUTOSCALER: cluster_autoscaler.cluster_autoscaler,
        Source.OPENSHIFT: openshift.openshift,
        Source.SYSTEM_UPGRADE_CONTROLLER: system_upgrade_controller.system_upgrade_controller,
        Source.KURED: kured.kured,
        Source.DEFIB: defib_mark.defib_mark,
        Source.KUBECTL: kubectl.kubectl,
    }
)

# What must be in sight for a source, beside nodes.
WATCHES: Mapping[Source, tuple[tuple[KindRef, Wanted], ...]] = MappingProxyType(
    {
        Source.KARPENTER: karpenter.WATCHED,
        Source.CLUSTER_API: cluster_api.WATCHED,
        Source.CLUSTER_AUTOSCALER: (),
        Source.OPENSHIFT: openshift.WATCHED,
        Source.SYSTEM_UPGRADE_CONTROLLER: system_upgrade_controller.WATCHED,
        Source.KURED: kured.WATCHED,
        Source.DEFIB: (),
        Source.KUBECTL: (),
    }
)

_INSTEAD_OF_CORDON = frozenset({karpenter.DISRUPTED, cluster_autoscaler.TO_BE_DELETED})


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What one source drains, and the objects by which that was found: while they are the same, so is the answer."""

    by_node: Mapping[str, Intent]
    sights: tuple[object, ...]


class Intents(msgspec.Struct, frozen=True, kw_only=True):
    """The drains that were found. The rest is what they were found in, to know next time what has changed."""

    by_node: Mapping[str, Intent] = {}
    by_source: Mapping[Source, Seen] = {}
    nodes: Mapping[str, Node] = {}
    closed: Mapping[str, Node] = {}  # to new pods: only these can be draining


def kinds_for(sources: Collection[Source]) -> dict[KindRef, Wanted]:
    return {kind: wanted for source, watched in WATCHES.items() if source in sources for kind, wanted in watched}


def find_intent(node: Node, cluster: Cluster, sources: Collection[Source]) -> Intent | None:
    answers = (recognise(node, cluster) for source, recognise in RECOGNISERS.items() if source in sources)
    return next((answer for answer in answers if answer is not None), None)


def find_intents(cluster: Cluster, sources: Collection[Source], before: Intents) -> Intents:
    """With `before`, only what has changed is looked at; `before` itself when nothing has."""
    sights = {source: _sights(source, cluster) for source in RECOGNISERS if source in sources}
    known = {source: seen for source, seen in before.by_source.items() if not _has_ended(seen, cluster.now)}
    same = {source: seen for source, seen in known.items() if _is_same(seen.sights, sights.get(source))}
    if cluster.nodes is before.nodes and len(same) == len(sights) == len(before.by_source):
        return before
    closed = before.closed if cluster.nodes is before.nodes else _closed(cluster.nodes)
    changed = {name: node for name, node in closed.items() if before.closed.get(name) is not node}
    by_source: dict[Source, Seen] = {}
    for source, seen in sights.items():
        there = same[source].by_node if source in same else {}
        found = {name: intent for name, intent in there.items() if name in closed and name not in changed}
        for name, node in (changed if source in same else closed).items():
            if (intent := RECOGNISERS[source](node, cluster)) is not None:
                found[name] = intent
        by_source[source] = Seen(by_node=found, sights=seen)
    by_node: dict[str, Intent] = {}
    for one in reversed(by_source.values()):
        by_node |= one.by_node
    return Intents(by_node=by_node, by_source=by_source, nodes=cluster.nodes, closed=closed)


def _closed(nodes: Mapping[str, Node]) -> dict[str, Node]:
    return {
        name: node
        for name, node in nodes.items()
        if node.spec.unschedulable
        or (node.spec.taints and any(taint.key in _INSTEAD_OF_CORDON for taint in node.spec.taints))
    }


def _sights(source: Source, cluster: Cluster) -> tuple[object, ...]:
    """The same objects for as long as the source would be seen to do the same."""
    kinds = [kind for kind, _ in WATCHES[source]]
    seen = (in_sight(kind, cluster) for kind in kinds)
    return tuple(is_missing(kind, cluster) if one is None else one for kind, one in zip(kinds, seen, strict=True))


def _has_ended(seen: Seen, now: datetime) -> bool:
    """Whether one of its drains is none any more since its time is over."""
    return any(intent.ends_at is not None and intent.ends_at < now for intent in seen.by_node.values())


def _is_same(sights: tuple[object, ...], others: tuple[object, ...] | None) -> bool:
    return others is not None and all(one is other for one, other in zip(sights, others, strict=True))
