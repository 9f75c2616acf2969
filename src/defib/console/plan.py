"""What Defib would do now, from the cluster as it is or from a dump of one. Nothing is changed."""

from datetime import datetime
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from defib.config import Settings
from defib.console.deeds import ACTS, Deed, deed_of
from defib.console.recording import read_recording
from defib.console.session import connected
from defib.console.thorough import Seen, Thought, look_at_all, think
from defib.decide.answers.node import NOTHING_HOLDS
from defib.decide.answers.told import GateTold, Told
from defib.decide.check_plan import CheckPlan
from defib.decide.explain import remediations_of
from defib.decide.gates import first_closed
from defib.decide.outlook import STARTING, outlook
from defib.decide.plan import Plan
from defib.decide.rules import Rules
from defib.model.cluster import Cluster
from defib.model.health_check import Check
from defib.model.verdict import Gate, State, Verdict


class NodeTold(Told, frozen=True, kw_only=True):
    """A node that is not well, under one check. `held_by` is the first gate that is in the way, if one is."""

    node: str
    state: str
    reason: str
    message: str
    since: datetime | None
    held_by: str
    next: str
    next_at: datetime | None


class CheckPlanned(Told, frozen=True, kw_only=True):
    check: str
    mode: str
    phase: str
    reason: str
    observed: int
    healthy: int
    deeds: tuple[Deed, ...]
    nodes: tuple[NodeTold, ...]
    gates: tuple[GateTold, ...]


class PlanTold(Told, frozen=True, kw_only=True):
    now: datetime
    source: str  # empty: a live cluster
    nodes: int
    checks: tuple[CheckPlanned, ...]
    deeds: tuple[Deed, ...]  # of no check: our own remediations, drains, machines
    wake_at: datetime | None  # when it would look again even if nothing changed
    unknown: tuple[str, ...]

    @property
    def all_deeds(self) -> tuple[Deed, ...]:
        return (*(deed for check in self.checks for deed in check.deeds), *self.deeds)

    @property
    def acts(self) -> bool:
        return any(deed.effect == ACTS for deed in self.all_deeds)


async def plan_now(settings: Settings, rules: Rules) -> PlanTold:
    """Raises NotDone."""
    async with connected(settings, SystemClock()) as session:
        seen = await look_at_all(session.client, session.clock, rules, with_pods=False)
    return tell_plan(seen, rules, source="")


def plan_of_dump(path: Path) -> PlanTold:
    """Of its last frame, by the rules that it was made with. Raises NotDone."""
    recording = read_recording(path)
    seen = Seen(recording.last, recording.header.unknown)
    return tell_plan(seen, recording.header.rules, source=str(path))


def tell_plan(seen: Seen, rules: Rules, source: str) -> PlanTold:
    cluster = seen.cluster
    thought = think(cluster, rules)
    moments = (moment for moment in (thought.plan.wake_at, *thought.own.moments) if moment is not None)
    unread = (f"{one.kind} {one.key} cannot be read: {one.why}" for one in cluster.unread)
    return PlanTold(
        now=cluster.now,
        source=source,
        nodes=len(cluster.nodes),
        checks=tuple(_check(one, cluster, thought.plan) for one in thought.plan.checks.values()),
        deeds=_others(thought),
        wake_at=min(moments, default=None),
        unknown=(*seen.unknown, *unread),
    )


def _others(thought: Thought) -> tuple[Deed, ...]:
    of_checks = {id(action) for one in thought.plan.checks.values() for action in one.actions}
    return tuple(deed_of(action) for action in thought.actions if id(action) not in of_checks)


def _check(one: CheckPlan, cluster: Cluster, plan: Plan) -> CheckPlanned:
    check = one.known.check
    return CheckPlanned(
        check=one.name,
        mode=check.mode.value if isinstance(check, Check) else "",
        phase=one.status.phase,
        reason=one.status.reason,
        observed=one.status.observed_nodes or 0,
        healthy=one.status.healthy_nodes or 0,
        deeds=tuple(deed_of(action) for action in one.actions),
        nodes=tuple(_node(verdict, cluster, plan) for verdict in one.verdicts.values()),
        gates=tuple(gate_told(gate) for gate in one.gates),
    )


def _node(verdict: Verdict, cluster: Cluster, plan: Plan) -> NodeTold:
    ahead = outlook(verdict, cluster, plan)
    if verdict.reason == STARTING and not remediations_of(verdict.node, cluster, plan):
        # To the operator it is begun as soon as it is decided; here nobody begins it.
        verdict = msgspec.structs.replace(verdict, state=State.UNHEALTHY, message=NOTHING_HOLDS)
    return NodeTold(
        node=verdict.node,
        state=verdict.state.value,
        reason=verdict.reason,
        message=verdict.message,
        since=verdict.since if verdict.state is not State.SUSPECT else None,
        held_by=held_by(verdict),
        next=ahead.message,
        next_at=ahead.at,
    )


def held_by(verdict: Verdict) -> str:
    """Which gate keeps an unhealthy node from being remediated; empty where none does."""
    closed = first_closed(verdict.gates)
    return closed.name if closed is not None and verdict.state is State.UNHEALTHY and verdict.reason != STARTING else ""


def gate_told(gate: Gate) -> GateTold:
    return GateTold(name=gate.name, is_open=gate.is_open, value=gate.value, limit=gate.limit, message=gate.message)
