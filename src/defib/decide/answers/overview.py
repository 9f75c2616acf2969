"""How the whole cluster stands, on one screen: nodes by state, checks, incidents, drains, power. From one look at it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from defib.decide.answers.in_common import InCommon, in_common
from defib.decide.answers.node import gate_told, verdicts_of
from defib.decide.answers.told import GateTold, Told
from defib.decide.check_plan import CheckPlan
from defib.decide.doubt import brake_reason
from defib.decide.fencing.ours import BY_TEMPLATE
from defib.decide.gates import first_closed
from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.model.cluster import Cluster
from defib.model.fence_readiness import read_fence_status
from defib.model.health_check import Check
from defib.model.incident import INCIDENTS, NodeIncident
from defib.model.node_drain import DRAIN, Phase, read_drain_status
from defib.model.verdict import State, Verdict

UNWATCHED = "Unwatched"  # no check selects it
# The worst first: where checks think differently of a node, this is what it counts as.
WORST = (State.UNHEALTHY, State.REMEDIATING, State.SUSPECT, State.RECOVERING, State.HEALTHY, State.UNSEEN)


FAILING = frozenset({State.SUSPECT, State.UNHEALTHY, State.REMEDIATING})


class NodeBrief(Told, frozen=True, kw_only=True):
    """A node that is not simply well. `held_by` is the gate that stops its remediation, if one does."""

    node: str
    state: str
    check: str
    reason: str
    message: str
    since: datetime | None
    held_by: str = ""


class CheckBrief(Told, frozen=True, kw_only=True):
    """Those that are being remediated are among the unhealthy ones."""

    name: str
    mode: str
    phase: str
    reason: str
    nodes: int
    healthy: int
    unhealthy: int
    remediating: int
    closed: tuple[GateTold, ...]


class IncidentBrief(Told, frozen=True, kw_only=True):
    """`since` is when the node was unhealthy, or else when it was written down."""

    name: str
    node: str
    phase: str
    outcome: str
    cause: str
    check: str
    message: str
    since: datetime | None
    closed: datetime | None
    seconds: float | None
    is_open: bool = msgspec.field(name="open")


class DrainBrief(Told, frozen=True, kw_only=True):
    node: str
    policy: str
    phase: str
    reason: str
    message: str
    since: datetime | None
    pods_left: int | None
    has_failed: bool = msgspec.field(name="failed")


class FenceBrief(Told, frozen=True, kw_only=True):
    """What one PowerCycleRemediationTemplate says of the power of its nodes."""

    template: str
    covered: int
    ready: int
    not_ready: Mapping[str, str]  # by node, why; as many as its status holds


class Overview(Told, frozen=True, kw_only=True):
    now: datetime
    nodes: int
    ready: int
    states: Mapping[str, int]
    ill: tuple[NodeBrief, ...]  # the worst first
    unwatched_ill: tuple[str, ...]  # not ready, and no check looks after them
    checks: tuple[CheckBrief, ...]
    brake: str  # why it is on; empty when it is off
    incidents: tuple[IncidentBrief, ...]  # those that are open
    drains: tuple[DrainBrief, ...]
    fences: tuple[FenceBrief, ...]
    in_common: tuple[InCommon, ...] = ()  # what those that are ill share, beyond chance


def overview(cluster: Cluster, plan: Plan, rules: Rules) -> Overview:
    ill = tuple(sorted(_ill(cluster, plan), key=_weight))
    watched = _watched(plan)
    unwatched = cluster.nodes.keys() - watched
    states = Counter(one.state for one in ill)
    states[State.HEALTHY.value] = len(watched & cluster.nodes.keys()) - sum(
        one.node in watched and one.node in cluster.nodes for one in ill
    )
    states[UNWATCHED] = len(unwatched)
    return Overview(
        now=cluster.now,
        nodes=len(cluster.nodes),
        ready=sum(node.ready == "True" for node in cluster.nodes.values()),
        states={name: number for name, number in states.items() if number},
        ill=ill,
        unwatched_ill=tuple(sorted(name for name in unwatched if cluster.nodes[name].ready != "True")),
        checks=tuple(_check(plan.checks[name]) for name in sorted(plan.checks)),
        brake=brake_reason(cluster, rules),
        incidents=tuple(one for one in incidents_of(cluster) if one.is_open),
        drains=tuple(_drains(cluster)),
        fences=tuple(_fences(cluster)),
        in_common=in_common(cluster.nodes, (one.node for one in ill if one.state in FAILING)),
    )


def _watched(plan: Plan) -> frozenset[str]:
    censuses = [one.census for one in plan.checks.values() if one.census is not None]
    return frozenset[str]().union(*(census.selected for census in censuses))


def _ill(cluster: Cluster, plan: Plan) -> Iterator[NodeBrief]:
    """Those that some check has something to say about, also when the node itself is gone."""
    spoken = {name for one in plan.checks.values() for name in one.verdicts}
    spoken |= {name for one in plan.checks.values() if one.census is not None for name in one.census.troubled}
    for name in sorted(spoken):
        verdicts = [one for one in verdicts_of(name, cluster, plan) if one.state in WORST[:-2]]
        if verdicts:
            yield _brief(min(verdicts, key=lambda one: WORST.index(one.state)))


def _brief(verdict: Verdict) -> NodeBrief:
    held = first_closed(verdict.gates) if verdict.state is State.UNHEALTHY else None
    return NodeBrief(
        node=verdict.node,
        state=verdict.state.value,
        check=verdict.check,
        reason=verdict.reason,
        message=verdict.message,
        since=verdict.since if verdict.state is not State.SUSPECT else None,
        held_by=held.name if held is not None else "",
    )


def _weight(one: NodeBrief) -> tuple[int, str]:
    return WORST.index(State(one.state)), one.node


def _check(one: CheckPlan) -> CheckBrief:
    check, status = one.known.check, one.status
    listed = status.unhealthy_nodes or ()
    return CheckBrief(
        name=one.name,
        mode=check.mode.value if isinstance(check, Check) else "",
        phase=status.phase,
        reason=status.reason,
        nodes=status.observed_nodes or 0,
        healthy=status.healthy_nodes or 0,
        unhealthy=status.unhealthy_count or 0,
        remediating=sum(bool(node.remediations) for node in listed),
        closed=tuple(gate_told(gate) for gate in one.gates if not gate.is_open),
    )


def incidents_of(cluster: Cluster) -> tuple[IncidentBrief, ...]:
    """All of them: first those that are open, then the latest."""
    found = [incident_told(one) for one in cluster.all_of(INCIDENTS, NodeIncident).values()]
    latest = sorted(found, key=lambda one: (one.since is not None, one.since, one.name), reverse=True)
    return tuple(sorted(latest, key=lambda one: not one.is_open))


def incident_told(one: NodeIncident) -> IncidentBrief:
    status = one.status
    closed = status.closed_at or (None if one.is_open else status.since)
    return IncidentBrief(
        name=one.name,
        node=one.spec.node or one.name,
        phase=status.phase.value,
        outcome=status.outcome,
        cause=str(one.spec.cause),
        check=one.spec.check,
        message=status.message or next(iter(one.spec.evidence or ()), ""),
        since=one.spec.unhealthy_since or one.opened,
        closed=closed,
        seconds=status.seconds,
        is_open=one.is_open,
    )


def _drains(cluster: Cluster) -> Iterator[DrainBrief]:
    for item in sorted(cluster.every(DRAIN), key=lambda item: item.name):
        status = read_drain_status(item)
        if status.phase is Phase.DRAINED:
            continue
        yield DrainBrief(
            node=item.name,
            policy=status.policy,
            phase=status.phase.value,
            reason=status.reason,
            message=status.message,
            since=status.started_at,
            pods_left=status.pods_left,
            has_failed=status.failed,
        )


def _fences(cluster: Cluster) -> Iterator[FenceBrief]:
    for item in sorted((item for kind in BY_TEMPLATE for item in cluster.every(kind)), key=lambda item: item.key):
        status = read_fence_status(item)
        if status.covered is None:
            continue
        yield FenceBrief(
            template=item.key,
            covered=status.covered,
            ready=status.ready or 0,
            not_ready={one.node: one.why for one in status.not_ready or ()},
        )
