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


class Failure(msgspec.Struct, frozen=True):
    """Since when the node has not been ready, as it is written down; or the taint, if it is for that."""

    since: datetime | None
    at: datetime  # from then on it counts
    taint: Taint | None = None


def look_for_failed(nodes: Mapping[str, Node], before: Failing) -> Failing:
    """The same answer with and without `before`; with it, only what has changed is looked at."""
    if before.nodes is nodes:
        return before
    not_ready, tainted = dict(before.not_ready), dict(before.tainted)
    known = before.nodes.get
    changed = [name for name, node in nodes.items() if known(name) is not node]
    for name in [*changed, *(before.nodes.keys() - nodes.keys())]:
        not_ready.pop(name, None)
        tainted.pop(name, None)
        node = nodes.get(name)
        if node is None:
            continue
        if node.ready != "True":
            not_ready[name] = node
        elif node.taint_among(ANY) is not None:
            tainted[name] = node
    return Failing(nodes, not_ready, tainted)


def failure_of(node: Node, policy: Policy, now: datetime) -> Failure | None:
    """In which way the node has failed for this policy; None when it has not."""
    if not policy.nodes.selects(node.labels):
        return None
    if node.ready != "True":
        since = not_ready_since(node)
        return Failure(since, _passed(since or node.metadata.creation_timestamp, now))
    taint = node.taint_among(policy.taints) if policy.taints else None
    if taint is None:
        return None
    return Failure(None, _passed(taint.time_added or node.metadata.creation_timestamp, now), taint)


def _passed(moment: datetime | None, now: datetime) -> datetime:
    """Clocks of nodes differ, and not every time that is written makes sense."""
    return min(moment, now) if moment is not None and is_sensible(moment) else now
