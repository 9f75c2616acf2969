"""Why a node is, or is not, being remediated: an answer from the cluster as it is now. Nothing is changed."""

import difflib
from datetime import datetime

import msgspec

from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.console.failover import FailoverTold, failover_of, missing_kinds
from defib.console.look import look
from defib.console.session import NotDone, connected
from defib.decide.explain import explain, lock_of, remediations_of
from defib.decide.outlook import STARTING, outlook
from defib.decide.plan import Plan, decide
from defib.decide.rules import Rules
from defib.kube.client import Client
from defib.model.cluster import Cluster
from defib.model.health_check import Check, CheckStatus
from defib.model.incident import NodeIncident
from defib.model.lock import ends_at, is_held
from defib.model.node import Lease, Node
from defib.model.remediation import Remediation
from defib.model.verdict import Gate, State, Verdict

NEAR_MAX = 3
NOTHING_HOLDS = "nothing holds its remediation back"
NEAR_CUTOFF = 0.5  # n0 and n1 have half their letters in common
BASIS = (
    "Worked out from the cluster as it is now, by the operator's rules and the settings given to this command. "
    "What only a running operator knows is not in it: doubts about its own sight, actions that have just failed."
)


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what an answer consists of: also what a machine reads."""


class GateTold(Told, frozen=True, kw_only=True):
    name: str
    is_open: bool = msgspec.field(name="open")
    value: str
    limit: str
    message: str


class RemediationTold(Told, frozen=True, kw_only=True):
    kind: str
    namespace: str
    name: str
    owner: str  # the check that made it; empty when somebody else did
    template: str
    created: datetime | None
    succeeded: str
    is_deleting: bool = msgspec.field(name="deleting")


class Recorded(Told, frozen=True, kw_only=True):
    """What the status of the check says, which is what its operator thought when it last wrote."""

    phase: str
    reason: str
    of_node: str
    updated: datetime | None


class Next(Told, frozen=True, kw_only=True):
    message: str
    at: datetime | None


class CheckTold(Told, frozen=True, kw_only=True):
    """One node under one check. Without a name, it stands for all checks together."""

    check: str
    mode: str
    state: str
    reason: str
    message: str
    since: datetime | None
    gates: tuple[GateTold, ...]
    status: Recorded | None
    remediations: tuple[RemediationTold, ...]
    next: Next


class ConditionTold(Told, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


class LockTold(Told, frozen=True, kw_only=True):
    holder: str
    until: datetime | None


class EntryTold(Told, frozen=True, kw_only=True):
    at: datetime
    phase: str
    message: str


class IncidentTold(Told, frozen=True, kw_only=True):
    """What is being done about its machine, or was last."""

    phase: str
    reason: str
    message: str
    attempt: int
    since: datetime | None
    outcome: str
    proof: str  # its grade and how it came about; empty while there is none
    cause: str
    timeline: tuple[EntryTold, ...]


class Answer(Told, frozen=True, kw_only=True):
    node: str
    exists: bool
    now: datetime
    ready: ConditionTold | None
    heartbeat: datetime | None
    is_cordoned: bool = msgspec.field(name="cordoned")
    lock: LockTold | None
    checks: tuple[CheckTold, ...]
    foreign: tuple[RemediationTold, ...]  # remediations that no check made
    unknown: tuple[str, ...]
    incident: IncidentTold | None = None
    failover: tuple[FailoverTold, ...] = ()
    no_failover: tuple[str, ...] = ()  # of a node that is not ready: why nobody can have asked for its pods to leave
    basis: str = BASIS


async def why(node: str, settings: Settings, rules: Rules) -> Answer:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        return await answer(node, session.client, session.clock, rules)


async def answer(node: str, client: Client, clock: Clock, rules: Rules) -> Answer:
    seen = await look(client, clock, rules)
    plan = decide(seen.cluster, rules)
    verdicts = verdicts_of(node, seen.cluster, plan)
    if not verdicts:
        raise unknown_node(node, seen.cluster)
    told = _Telling(node, seen.cluster, plan, rules.namespace, remediations_of(node, seen.cluster, plan))
    return told.answer(verdicts, seen.unknown)


def unknown_node(node: str, cluster: Cluster) -> NotDone:
    if unread := next((one for one in cluster.unread if (one.kind, one.key) == ("nodes", node)), None):
        return NotDone(f"node {node} is there, but cannot be read: {unread.why}")
    longer = [name for name in sorted(cluster.nodes) if node and node in name][:NEAR_MAX]
    if near := longer or difflib.get_close_matches(node, cluster.nodes, n=NEAR_MAX, cutoff=NEAR_CUTOFF):
        return NotDone(f"there is no node {node}; did you mean {' or '.join(near)}?")
    return NotDone(f"there is no node {node} among the {len(cluster.nodes)} of the cluster (kubectl get nodes)")


def verdicts_of(node: str, cluster: Cluster, plan: Plan) -> tuple[Verdict, ...]:
    """To the operator, a remediation is begun as soon as it is decided. Who only looks has nothing to show for it yet."""
    owners = {one.owner for one in remediations_of(node, cluster, plan)}
    return tuple(
        msgspec.structs.replace(verdict, state=State.UNHEALTHY, message=NOTHING_HOLDS)
        if verdict.reason == STARTING and verdict.check not in owners
        else verdict
        for verdict in explain(node, cluster, plan)
    )


class _Telling(msgspec.Struct, frozen=True):
    """About one node. `namespace` is where an operator would be, `found` are the node's remediations."""

    node: str
    cluster: Cluster
    plan: Plan
    namespace: str
    found: tuple[Remediation, ...]

    def answer(self, verdicts: tuple[Verdict, ...], unknown: tuple[str, ...]) -> Answer:
        cluster = self.cluster
        item = cluster.nodes.get(self.node)
        heartbeat = cluster.heartbeat_of(self.node)
        return Answer(
            node=self.node,
            exists=item is not None,
            now=cluster.now,
            ready=_ready(item) if item is not None else None,
            heartbeat=heartbeat.spec.renew_time if heartbeat is not None else None,
            is_cordoned=item is not None and item.spec.unschedulable,
            lock=_lock(lock_of(self.node, cluster), cluster.now),
            incident=_incident(cluster.incidents().get(self.node)),
            failover=failover_of(self.node, cluster),
            no_failover=missing_kinds(cluster) if item is not None and item.ready != "True" else (),
            checks=tuple(self._check(verdict) for verdict in verdicts),
            foreign=tuple(_remediation(one) for one in self.found if not one.owner),
            unknown=(*unknown, *(f"{one.kind} {one.key} cannot be read: {one.why}" for one in cluster.unread)),
        )

    def _check(self, verdict: Verdict) -> CheckTold:
        one = self.plan.checks.get(verdict.check)
        check = one.known.check if one is not None else None
        mine = [each for each in self.found if each.owner and each.owner == verdict.check]
        return CheckTold(
            check=verdict.check,
            mode=check.mode.value if isinstance(check, Check) else "",
            state=verdict.state.value,
            reason=verdict.reason,
            message=verdict.message,
            since=verdict.since if verdict.state is not State.SUSPECT else None,  # else it is still to come: see next
            gates=tuple(_gate(gate) for gate in verdict.gates),
            status=_recorded(one.known.status, self.node) if one is not None else None,
            remediations=tuple(_remediation(each) for each in mine),
            next=self._ahead(verdict),
        )

    def _ahead(self, verdict: Verdict) -> Next:
        ahead = outlook(verdict, self.cluster, self.plan)
        hint = f"; if it does not, see whether it runs: kubectl -n {self.namespace} get pods"
        return Next(message=ahead.message + (hint if verdict.reason == STARTING else ""), at=ahead.at)


