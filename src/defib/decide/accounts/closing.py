"""What an account says while its remediation goes on, and when that is gone: how it ended, why, and how long it took."""

from typing import Any

import msgspec

from defib.decide.accounts.history import target
from defib.decide.accounts.news import on_node
from defib.decide.accounts.timeline import (
    CLOSED,
    NEEDS_PERSON,
    TIMED_OUT,
    entry,
    has_timed_out,
    last_words,
    lasted,
    said_short,
    timed_out,
    timeline,
)
from defib.decide.plan import Plan
from defib.decide.status import merged
from defib.decide.stuck import NOT_REPLACED, STUCK
from defib.model.account_action import WriteAccount
from defib.model.cluster import Cluster
from defib.model.event import TellEvent
from defib.model.health_check import StatusCondition
from defib.model.incident import MESSAGE_MAX, US, Entry, EntryKind, IncidentStatus, NodeIncident, Outcome, Phase
from defib.model.reasons import EventReason
from defib.model.remediation import Remediation
from defib.model.verdict import Verdict

_FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(IncidentStatus)}
_FOR_A_PERSON = frozenset({"NoTemplateLeft", STUCK, NOT_REPLACED})
_ENDS = {
    Outcome.RECOVERED: "the node is healthy again",
    Outcome.NODE_GONE: "the node is gone",
    Outcome.TIMED_OUT: "its remediation ran out of time and is gone; the node is still unhealthy",
    Outcome.ENDED: "its remediation is gone; the node is still unhealthy",
}


def going_on(
    account: NodeIncident, remediation: Remediation, cluster: Cluster, verdict: Verdict | None
) -> WriteAccount | None:
    """What is new while it lasts: that its time was up, and that a person is needed. Each is written once.

    `verdict` is that of its node, or nothing where a later account of the same node tells it.
    """
    changes: dict[str, Any] = {}
    fresh = timed_out(account, remediation, cluster.now)
    tells: tuple[TellEvent, ...] = ()
    if verdict is not None and verdict.reason in _FOR_A_PERSON and account.status.phase is Phase.OPEN:
        message = verdict.message[:MESSAGE_MAX]
        fresh += (entry(cluster.now, NEEDS_PERSON, message, EntryKind.DECISION, US),)
        changes = _standing(account, Phase.NEEDS_PERSON, verdict.reason, message, cluster)
        node = cluster.nodes.get(account.spec.node)
        tells = on_node(node, EventReason.NEEDS_PERSON, f"{account.spec.cause}: {message}", cluster.now)
    if not fresh:
        return None
    written = _write(account, changes, fresh)
    return msgspec.structs.replace(written, tells=tells)


def closing(account: NodeIncident, last: Remediation | None, cluster: Cluster, plan: Plan) -> WriteAccount:
    """Its remediation is gone. `last` is how it was last seen, where somebody remembers."""
    now = cluster.now
    fresh = last_words(account, last, now)
    late = has_timed_out(account) or any(one.phase == TIMED_OUT for one in fresh)
    outcome = _outcome(account, cluster, plan, was_late=late)
    message = _ENDS[outcome]
    if late and outcome is Outcome.RECOVERED:
        message += ", after its remediation had run out of time"
    length = lasted(account, now)
    changes = _standing(account, Phase.CLOSED, outcome.value, message, cluster) | {
        "outcome": outcome.value,
        "closed_at": now,
        "seconds": round(length.total_seconds(), 3),
        "took": said_short(length),
    }
    written = _write(account, changes, (*fresh, entry(now, CLOSED, message, EntryKind.END, US)))
    told = f"{account.spec.cause}: {message} ({outcome.value} after {said_short(length)})"
    tells = on_node(cluster.nodes.get(account.spec.node), EventReason.INCIDENT_CLOSED, told, now)
    return msgspec.structs.replace(written, tells=tells)


def _outcome(account: NodeIncident, cluster: Cluster, plan: Plan, *, was_late: bool) -> Outcome:
    node = cluster.nodes.get(account.spec.node)
    if node is None and not any((one.kind, one.key) == ("nodes", account.spec.node) for one in cluster.unread):
        return Outcome.NODE_GONE
    check = plan.checks.get(account.spec.check)
    if check is not None and check.census is not None:
        is_ill = account.spec.node in check.census.troubled
    else:  # the check is gone, or makes no sense any more
        is_ill = node is None or node.ready != "True"
    if not is_ill:
        return Outcome.RECOVERED
    return Outcome.TIMED_OUT if was_late else Outcome.ENDED


def _standing(account: NodeIncident, phase: Phase, reason: str, message: str, cluster: Cluster) -> dict[str, Any]:
    holds = {"Closed": phase is Phase.CLOSED, "NeedsPerson": phase is Phase.NEEDS_PERSON}
    wanted = [
        StatusCondition(type=kind, status=str(is_so), reason=reason, message=message) for kind, is_so in holds.items()
    ]
    generation = account.metadata.generation
    return {
        "phase": phase,
        "since": cluster.now,
        "reason": reason,
        "message": message,
        "conditions": merged(account.status.conditions or [], wanted, generation, cluster.now),
    }


def _write(account: NodeIncident, changes: dict[str, Any], fresh: tuple[Entry, ...]) -> WriteAccount:
    status = {**changes, "timeline": timeline(account, *fresh)}
    return WriteAccount(
        node=account.spec.node,
        account=target(account),
        version=account.metadata.resource_version,
        status={_FIELDS[name]: msgspec.to_builtins(value) for name, value in status.items()},
    )
