"""Of how many failed nodes the pods may be moved at a time, whose turn it is, and what else holds a node back.

A node takes its place when a policy has written down that it moves pods of it, and keeps it until it is ready again or
gone: so a restart changes nothing, and whoever fails later waits. Every NodeHealthCheck that selects the node has its
say too: its limits, and whatever makes it hold everything back.
"""

from collections.abc import Iterable, Mapping

import msgspec

from defib.decide.census import Census
from defib.decide.check_plan import CheckPlan
from defib.decide.failover.sight import not_ready_since
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.failover_policy import MOST_NODES, FailedNode, PolicyStatus, State
from defib.model.health_check import Check
from defib.model.lock import held_by_another
from defib.model.node import Node
from defib.model.node_drain import DRAIN, forced_nodes
from defib.model.power_cycle import LOCK_HOLDER
from defib.model.verdict import Gate

BUDGET, EXCLUDED, LOCK = "Budget", "Excluded", "Lock"
_HOLDING = frozenset({"Paused", "ModeObserve", "Storm", "Upgrade", "NodeUpgrade"})  # gates that hold policies back too


class Held(msgspec.Struct, frozen=True):
    """Why the pods of a node may not be moved now: a word that stays the same, and a sentence."""

    reason: str
    message: str


class _Limit(msgspec.Struct, frozen=True):
    check: CheckPlan
    selected: frozenset[str]
    most: int
    busy: frozenset[str]  # being remediated


class Turns:
    """Lives for one pass, and grows as nodes take their places."""

    def __init__(
        self, cluster: Cluster, rules: Rules, checks: Mapping[str, CheckPlan], statuses: Iterable[PolicyStatus]
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._limits = [limit for plan in checks.values() if (limit := _limit_of(plan)) is not None]
        self._most = min(max(rules.failover.max_unhealthy.of(len(cluster.nodes)), 1), MOST_NODES)
        begun = [entry for status in statuses for entry in status.nodes or () if entry.begun]
        nodes = cluster.nodes
        self._taken = {entry.name for entry in begun if is_out(entry, nodes.get(entry.name))}
        self._taken |= forced_nodes(cluster.every(DRAIN)) & nodes.keys()
        going_on = [entry for entry in begun if entry.state is not State.HELD]
        self._admitted = {entry.name for entry in going_on if is_still_so(entry, nodes.get(entry.name))}

    def hold(self, node: Node) -> Held | None:
        """What speaks against moving pods of this node now; None when nothing does.

        The lock comes last: a drain gives it back to whoever waits for nothing else, and would soon want it again.
        """
        return self._exclusion(node) or self._gate(node) or self._budget(node) or self._lock(node)

    def take(self, node: Node) -> None:
        self._taken.add(node.name)
        self._admitted.add(node.name)

    def _exclusion(self, node: Node) -> Held | None:
        if node.labels.get(medik8s.EXCLUDED) == "true":
            return Held(EXCLUDED, f"node {node.name} carries the label {medik8s.EXCLUDED}=true")
        return None

    def _lock(self, node: Node) -> Held | None:
        lease = self._cluster.locks.get(f"{self._rules.lock_namespace}/{medik8s.lock_of(node.name)}")
        by = held_by_another(lease, LOCK_HOLDER, self._cluster.now)
        if by and not by.startswith(medik8s.holder_of("")):
            return Held(LOCK, f"{by} works on node {node.name} and holds its lock")
        return None

    def _gate(self, node: Node) -> Held | None:
        for limit in self._limits:
            if node.name not in limit.selected:
                continue
            verdict = limit.check.verdicts.get(node.name)
            gates: tuple[Gate, ...] = (*limit.check.gates, *(verdict.gates if verdict is not None else ()))
            closed = next((gate for gate in gates if not gate.is_open and gate.name in _HOLDING), None)
            if closed is not None:
                return Held(closed.name, f"{medik8s.CHECK_KIND} {limit.check.name} holds back: {closed.message}")
        return None

    def _budget(self, node: Node) -> Held | None:
        if node.name in self._admitted:
            return None
        if DRAIN not in self._cluster.kinds:
            return Held(BUDGET, f"{DRAIN} is being looked for: nodes from which pods are forced count too")
        taken = self._taken - {node.name}  # that it has failed before gives it no place
        if len(taken) >= self._most:
            nodes = "1 node" if self._most == 1 else f"{self._most} nodes"
            message = f"pods of at most {nodes} are moved at a time (setting failover_max_unhealthy)"
            return Held(BUDGET, message)
        for limit in self._limits:
            if node.name in limit.selected and len((taken & limit.selected) | limit.busy - {node.name}) >= limit.most:
                whose = f"{medik8s.CHECK_KIND} {limit.check.name}"
                return Held(BUDGET, f"{whose} allows at most {limit.most} of its nodes to be out at a time")
        return None


def _limit_of(plan: CheckPlan) -> _Limit | None:
    check, census = plan.known.check, plan.census
    if not isinstance(check, Check) or not isinstance(census, Census):
        return None
    total = len(census.selected)
    most = total - check.fewest_healthy(total)
    if check.guards.max_in_flight is not None:
        most = min(most, check.guards.max_in_flight.of(total))
    busy = frozenset(node.name for node in plan.status.unhealthy_nodes or () if node.remediations)
    return _Limit(plan, census.selected, most, busy)


def is_out(entry: FailedNode, node: Node | None) -> bool:
    """Whether it is the same node, and still not to be relied on, in whatever way."""
    if node is None or node.uid != entry.uid:
        return False
    return node.ready != "True" or (entry.taint != "" and bool(node.taints_among((entry.taint,))))


def is_still_so(entry: FailedNode, node: Node | None) -> bool:
    """Whether what is written about a node is about the failure that it has now."""
    if node is None or not is_out(entry, node):
        return False
    return entry.not_ready_since == (not_ready_since(node) if node.ready != "True" else None)