def _gate(gate: Gate) -> GateTold:
    return GateTold(name=gate.name, is_open=gate.is_open, value=gate.value, limit=gate.limit, message=gate.message)


def _recorded(status: CheckStatus, node: str) -> Recorded | None:
    """None when nobody has written one yet."""
    entry = status.node(node)
    if not status.phase:
        return None
    return Recorded(
        phase=status.phase,
        reason=status.reason,
        of_node=entry.message if entry is not None else "",
        updated=status.last_update_time,
    )


def _remediation(one: Remediation) -> RemediationTold:
    return RemediationTold(
        kind=one.kind.name,
        namespace=one.namespace,
        name=one.name,
        owner=one.owner,
        template=one.template,
        created=one.created,
        succeeded=one.succeeded,
        is_deleting=one.is_deleting,
    )


def _ready(node: Node) -> ConditionTold | None:
    ready = node.condition("Ready")
    if ready is None:
        return None
    return ConditionTold(
        type=ready.type,
        status=ready.status,
        reason=ready.reason,
        message=ready.message,
        since=ready.last_transition_time,
    )


def _incident(incident: NodeIncident | None) -> IncidentTold | None:
    if incident is None:
        return None
    status = incident.status
    proof = status.proof
    return IncidentTold(
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        attempt=status.attempt,
        since=status.since,
        outcome=status.outcome,
        proof=f"grade {proof.grade}: {proof.how}" if proof is not None else "",
        cause=str(incident.spec.cause),
        timeline=tuple(EntryTold(at=one.at, phase=one.phase, message=one.message) for one in status.timeline or ()),
    )


def _lock(lease: Lease | None, now: datetime) -> LockTold | None:
    if lease is None or not is_held(lease, now):
        return None
    return LockTold(holder=lease.spec.holder_identity or "", until=ends_at(lease))
