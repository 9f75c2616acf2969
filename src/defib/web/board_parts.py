"""The parts of the board beside its nodes: each a value that can be compared with the one before, and be sent as it is.

Field names are those of the JSON that the page reads.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from defib.decide.admission import in_flight_gate, rate_gate
from defib.decide.check_plan import CheckPlan
from defib.decide.doubt import brake_reason
from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.model.cluster import Cluster
from defib.model.health_check import Check
from defib.model.incident import EVIDENCE_MAX, GATES_MAX, TIMELINE_MAX, NodeIncident, SafeTime
from defib.model.moment import read_moment
from defib.model.verdict import Gate

INCIDENTS_MAX, HISTORY_MAX, SIGHT_MAX = 200, 500, 50
DOUBT_BEGINS = "we do not trust our own sight: "
BY_NODE = ("FailureDomain",)  # gates of single nodes that are budgets of all: shown with the check

_HEALTHY = re.compile(r"(\d+) healthy")
_FEWEST = re.compile(r"at least (\d+) of (\d+)")


class BrakeShown(msgspec.Struct, frozen=True, kw_only=True):
    on: bool = False
    by: str = ""
    reason: str = ""
    since: datetime | None = None


def brake_of(cluster: Cluster, rules: Rules) -> BrakeShown:
    why = brake_reason(cluster, rules)
    if not why:
        return BrakeShown()
    brake = cluster.config_map(f"{rules.namespace}/defib-brake")
    said = (brake.data if brake is not None and not rules.brake_setting else None) or {}
    return BrakeShown(
        on=True,
        by=said.get("by", ""),
        reason=said.get("reason") or why,
        since=read_moment(said.get("since", "")),
    )


def sight_of(cluster: Cluster, plan: Plan) -> tuple[str, ...]:
    """Why what is shown may not be so. After heartbeats, the checks have asked if they had reason to."""
    blind = [f"{one.kind} are out of sight: {one.why}" for one in cluster.blind]
    gates = (gate for one in plan.checks.values() for gate in one.gates)
    said = [gate.message.removeprefix(DOUBT_BEGINS) for gate in gates if gate.name == "SelfDoubt" and not gate.is_open]
    unread = [f"{one.kind} {one.key} cannot be read: {one.why}" for one in cluster.unread]
    return tuple(dict.fromkeys((*blind, *cluster.doubts, *said, *unread)))[:SIGHT_MAX]


class GateShown(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    open: bool
    value: str
    limit: str
    message: str
    share: float | None  # how much of what is allowed is used up, from 0 to 1; None where that is no number


class CheckShown(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    mode: str
    phase: str
    reason: str
    observed: int
    healthy: int
    unhealthy: int
    remediating: int
    gates: tuple[GateShown, ...]


def checks_of(plan: Plan, now: datetime) -> tuple[CheckShown, ...]:
    return tuple(_check(plan.checks[name], now) for name in sorted(plan.checks))


def _check(one: CheckPlan, now: datetime) -> CheckShown:
    status, check = one.status, one.known.check
    ill = status.unhealthy_nodes or ()
    return CheckShown(
        name=one.name,
        mode=check.mode.value if isinstance(check, Check) else "",
        phase=status.phase,
        reason=status.reason,
        observed=status.observed_nodes or 0,
        healthy=status.healthy_nodes or 0,
        unhealthy=len(ill),
        remediating=_remediating(one),
        gates=tuple(shown(gate) for gate in (*one.gates, *_budgets(one, now))),
    )


def _remediating(one: CheckPlan) -> int:
    return sum(1 for node in one.status.unhealthy_nodes or () if node.remediations)


def _budgets(one: CheckPlan, now: datetime) -> Iterator[Gate]:
    """They are asked of each node anew; here, of all of them together."""
    check = one.known.check
    if not isinstance(check, Check):
        return
    if check.guards.max_in_flight is not None:
        yield in_flight_gate(_remediating(one), check.guards.max_in_flight.of(one.status.observed_nodes or 0))
    if (rate := check.guards.rate_limit) is not None:
        began = sorted(each.started for each in one.status.history or ())
        yield rate_gate([moment for moment in began if moment + rate.within > now], rate)
    if check.guards.domains:
        asked = (gate for verdict in one.verdicts.values() for gate in verdict.gates if gate.name in BY_NODE)
        yield from {gate.message: gate for gate in asked}.values()


def shown(gate: Gate) -> GateShown:
    return GateShown(
        name=gate.name,
        open=gate.is_open,
        value=gate.value,
        limit=gate.limit,
        message=gate.message,
        share=share_of(gate),
    )


def share_of(gate: Gate) -> float | None:
    """Of a threshold: of the nodes that may be unhealthy, how many are."""
    if (healthy := _HEALTHY.fullmatch(gate.value)) and (fewest := _FEWEST.fullmatch(gate.limit)):
        least, total = int(fewest[1]), int(fewest[2])
        return _share(total - int(healthy[1]), total - least)
    if gate.value.isdecimal() and gate.limit.isdecimal():
        return _share(int(gate.value), int(gate.limit))
    return None


def _share(used: int, allowed: int) -> float:
    if allowed <= 0:
        return 1.0 if used > 0 else 0.0
    return round(min(max(used / allowed, 0.0), 1.0), 3)


class IncidentShown(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    node: str
    phase: str
    outcome: str
    cause: str
    check: str
    opened: datetime | None
    closed: datetime | None
    message: str
    open: bool
    seconds: float | None  # None while it is open: it grows with the time


class PastShown(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    opened: datetime | None
    seconds: float | None
    outcome: str


class IncidentsShown(msgspec.Struct, frozen=True, kw_only=True):
    """`found` is what they were made of: while that is the same, they are."""

    found: Mapping[str, NodeIncident] = {}
    incidents: tuple[IncidentShown, ...] = ()
    history: tuple[PastShown, ...] = ()
    open_nodes: frozenset[str] = frozenset()


def incidents_of(found: Mapping[str, NodeIncident], before: IncidentsShown) -> IncidentsShown:
    if before.found is found:
        return before
    newest = sorted(found.values(), key=_began, reverse=True)
    in_turn = sorted(newest, key=lambda one: not one.is_open)  # what is open is never pushed out by what is over
    past = [one for one in newest if not one.is_open][:HISTORY_MAX]
    kept = sorted(in_turn[:INCIDENTS_MAX], key=_began, reverse=True)
    return IncidentsShown(
        found=found,
        incidents=tuple(incident_shown(one) for one in kept),
        history=tuple(_past(one) for one in past),
        open_nodes=frozenset(node_of(one) for one in newest if one.is_open),
    )


def _began(incident: NodeIncident) -> tuple[float, str]:
    opened = incident.opened
    return (opened.timestamp() if opened is not None else 0.0), incident.name


def node_of(incident: NodeIncident) -> str:
    return incident.spec.node or incident.name


def incident_shown(incident: NodeIncident) -> IncidentShown:
    status, closed = incident.status, closed_at(incident)
    return IncidentShown(
        name=incident.name,
        node=node_of(incident),
        phase=status.phase.value,
        outcome=status.outcome,
        cause=str(incident.spec.cause).strip(),
        check=incident.spec.check,
        opened=incident.opened,
        closed=closed,
        message=status.message,
        open=incident.is_open,
        seconds=_seconds(incident),
    )


def closed_at(incident: NodeIncident) -> datetime | None:
    return None if incident.is_open else incident.status.closed_at or incident.status.since


def _seconds(incident: NodeIncident) -> float | None:
    """From when the node was unhealthy, where that was written down; else from when the incident was opened."""
    if incident.is_open or incident.status.seconds is not None:
        return None if incident.is_open else incident.status.seconds
    opened, closed = incident.opened, closed_at(incident)
    return round((closed - opened).total_seconds(), 1) if opened is not None and closed is not None else None


def _past(incident: NodeIncident) -> PastShown:
    return PastShown(
        node=node_of(incident),
        opened=incident.opened,
        seconds=_seconds(incident),
        outcome=incident.status.outcome,
    )


class EntryShown(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    phase: str
    message: str
    kind: str
    by: str


class IncidentWhole(IncidentShown, frozen=True, kw_only=True, rename="camel"):
    """One incident with all that was written down about it; named as in the answer about a node."""

    mode: str
    by: str
    approved_by: str
    attempt: int
    reason: str
    safe_time: SafeTime | None
    proof: str
    unhealthy_since: datetime | None
    evidence: tuple[str, ...]
    gates: tuple[GateShown, ...]
    timeline: tuple[EntryShown, ...]


def incident_whole(incident: NodeIncident) -> IncidentWhole:
    spec, status, proof = incident.spec, incident.status, incident.status.proof
    gates = [
        Gate(name=one.name, is_open=one.open, value=one.value, limit=one.limit, message=one.message)
        for one in spec.gates or ()
    ]
    return IncidentWhole(
        **msgspec.structs.asdict(incident_shown(incident)),
        mode=spec.mode,
        by=spec.by,
        approved_by=spec.approved_by,
        attempt=status.attempt,
        reason=status.reason,
        safe_time=status.safe_time,
        proof=f"grade {proof.grade}: {proof.how}" if proof is not None else "",
        unhealthy_since=spec.unhealthy_since,
        evidence=tuple(spec.evidence or ())[:EVIDENCE_MAX],
        gates=tuple(shown(gate) for gate in gates[:GATES_MAX]),
        timeline=tuple(
            EntryShown(at=one.at, phase=one.phase, message=one.message, kind=one.kind, by=one.by)
            for one in (status.timeline or ())[-TIMELINE_MAX:]
        ),
    )
