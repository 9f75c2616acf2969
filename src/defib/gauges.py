"""What a pass has seen and thought, as numbers for whoever watches the operator."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import structlog

from defib.act.drains import rung_of
from defib.act.outcome import Done, Failed, Outcome
from defib.decide.drains.plan import Drains
from defib.decide.failover.plan import Failover
from defib.decide.fencing.readiness import Readiness
from defib.decide.leftovers import kind_of
from defib.decide.news import OF_A_NODE
from defib.decide.plan import Plan
from defib.decide.remediators import OwnWork
from defib.model.action import Action
from defib.model.cluster import HEARTBEATS, Cluster
from defib.model.drain_action import BLOCKED, PodStep
from defib.model.failover_policy import State
from defib.model.incident import NodeIncident, Phase
from defib.model.node_drain import Phase as DrainPhase
from defib.model.pod import PODS_ON
from defib.model.standing import Standing
from defib.observe.cache import LOCKS_NAME
from defib.power.registry import Drivers
from defib.telemetry.metrics import Metrics
from defib.telemetry.series import Draining

log = structlog.get_logger("app")

_OPEN = tuple(phase for phase in Phase if phase is not Phase.CLOSED)
_NOT_OURS = Draining()


class Gauges:
    def __init__(self, metrics: Metrics, drivers: Drivers) -> None:
        self._metrics = metrics
        self._drivers = drivers
        self._measured: dict[str, tuple[int, int, datetime | None]] = {}  # as they are shown
        self._incidents: Mapping[str, NodeIncident] | None = None
        self._leads = False

    def stand(self, standing: Standing) -> None:
        """A standby may make no pass for minutes, and a mandate ends without one: so this is shown whenever somebody looks."""
        self._leads = standing.leads
        self._metrics.stands(standing)
        if not self._leads:
            self._metrics.drains(_NOT_OURS)  # else a drain that has failed would be told of until the next pass

    def show(self, cluster: Cluster, plan: Plan, own: OwnWork) -> None:
        self._show_cache(cluster)
        self._show_checks(plan)
        self._show_incidents(cluster.incidents(), cluster.accounts())
        self._show_fences(own.readiness)
        self._show_failover(own.failover)
        self._metrics.drains(_draining(own.drains) if self._leads else _NOT_OURS)
        self._metrics.left_behind(self._drivers.left_behind)

    def ended(self, action: Action, outcome: Outcome) -> None:
        """Of what was done, what nobody else counts: what failed, steps of drains, and leftovers that were taken away."""
        is_blocked = isinstance(outcome, Failed) and outcome.why.startswith(BLOCKED)
        if isinstance(action, PodStep) and isinstance(outcome, Done | Failed):
            result = "blocked" if is_blocked else "done" if isinstance(outcome, Done) else "failed"
            self._metrics.drain_step(rung_of(action).value, result)
        if isinstance(outcome, Failed) and not is_blocked:  # a budget that has its way is no failure
            self._metrics.action_failed(type(action).__name__)
        if isinstance(outcome, Done) and (kind := kind_of(action)):
            self._metrics.collected(kind)
            log.info("leftover collected", kind=kind, what=action.key)

    def _show_cache(self, cluster: Cluster) -> None:
        held = {"nodes": cluster.nodes, HEARTBEATS: cluster.heartbeats, LOCKS_NAME: cluster.locks}
        held |= cluster.others
        cached: Counter[str] = Counter()
        for name, objects in held.items():
            cached[series_of(name)] += len(objects)
        aside = Counter(series_of(item.kind) for item in cluster.unread)
        blind: dict[str, datetime] = {}
        for blindness in sorted(cluster.blind, key=lambda one: one.since, reverse=True):
            blind[series_of(blindness.kind)] = blindness.since
        measured = {kind: (count, aside[kind], blind.get(kind)) for kind, count in cached.items()}
        for kind in self._measured.keys() - measured.keys():
            self._metrics.forget(kind)
        for kind, (count, unread, since) in measured.items() - self._measured.items():
            self._metrics.holds(kind, cached=count, set_aside=unread)
            self._metrics.blind(kind, since)
        self._measured = measured

    def _show_checks(self, plan: Plan) -> None:
        ongoing: set[tuple[str, str, str]] = set()
        counts = {}
        held: Counter[tuple[str, str]] = Counter()
        for name, check in plan.checks.items():
            nodes = check.status.unhealthy_nodes or ()
            started = [(node, one.resource) for node in nodes for one in node.remediations or ()]
            ongoing |= {(node.name, resource.namespace, resource.kind) for node, resource in started}
            held.update((name, node.reason) for node in nodes if node.reason in OF_A_NODE and not node.remediations)
            counts[name] = (
                check.status.observed_nodes or 0,
                check.status.healthy_nodes or 0,
                len(nodes),
                sum(1 for node in nodes if node.remediations),
                frozenset(gate.name for gate in check.gates if not gate.is_open),
            )
        self._metrics.checked(counts)
        self._metrics.held(held)
        self._metrics.ongoing(ongoing)

    def _show_fences(self, readiness: Readiness) -> None:
        """Only who leads tries them. What a former leader found out is old, and nobody would correct it."""
        if self._leads:
            self._metrics.fences(readiness.ready, readiness.checked_at)
        else:
            self._metrics.fences({}, None)

    def _show_failover(self, failover: Failover) -> None:
        remembered = (*failover.policies.todo.judged.values(), *failover.remediations.judged.values())
        waiting = {pod.uid for judged in remembered for pod in judged.sorted.waiting}
        held: Counter[str] = Counter()
        for look in failover.policies.looks.values():
            held.update({entry.reason for entry in look.look.entries.values() if entry.state is State.HELD})
        self._metrics.failover(len(waiting), held)

    def _show_incidents(self, incidents: Mapping[str, NodeIncident], accounts: Mapping[str, NodeIncident]) -> None:
        """Those that are closed stay, several for each node that ever failed: they are counted again only after a change.

        How long one has been open is told of power cycles only: others may take as long as their remediators need.
        """
        if self._incidents is incidents:
            return
        self._incidents = incidents
        phases = Counter(one.status.phase for one in (*incidents.values(), *accounts.values()))
        began = [one.metadata.creation_timestamp for one in incidents.values() if one.is_open]
        oldest = min((moment for moment in began if moment is not None), default=None)
        self._metrics.incidents({phase.value: phases[phase] for phase in _OPEN}, oldest)


def _draining(drains: Drains) -> Draining:
    """Of the records that nobody's drain stands behind now, only those that wait for it to go on."""
    standings = {name: one.status for name, one in drains.standings.items()}
    paused = (one.status for name, one in drains.records.items() if name not in standings and one.status.paused_at)
    phases = Counter(status.phase for status in (*standings.values(), *paused))
    estimates = {name: known.status.estimate_seconds for name, known in drains.known.items()}
    return Draining(
        phases={phase.value: phases[phase] for phase in DrainPhase},
        failed=[name for name, status in standings.items() if status.failed],
        pods_left={name: status.pods_left for name, status in standings.items() if status.pods_left is not None},
        estimates={name: seconds for name, seconds in estimates.items() if seconds is not None},
    )


def series_of(name: str) -> str:
    """What a shelf is called in metrics. Those of single nodes are counted together: a series for each would be too many."""
    return "pods" if name.startswith(PODS_ON) else name
