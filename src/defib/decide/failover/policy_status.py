"""What the status of a PodFailoverPolicy says, and which of it is news."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from defib.decide.status import merged
from defib.model.action import Action, ReportRemediation, Target, TellEvent
from defib.model.cluster import Cluster
from defib.model.failover_policy import (
    MOST_NODES,
    POLICY,
    FailedNode,
    Policy,
    PolicyStatus,
    State,
    read_policy_status,
    say_proofs,
)
from defib.model.health_check import StatusCondition
from defib.model.meta import Unstructured
from defib.model.reasons import EventReason

VALID, SETTLED = "Valid", "Settled"
INVALID, SWITCHED_OFF, ACCEPTED = "InvalidSpec", "SwitchedOff", "Accepted"
QUIET = "Quiet"
MESSAGE_MAX = 1024

# The first of these that some node is in says how it stands with all.
_WORST_FIRST = (State.FAILING, State.HELD, State.MOVING, State.WAITING, State.MOVED)
_WARNINGS = frozenset({State.FAILING, State.HELD, State.WAITING})
_EVENTS = {
    State.HELD: EventReason.FAILOVER_HELD,
    State.MOVING: EventReason.PODS_MOVING,
    State.FAILING: EventReason.DELETION_FAILED,
    State.WAITING: EventReason.WAITING_FOR_PROOF,
    State.MOVED: EventReason.PODS_MOVED,
}

_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(PolicyStatus))


class Known(msgspec.Struct, frozen=True):
    """A policy as it was read; kept for as long as its object stays the same."""

    item: Unstructured
    policy: Policy | tuple[str, ...]
    status: PolicyStatus

    def entry(self, node: str) -> FailedNode | None:
        return next((entry for entry in self.status.nodes or () if entry.name == node), None)


def report_policy(
    known: Known, nodes: Mapping[str, FailedNode], cluster: Cluster, off: str
) -> ReportRemediation | None:
    """What to write; None when it stands there already. `off` says why no policy is served."""
    item, before = known.item, known.status
    entries = [_kept(before_entry(known, entry), entry) for _, entry in sorted(nodes.items())]
    listed = _listed(entries)
    moved = (before.moved or 0) + sum(_newly_moved(known, entry) for entry in entries)
    validity = _validity(known.policy, off)
    conditions = [validity, _settlement(entries) if validity.status == "True" else _not_served(validity)]
    generation = item.metadata.generation
    after = PolicyStatus(
        observed_generation=generation,
        proofs=say_proofs(known.policy.wish.accepts) if isinstance(known.policy, Policy) else before.proofs,
        failed_nodes=len(entries),
        moved=moved,
        waiting=sum(entry.waiting for entry in entries),
        nodes=listed or None,
        conditions=merged(before.conditions or [], conditions, generation, cluster.now),
    )
    if after == before:
        return None
    told: dict[str, Any] = msgspec.to_builtins(after)
    return ReportRemediation(
        target=target_of(item),
        version=item.metadata.resource_version,
        status={name: told.get(name) for name in _FIELDS},
        tells=tuple(_news(known, entry, cluster) for entry in listed if _is_news(before_entry(known, entry), entry)),
    )


def _listed(entries: list[FailedNode]) -> list[FailedNode]:
    """As many as the API server takes: first those that have a place, of which there are never more."""
    if len(entries) <= MOST_NODES:
        return entries
    return sorted(sorted(entries, key=lambda one: (not one.begun, one.name))[:MOST_NODES], key=lambda one: one.name)


def target_of(item: Unstructured) -> Target:
    return Target(kind=POLICY, namespace=item.namespace, name=item.name, uid=item.uid)


def before_entry(known: Known, entry: FailedNode) -> FailedNode | None:
    """What was written about the same failure of the same node."""
    there = known.entry(entry.name)
    return there if there is not None and is_same_failure(there, entry) else None


def is_same_failure(one: FailedNode, other: FailedNode) -> bool:
    return (one.uid, one.not_ready_since) == (other.uid, other.not_ready_since)


def _kept(before: FailedNode | None, after: FailedNode) -> FailedNode:
    """Progress alone is no news: a write for every pod that leaves would cost more than moving them."""
    is_same = before is not None and before.taint == after.taint and not _is_news(before, after)
    return before if before is not None and is_same else after


def _is_news(before: FailedNode | None, after: FailedNode) -> bool:
    return before is None or _gist(before) != _gist(after)


def _gist(entry: FailedNode) -> tuple[object, ...]:
    return entry.state, entry.reason, entry.found, entry.waiting, entry.kept


def _newly_moved(known: Known, entry: FailedNode) -> int:
    there = before_entry(known, entry)
    return max(entry.moved - (there.moved if there is not None else 0), 0)


def _validity(policy: Policy | tuple[str, ...], off: str) -> StatusCondition:
    if off:
        return StatusCondition(type=VALID, status="False", reason=SWITCHED_OFF, message=off)
    if isinstance(policy, Policy):
        return StatusCondition(
            type=VALID, status="True", reason=ACCEPTED, message="the policy makes sense and is served"
        )
    return StatusCondition(type=VALID, status="False", reason=INVALID, message="; ".join(policy)[:MESSAGE_MAX])


def _settlement(entries: list[FailedNode]) -> StatusCondition:
    worst = next((state for state in _WORST_FIRST if any(entry.state is state for entry in entries)), None)
    if worst is None:
        message = "no node has failed that runs pods of this policy"
        return StatusCondition(type=SETTLED, status="True", reason=QUIET, message=message)
    found = [entry for entry in entries if entry.state is worst]
    more = len(entries) - 1
    others = f" (and {more} more failed node{'s' if more > 1 else ''})" if more else ""
    return StatusCondition(
        type=SETTLED,
        status="True" if worst is State.MOVED else "False",
        reason=found[0].reason or str(worst),
        message=f"node {found[0].name}: {found[0].message}{others}"[:MESSAGE_MAX],
    )


def _not_served(validity: StatusCondition) -> StatusCondition:
    """Nobody looks after its pods: it must not look as if all were well."""
    message = f"it is not served: {validity.message}"[:MESSAGE_MAX]
    return StatusCondition(type=SETTLED, status="Unknown", reason=validity.reason, message=message)


def _news(known: Known, entry: FailedNode, cluster: Cluster) -> TellEvent:
    return TellEvent(
        check=known.item.name,
        namespace=known.item.namespace,
        uid=known.item.uid,
        kind=POLICY,
        is_warning=entry.state in _WARNINGS,
        reason=_EVENTS[entry.state],
        message=f"node {entry.name}: {entry.message}",
        at=cluster.now,
        node=entry.name,
    )


def left_alone(entry: FailedNode) -> FailedNode:
    """Where the policy was changed on the way, and no longer has anything to say about a node."""
    if entry.state is State.MOVED and not entry.waiting:
        return entry
    message = "the policy no longer asks for pods of this node, which counts as out until it is ready or gone"
    return msgspec.structs.replace(entry, state=State.MOVED, waiting=0, reason="", message=message)


def being_written(cluster: Cluster, last: Iterable[Action]) -> list[PolicyStatus]:
    """What will stand in policies at any moment, for all that we know: what was given up may be written yet."""
    writing = [one for one in (*cluster.underway, *last) if isinstance(one, ReportRemediation)]
    unsure = [one for one in writing if one in cluster.underway or one.key in cluster.failures]
    said = (
        {name: value for name, value in one.status.items() if value is not None}
        for one in unsure
        if one.target.kind == POLICY
    )
    return [read_policy_status(Unstructured(status=status)) for status in said]


def read_known(item: Unstructured, policy: Policy | tuple[str, ...]) -> Known:
    return Known(item, policy, read_policy_status(item))
