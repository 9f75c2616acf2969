"""Which nodes may count as failed for a policy: those that are not ready, and those with a taint that drives pods out."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.failover.sight import not_ready_since
from defib.model.failover_policy import Policy
from defib.model.moment import is_sensible
from defib.model.node import NOT_READY_TAINTS, Node, Taint

ANY = ("*", *NOT_READY_TAINTS)


class Failing(msgspec.Struct, frozen=True):
    """`nodes` is what was looked through, to know next time what has changed."""

    nodes: Mapping[str, Node] = {}
    not_ready: Mapping[str, Node] = {}
    tainted: Mapping[str, Node] = {}  # and ready
    seen: Mapping[str, datetime] = {}  # when each was first seen so
    taints_seen: Mapping[str, Mapping[str, datetime]] = {}  # and when each taint of those that are ready, by its key


class Failure(msgspec.Struct, frozen=True):
    """Since when the node has not been ready, as it is written down; or the taints, if it is for these."""

    since: datetime | None
    at: datetime  # from then on it counts
    taints: tuple[Taint, ...] = ()


def look_for_failed(nodes: Mapping[str, Node], now: datetime, before: Failing) -> Failing:
    """With `before`, only what has changed is looked at; and it remembers when each was first seen to have failed."""
    if before.nodes is nodes:
        return before
    not_ready, tainted = dict(before.not_ready), dict(before.tainted)
    seen, taints_seen = dict(before.seen), dict(before.taints_seen)
    known = before.nodes.get
    changed = [name for name, node in nodes.items() if known(name) is not node]
    for name in [*changed, *(before.nodes.keys() - nodes.keys())]:
        was = not_ready.pop(name, None) or tainted.pop(name, None)
        first, taints = seen.pop(name, now), taints_seen.pop(name, {})
        node = nodes.get(name)
        if node is None:
            continue
        is_same = was is not None and _failure_in(was) == _failure_in(node)
        if node.ready != "True":
            not_ready[name] = node
        elif found := node.taints_among(ANY):
            tainted[name] = node
            taints_seen[name] = {taint.key: taints.get(taint.key, now) if is_same else now for taint in found}
        else:
            continue
        seen[name] = first if is_same else now
    return Failing(nodes, not_ready, tainted, seen, taints_seen)


def _failure_in(node: Node) -> tuple[object, ...]:
    """What is the same while a node has failed once and not again: it may have been ready while nobody looked."""
    return (node.uid, node.ready == "True", not_ready_since(node) if node.ready != "True" else None)


def failure_of(node: Node, policy: Policy, failing: Failing) -> Failure | None:
    """In which way the node has failed for this policy; None when it has not."""
    if not policy.nodes.selects(node.labels):
        return None
    if node.ready != "True":
        since = not_ready_since(node)
        return Failure(since, _earlier(since, failing.seen[node.name]))
    taints = node.taints_among(policy.taints) if policy.taints else ()
    if not taints:
        return None
    seen = failing.taints_seen[node.name]
    return Failure(None, min(_earlier(taint.time_added, seen[taint.key]) for taint in taints), taints)


def _earlier(moment: datetime | None, first_seen: datetime) -> datetime:
    """Clocks of nodes differ, and not every time that is written makes sense: but when we have seen it, it was so."""
    return min(moment, first_seen) if moment is not None and is_sensible(moment) else first_seen
