"""On how many nodes pods are forced to leave at a time, whose turn it is, and what else stands against it.

A node takes its place when that is written into its record, and keeps it until its drain is over: so a restart changes
nothing. Nodes that are being remediated, or left by their pods since they failed, count too; and such a node is theirs.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from defib.decide.check_plan import CheckPlan
from defib.decide.drains.survey import DrainLook, Record, selects
from defib.decide.failover.plan import Failover
from defib.decide.ground import is_control_plane
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action, ReportRemediation
from defib.model.cluster import Cluster
from defib.model.failover_policy import FailedNode
from defib.model.failover_policy import State as FailoverState
from defib.model.lock import held_by_another
from defib.model.node import Lease, Node
from defib.model.node_drain import DRAIN, LOCK_HOLDER
from defib.model.verdict import Gate, State

BUDGET, LOCK, REMEDIATION, FAILOVER, CONTROL_PLANE = "Budget", "Lock", "Remediation", "PodFailover", "ControlPlane"
_AT_WORK = (FailoverState.MOVING, FailoverState.FAILING)


class Held(msgspec.Struct, frozen=True):
    """Why nothing may be forced on a node now: a word that stays the same, and a sentence."""

    reason: str
    message: str


class Others(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever else works on nodes, and the reason for each that a person can read."""

    at_work: Mapping[str, Held]

    def on(self, node: str) -> Held | None:
        return self.at_work.get(node)


def others_at_work(cluster: Cluster, checks: Mapping[str, CheckPlan], failover: Failover) -> Others:
    found = {
        name: Held(FAILOVER, f"node {name} has failed, and PodFailoverPolicies move pods of it")
        for name, one in failover.policies.looks.items()
        if any(_is_at_work(entry) for entry in one.look.entries.values())
    }
    for name in failover.remediations.nodes:  # also those that a person made by hand
        found[name] = Held(REMEDIATION, f"node {name} has failed, and a PodFailoverRemediation moves pods of it")
    for plan in checks.values():
        found |= _remediated(plan)
    for name, incident in cluster.incidents().items():
        if incident.is_open:
            found[incident.spec.node or name] = Held(REMEDIATION, f"NodeIncident {name} is open")
    return Others(at_work=found)


def _remediated(plan: CheckPlan) -> dict[str, Held]:
    found, check = {}, f"{medik8s.CHECK_KIND} {plan.name}"
    for name, verdict in plan.verdicts.items():
        if verdict.state is State.REMEDIATING:
            found[name] = Held(REMEDIATION, f"{check} has node {name} remediated")
        elif verdict.state is State.UNHEALTHY and not any(map(_holds, (*plan.gates, *verdict.gates))):
            found[name] = Held(REMEDIATION, f"{check} is about to have node {name} remediated")
    return found


def _is_at_work(entry: FailedNode) -> bool:
    """Or would be, if nobody had the lock: us, or somebody who is in our way too."""
    return entry.state in _AT_WORK or (entry.state is FailoverState.HELD and entry.reason == LOCK)


def _holds(gate: Gate) -> bool:
    """That we have the lock ourselves holds nobody back for long: it is given back."""
    return not gate.is_open and (gate.name, gate.value) != (LOCK, LOCK_HOLDER)


class Turns:
    """Lives for one pass, and grows as nodes take their places."""

    def __init__(self, cluster: Cluster, rules: Rules, others: Others, records: Mapping[str, Record]) -> None:
        self._cluster = cluster
        self._rules = rules
        self._others = others
        begun = {name for name, record in records.items() if record.status.begun and not record.status.paused_at}
        self._begun = begun | being_begun(cluster.underway)
        self._sizes: dict[str, int] = {}

    @property
    def now(self) -> datetime:
        return self._cluster.now

    def hold(self, look: DrainLook) -> Held | None:
        """What stands against forcing pods of this node; None when nothing does."""
        node = look.node
        return self._others.on(node.name) or self._lock(node.name) or self._control_plane(node) or self._budget(look)

    def take(self, node: str) -> None:
        self._begun.add(node)

    def lease(self, node: str) -> Lease | None:
        return self._cluster.locks.get(f"{self._rules.lock_namespace}/{medik8s.lock_of(node)}")

    def _lock(self, node: str) -> Held | None:
        by = held_by_another(self.lease(node), LOCK_HOLDER, self._cluster.now)
        return Held(LOCK, f"{by} works on node {node} and holds its lock") if by else None

    def _control_plane(self, node: Node) -> Held | None:
        """Of these one may be out at a time, whoever takes it out, or if it is out by itself."""
        if not is_control_plane(node):
            return None
        others = (one for name, one in sorted(self._cluster.nodes.items()) if name != node.name)
        other = next((one.name for one in others if is_control_plane(one) and self._is_out(one)), None)
        return Held(CONTROL_PLANE, f"another control-plane node is out: {other}") if other is not None else None

    def _is_out(self, node: Node) -> bool:
        return node.ready != "True" or node.name in self._begun or node.name in self._others.at_work

    def _budget(self, look: DrainLook) -> Held | None:
        name = look.node.name
        if name in self._begun:
            return None
        nodes = self._cluster.nodes
        out = {
            one for one in (*self._begun, *self._others.at_work) if one in nodes and selects(look.policy, nodes[one])
        }
        most = look.policy.most_at_once.of(self._size(look))
        if most == 0:
            return Held(BUDGET, "the policy allows no node to be forced at all (spec.maxForcedNodes)")
        if len(out - {name}) < most:
            return None
        listed = ", ".join(sorted(out - {name})[:3])
        message = f"at most {most} of its nodes may be forced at a time (spec.maxForcedNodes); now: {listed}"
        return Held(BUDGET, message)

    def _size(self, look: DrainLook) -> int:
        """How many nodes the policy selects; counted once, and only where a share of them counts."""
        if not look.policy.most_at_once.is_percent:
            return 0
        key = look.known.item.name
        if key not in self._sizes:
            self._sizes[key] = sum(selects(look.policy, node) for node in self._cluster.nodes.values())
        return self._sizes[key]


def being_begun(underway: Iterable[Action]) -> set[str]:
    """Nodes whose place is being written at this moment."""
    reports = (one for one in underway if isinstance(one, ReportRemediation) and one.target.kind == DRAIN)
    return {one.target.name for one in reports if one.status.get("begun")}
