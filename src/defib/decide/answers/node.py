"""Why a node is, or is not, being remediated: the answer from one look at the cluster and what was thought about it."""

from datetime import datetime

import msgspec

from defib.decide.answers.failover import failover_of, missing_kinds
from defib.decide.answers.told import (
    Answer,
    CheckTold,
    ConditionTold,
    EntryTold,
    GateTold,
    IncidentTold,
    LockTold,
    Next,
    Recorded,
    RemediationTold,
)
from defib.decide.explain import explain, lock_of, remediations_of
from defib.decide.outlook import STARTING, outlook
from defib.decide.plan import Plan
from defib.model.cluster import Cluster
from defib.model.health_check import Check, CheckStatus
from defib.model.incident import NodeIncident
from defib.model.lock import ends_at, is_held
from defib.model.node import Lease, Node
from defib.model.remediation import SILENT_BECAUSE, Remediation
from defib.model.verdict import Gate, State, Verdict

NOTHING_HOLDS = "nothing holds its remediation back"


def answer_about(
    node: str, cluster: Cluster, plan: Plan, namespace: str, *, unknown: tuple[str, ...] = ()
) -> Answer | None:
    """None where there is no such node. `namespace` is the operator's, `unknown` what could not be read."""
    verdicts = verdicts_of(node, cluster, plan)
    if not verdicts:
        return None
    return _Telling(node, cluster, plan, namespace, remediations_of(node, cluster, plan)).answer(verdicts, unknown)


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
            accounts=_accounts(self.node, cluster),
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
            gates=tuple(gate_told(gate) for gate in verdict.gates),
            status=_recorded(one.known.status, self.node) if one is not None else None,
            remediations=tuple(_remediation(each) for each in mine),
            next=self._ahead(verdict),
            no_fast_path=one.haste.why_not if one is not None else "",
        )

    def _ahead(self, verdict: Verdict) -> Next:
        ahead = outlook(verdict, self.cluster, self.plan)
        hint = f"; if it does not, see whether it runs: kubectl -n {self.namespace} get pods"
        return Next(message=ahead.message + (hint if verdict.reason == STARTING else ""), at=ahead.at)


def gate_told(gate: Gate) -> GateTold:
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
        because=one.annotations.get(SILENT_BECAUSE, ""),
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
        safe_time=status.safe_time,
        proof=f"grade {proof.grade}: {proof.how}" if proof is not None else "",
        cause=str(incident.spec.cause),
        timeline=tuple(
            EntryTold(at=one.at, phase=one.phase, message=one.message, kind=one.kind, by=one.by)
            for one in status.timeline or ()
        ),
    )


def _accounts(node: str, cluster: Cluster) -> tuple[str, ...]:
    return tuple(sorted(name for name, one in cluster.accounts().items() if one.spec.node == node and one.is_open))


def _lock(lease: Lease | None, now: datetime) -> LockTold | None:
    if lease is None or not is_held(lease, now):
        return None
    return LockTold(holder=lease.spec.holder_identity or "", until=ends_at(lease))
