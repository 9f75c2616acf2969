"""Which nodes may count as failed for a policy: those that are not ready, and those with a taint that drives pods out."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.decide.failover.sight import not_ready_since
from defib.model.failover_policy import Policy
from defib.model.moment import is_sensible
from defib.model.node import Node, Taint

ANY = ("*",)


class Failing(msgspec.Struct, frozen=True):
    """`nodes` is what was looked through, to know next time what has changed."""

    nodes: Mapping[str, Node] = {}
    not_ready: Mapping[str, Node] = {}
    tainted: Mapping[str, Node] = {}  # and ready
    seen: Mapping[str, datetime] = {}  # when each was first seen so


class Failure(msgspec.Struct, frozen=True):
    """Since when the node has not been ready, as it is written down; or the taints, if it is for these."""

    since: datetime | None
    at: datetime  # from then on it counts
    taints: tuple[Taint, ...] = ()


def look_for_failed(nodes: Mapping[str, Node], now: datetime, before: Failing) -> Failing:
    """With `before`, only what has changed is looked at; and it remembers when each was first seen to have failed."""
    if before.nodes is nodes:
        return before
    not_ready, tainted, seen = dict(before.not_ready), dict(before.tainted), dict(before.seen)
    known = before.nodes.get
    changed = [name for name, node in nodes.items() if known(name) is not node]
    for name in [*changed, *(before.nodes.keys() - nodes.keys())]:
        was = not_ready.pop(name, None) or tainted.pop(name, None)
        first = seen.pop(name, now)
        node = nodes.get(name)
        if node is None:
            continue
        if node.ready != "True":
            not_ready[name] = node
        elif node.taints_among(ANY):
            tainted[name] = node
        else:
            continue
        is_same = was is not None and (was.uid, was.ready == "True") == (node.uid, node.ready == "True")
        seen[name] = first if is_same else now
    return Failing(nodes, not_ready, tainted, seen)


def failure_of(node: Node, policy: Policy, first_seen: datetime) -> Failure | None:
    """In which way the node has failed for this policy; None when it has not."""
    if not policy.nodes.selects(node.labels):
        return None
    if node.ready != "True":
        since = not_ready_since(node)
        return Failure(since, _earlier(since, first_seen))
    taints = node.taints_among(policy.taints) if policy.taints else ()
    if not taints:
        return None
    times = [taint.time_added for taint in taints if taint.time_added is not None]
    return Failure(None, _earlier(min(times, default=None), first_seen), taints)


def _earlier(moment: datetime | None, first_seen: datetime) -> datetime:
    """Clocks of nodes differ, and not every time that is written makes sense: but when we have seen it, it was so."""
    return min(moment, first_seen) if moment is not None and is_sensible(moment) else first_seen
