"""What the status of a DrainPolicy says: whether it makes sense, how its drains stand, and how long they may take yet."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from defib.decide.drains.intents.openshift import pending_nodes
from defib.decide.drains.standing import MESSAGE_MAX, Standing
from defib.decide.drains.survey import Known
from defib.decide.status import merged
from defib.model.action import ReportRemediation, Target, TellEvent
from defib.model.cluster import Cluster
from defib.model.drain_policy import POLICY, Policy, PolicyStatus, Source, Strategy
from defib.model.duration import LONGEST
from defib.model.health_check import StatusCondition
from defib.model.node_drain import Phase
from defib.model.reasons import EventReason

VALID, INVALID, ACCEPTED = "Valid", "InvalidSpec", "Accepted"
DELAYED = EventReason.UPGRADE_DELAYED
_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(PolicyStatus))


def report_policy(known: Known, standings: Iterable[Standing], cluster: Cluster) -> ReportRemediation | None:
    """What to write; None when it stands there already."""
    item, before = known.item, known.status
    mine = [one for one in standings if one.look.known.item.name == item.name]
    delayed = _delayed(mine)
    after = PolicyStatus(
        observed_generation=item.metadata.generation,
        draining=len(mine),
        forcing=sum(one.status.phase is Phase.FORCING for one in mine),
        failed=sum(one.status.failed for one in mine),
        estimate_seconds=round(estimate(known.policy, mine, cluster).total_seconds())
        if isinstance(known.policy, Policy)
        else None,
        delayed=delayed or before.delayed,
        conditions=merged(before.conditions or [], [_validity(known)], item.metadata.generation, cluster.now),
    )
    if after == before:
        return None
    told: dict[str, Any] = msgspec.to_builtins(after)
    target = Target(kind=POLICY, namespace="", name=item.name, uid=item.uid)
    return ReportRemediation(
        target=target,
        version=item.metadata.resource_version,
        status={name: told.get(name) for name in _FIELDS},
        tells=(_news(known, delayed, cluster),) if delayed and delayed != before.delayed else (),
    )


def estimate(policy: Policy, standings: list[Standing], cluster: Cluster) -> timedelta:
    """How long all that is still to be drained may take, one after the other, if each takes as long as it may."""
    times = policy.times
    pending = pending_nodes(cluster) if Source.OPENSHIFT in policy.sources else 0
    under_way = sum(bool(one.look.pods) or not one.look.is_seen for one in standings)
    nodes, each = pending or under_way, max(times.pdb_timeout, times.timeout) + times.expected
    return LONGEST if each and nodes > LONGEST / each else nodes * each  # a pool may claim to have any number


def _delayed(standings: list[Standing]) -> str:
    """The upgrade that budgets delay: one whose pods are deleted past them."""
    forced = (one for one in standings if one.status.phase is Phase.FORCING)
    late = (one for one in forced if any(pod.step.strategy is Strategy.PDB_DELETE for pod in one.due))
    return next((one.look.intent.upgrade for one in late if one.look.intent.upgrade), "")


def _validity(known: Known) -> StatusCondition:
    if isinstance(known.policy, Policy):
        message = "the policy makes sense and is served"
        return StatusCondition(type=VALID, status="True", reason=ACCEPTED, message=message)
    return StatusCondition(type=VALID, status="False", reason=INVALID, message="; ".join(known.policy)[:MESSAGE_MAX])


def _news(known: Known, upgrade: str, cluster: Cluster) -> TellEvent:
    return TellEvent(
        check=known.item.name,
        uid=known.item.uid,
        is_warning=True,
        reason=DELAYED,
        message=f"the upgrade to {upgrade} is delayed by disruption budgets; from now on pods are deleted past them",
        at=cluster.now,
        kind=POLICY,
    )
