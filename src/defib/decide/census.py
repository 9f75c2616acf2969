"""Which nodes a check selects, and which of them show a condition that it calls unhealthy.

Nothing here depends on the time: a trouble says from when on it counts. So a node is judged again only when its object
has changed, and a quiet cluster of thousands costs next to nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import msgspec

from defib.model import medik8s
from defib.model.action import Because
from defib.model.health_check import Check, UnhealthyCondition
from defib.model.moment import is_sensible
from defib.model.node import Condition, Node
from defib.model.same import Same, changed
from defib.model.selector import Selector


class Trouble(msgspec.Struct, frozen=True, gc=False):
    """A node that shows an unhealthy condition. After `unhealthy_at`, strictly, it is unhealthy."""

    unhealthy_at: datetime
    because: Because

    def is_unhealthy(self, now: datetime) -> bool:
        return now > self.unhealthy_at


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of one check. `nodes` is what was counted, to know next time what has changed."""

    selector: Selector
    conditions: tuple[UnhealthyCondition, ...]
    nodes: Mapping[str, Node]
    selected: frozenset[str]
    troubled: Mapping[str, Trouble]
    confirmed: frozenset[str]  # nodes of which a person says that they are healthy


def take_census(check: Check, nodes: Mapping[str, Node], before: Census | None) -> Census:
    """The same answer with and without `before`; with it, only what has changed is looked at."""
    if before is None or before.selector != check.selector or before.conditions != check.conditions:
        return _counted(check, nodes, None, nodes)
    if before.nodes is nodes:
        return before
    return _counted(check, nodes, before, changed_nodes(Same(before.nodes), Same(nodes)))


@lru_cache(maxsize=1)  # each check asks, and so does whoever tells people of it
def changed_nodes(before: Same[Mapping[str, Node]], after: Same[Mapping[str, Node]]) -> tuple[str, ...]:
    """Names of nodes that are new, other objects than before, or gone."""
    return changed(before.value, after.value)


def _counted(check: Check, nodes: Mapping[str, Node], before: Census | None, names: Iterable[str]) -> Census:
    troubled = dict(before.troubled) if before else {}
    known = before.selected if before else frozenset()
    joined, left, confirmed = set(), set(), set(before.confirmed if before else ())
    for name in names:
        node = nodes.get(name)
        troubled.pop(name, None)
        confirmed.discard(name)
        if node is None or not check.selector.selects(node.labels):
            left.add(name)
            continue
        joined.add(name)
        if medik8s.CONFIRMED_HEALTHY in node.annotations:
            confirmed.add(name)
        if trouble := trouble_of(node, check.conditions):
            troubled[name] = trouble
    selected = known if joined <= known and not left & known else (known | joined) - left
    return Census(
        selector=check.selector,
        conditions=check.conditions,
        nodes=nodes,
        selected=selected,
        troubled=troubled,
        confirmed=frozenset(confirmed),
    )


def trouble_of(node: Node, conditions: tuple[UnhealthyCondition, ...]) -> Trouble | None:
    """The trouble that counts first, if the node has any."""
    first: Trouble | None = None
    for one in shown_by(node, conditions):
        at = one.since + one.wanted.duration
        if first is None or at < first.unhealthy_at:
            first = Trouble(at, Because(one.wanted.type, one.wanted.status, one.condition.last_transition_time))
    return first


class Shown(NamedTuple):
    """An unhealthy condition that a node has, and since when."""

    wanted: UnhealthyCondition
    condition: Condition
    since: datetime


def shown_by(node: Node, conditions: tuple[UnhealthyCondition, ...]) -> Iterator[Shown]:
    for shown in node.status.conditions or ():
        for wanted in conditions:
            if shown.type != wanted.type or shown.status != wanted.status:
                continue
            since = _since(shown, node)
            if since is not None:
                yield Shown(wanted, shown, since)


def _since(condition: Condition, node: Node) -> datetime | None:
    """A condition without a time has been so since nobody knows when; at the longest, since the node exists."""
    since = condition.last_transition_time or node.metadata.creation_timestamp
    return since if since is not None and is_sensible(since) else None
