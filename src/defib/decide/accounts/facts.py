"""What was known when a remediation was admitted: evidence and gates, remembered until they are written down.

When it is written down the remediation is there, and nobody asks the gates of its node any more. So they are remembered
from the pass that wanted the remediation. Every replica decides about all nodes, so whoever writes remembers too; only one
that has just started does not, and then says so.
"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.decide.census import Trouble
from defib.decide.check_plan import CheckPlan
from defib.decide.plan import Plan
from defib.model.action import StartRemediation
from defib.model.cluster import Cluster
from defib.model.duration import say
from defib.model.health_check import Broken, Mode, UnhealthyCondition
from defib.model.incident import EVIDENCE_MAX, GATES_MAX, MESSAGE_MAX, GateSeen, IncidentSpec
from defib.model.node import Lease, Node
from defib.model.verdict import Gate

LATE = "this replica did not see the decision: what is said here is how it stood when it was written down"

_TEXT_MAX = 253


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A node and its gates, in the pass that wanted to remediate it."""

    node: Node
    gates: tuple[Gate, ...]
    trouble: Trouble | None = None
    heartbeat: Lease | None = None
    was_seen: bool = True


Memory = Mapping[tuple[str, str], Decided]  # by check and node
FactsOf = Callable[[str, str], IncidentSpec]
"""What is known of a check and a node: the fields of an incident that do not depend on what is done."""


def no_facts(_: str, __: str) -> IncidentSpec:
    return IncidentSpec()


def remember(cluster: Cluster, plan: Plan, before: Memory) -> Memory:
    """Those that are wanted in this pass, and of the earlier ones those whose nodes still give reason to speak of them."""
    starts = [action for action in plan.actions if isinstance(action, StartRemediation)]
    if not starts and not before:
        return before
    kept = {key: one for key, one in before.items() if _is_spoken_of(key, plan)}
    for action in starts:
        if (decided := _decided(action.check, action.node, cluster, plan)) is not None:
            kept[action.check, action.node] = decided
    return kept


def _is_spoken_of(key: tuple[str, str], plan: Plan) -> bool:
    check, node = key
    return check in plan.checks and node in plan.checks[check].verdicts


def _decided(check: str, name: str, cluster: Cluster, plan: Plan) -> Decided | None:
    one, node = plan.checks.get(check), cluster.nodes.get(name)
    if one is None or node is None:
        return None
    verdict = one.verdicts.get(name)
    return Decided(
        node=node,
        gates=(verdict.gates if verdict is not None else ()) or one.gates,
        trouble=one.census.troubled.get(name) if one.census is not None else None,
        heartbeat=cluster.heartbeat_of(name),
    )


def facts_of(cluster: Cluster, plan: Plan, memory: Memory) -> FactsOf:
    def facts(check: str, node: str) -> IncidentSpec:
        decided = memory.get((check, node)) or _as_it_stands(check, node, cluster, plan)
        one = plan.checks.get(check)
        if one is None or decided is None:
            return IncidentSpec(check=check[:_TEXT_MAX], evidence=[LATE])
        return _told(one, decided)

    return facts


def _as_it_stands(check: str, node: str, cluster: Cluster, plan: Plan) -> Decided | None:
    decided = _decided(check, node, cluster, plan)
    return decided and msgspec.structs.replace(decided, was_seen=False)


def _told(plan: CheckPlan, decided: Decided) -> IncidentSpec:
    check = plan.known.check
    if isinstance(check, Broken):
        return IncidentSpec(check=check.name[:_TEXT_MAX], evidence=[LATE])
    is_approved = check.mode is Mode.APPROVE and APPROVED_UNTIL in decided.node.annotations
    evidence = [*_evidence(check.conditions, decided), *(() if decided.was_seen else (LATE,))]
    return IncidentSpec(
        check=check.name[:_TEXT_MAX],
        mode=check.mode.value,
        approved_by=decided.node.annotations.get(APPROVED_BY, "")[:_TEXT_MAX] if is_approved else "",
        unhealthy_since=decided.trouble.unhealthy_at if decided.trouble is not None else None,
        evidence=[line[:MESSAGE_MAX] for line in evidence[-EVIDENCE_MAX:]] or None,
        gates=[_seen(gate) for gate in decided.gates[:GATES_MAX]] or None,
    )


def _seen(gate: Gate) -> GateSeen:
    """There may be thousands of them: one that was open and has no limit has nothing more to say than its name."""
    says_more = bool(gate.limit) or not gate.is_open
    return GateSeen(
        name=gate.name,
        open=gate.is_open,
        value=gate.value[:_TEXT_MAX],
        limit=gate.limit[:_TEXT_MAX],
        message=gate.message[:MESSAGE_MAX] if says_more else "",
    )


def _evidence(conditions: tuple[UnhealthyCondition, ...], decided: Decided) -> Iterator[str]:
    for wanted in conditions:
        shown = decided.node.condition(wanted.type)
        if shown is None or shown.status != wanted.status:
            continue
        since = f" since {shown.last_transition_time:%H:%M:%S} UTC" if shown.last_transition_time is not None else ""
        why = f" ({shown.reason})" if shown.reason else ""
        yield f"{shown.type} is {shown.status}{since}{why}, unhealthy after {say(wanted.duration)}"
    renewed = decided.heartbeat.spec.renew_time if decided.heartbeat is not None else None
    if renewed is not None:
        yield f"last heartbeat at {renewed:%H:%M:%S} UTC"
