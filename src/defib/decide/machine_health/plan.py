"""What to do now for every MachineHealthCheck. Pure: the same look gives the same plan.

machines of a check ──▶ verdicts ──▶ budget ──▶ hurdles ──▶ at most one cure for each unhealthy machine
                          │ what is being done already counts as unhealthy
                          └ from when on it may be unhealthy: the next look
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from defib.decide.doubt import SELF_DOUBT
from defib.decide.fencing.kinds import MACHINE_HEALTH_CHECKS, items_of, to_ask_for
from defib.decide.fencing.machines import Machine, machines_in
from defib.decide.fencing.order import Obstacle
from defib.decide.machine_health.budget import Budget
from defib.decide.machine_health.care import Care, care_for, care_in
from defib.decide.machine_health.cures import cure_for, ending
from defib.decide.machine_health.hurdles import Hurdles
from defib.decide.machine_health.reading import MachineCheck, read_machine_check
from defib.decide.machine_health.said import report
from defib.decide.machine_health.verdicts import Verdict, is_here, judge
from defib.decide.quorum import CLUSTER_VERSION, ETCD_NAMESPACE, PODS
from defib.decide.rules import INSTANT, LOOK_AGAIN, Rules
from defib.model.action import Action
from defib.model.budget import BUDGET
from defib.model.cluster import Cluster, Missing, Served, Wanted
from defib.model.health_check import KindRef
from defib.model.machine_action import MachineAction

SETTING = "machine-health-check"
TOO_MANY = "TooManyUnhealthy"
INVALID = "InvalidSpec"
ELSEWHERE = "NodesElsewhere"
MOST_NOTES = 5


class MachineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, which kinds must be in sight, and when to look again even if nothing changes."""

    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    kinds: Mapping[KindRef, Wanted] = {}


NOTHING = MachineHealth()


def plan_machine_health(cluster: Cluster, rules: Rules) -> MachineHealth:
    if SETTING not in rules.serves:
        return NOTHING
    checks = sorted(_checks(cluster), key=lambda one: (str(one.kind), one.key))
    kinds = _kinds(cluster, checks)
    if not checks:
        return MachineHealth(kinds=kinds)
    care = care_in(cluster)
    used = {kind for check in checks for kind in (check.kind, check.machines)}
    hurdles = Hurdles(cluster, rules, care, frozenset(used))
    plans = [_plan_one(check, cluster, care, hurdles) for check in checks if not check.is_still]
    return MachineHealth(
        actions=tuple(action for plan in plans for action in plan.actions),
        wake_at=min((plan.wake_at for plan in plans if plan.wake_at is not None), default=None),
        kinds=kinds,
    )


def _checks(cluster: Cluster) -> Iterator[MachineCheck]:
    for versions in MACHINE_HEALTH_CHECKS:
        for kind, item in items_of(versions, cluster):
            yield read_machine_check(item, kind)


def _kinds(cluster: Cluster, checks: list[MachineCheck]) -> dict[KindRef, Wanted]:
    """Checks where the cluster has them, their machines, their templates, and what guards OpenShift's etcd."""
    wanted = {CLUSTER_VERSION: Wanted(can_wait=True)}
    for versions in MACHINE_HEALTH_CHECKS:
        for kind in to_ask_for(versions, cluster):
            wanted[kind] = Wanted(can_wait=True)
    if checks and isinstance(cluster.kinds.get(CLUSTER_VERSION), Served):
        wanted |= dict.fromkeys((BUDGET, PODS), Wanted(ETCD_NAMESPACE))
    for check in checks:
        wanted[check.machines] = Wanted(can_wait=True)
        if check.template is not None and not check.problems:
            wanted |= dict.fromkeys((check.template.kind, check.template.makes), Wanted())
    return wanted


def _plan_one(check: MachineCheck, cluster: Cluster, care: Care, hurdles: Hurdles) -> MachineHealth:
    if check.machines not in cluster.kinds:
        return NOTHING  # they come into sight in a moment
    if why := _why_unfit(check, cluster):
        return MachineHealth(actions=report(check, None, why, [], cluster.now))
    verdicts = [_judged(machine, check, cluster, care) for machine in _machines(check, cluster)]
    budget = Budget(expected=len(verdicts), healthy=sum(one.is_healthy for one in verdicts), most=check.most)
    ill = [one for one in verdicts if one.is_unhealthy and not one.care]
    closed = Obstacle(TOO_MANY, budget.message) if budget.is_exceeded else hurdles.hold if ill else None
    cures, notes = _cures(ill, check, cluster, hurdles) if closed is None else ([], [])
    ends = [end for one in verdicts for end in ending(one, check, cluster)]
    moments = [one.due + INSTANT for one in verdicts if one.due is not None]
    moments += [end + INSTANT for one in ill if (end := hurdles.lock_ends(one)) is not None]
    if closed is not None and closed.reason == SELF_DOUBT:
        moments.append(cluster.now + LOOK_AGAIN)  # heartbeats cause no passes
    return MachineHealth(
        actions=(*ends, *cures, *report(check, budget, closed, notes, cluster.now)),
        wake_at=min(moments, default=None),
    )


def _why_unfit(check: MachineCheck, cluster: Cluster) -> Obstacle | None:
    """Why nobody can say how its machines are."""
    if check.problems:
        return Obstacle(INVALID, "; ".join(check.problems))
    machines = cluster.kinds[check.machines]
    if isinstance(machines, Missing):
        return Obstacle(SELF_DOUBT, machines.why)
    unseen = {one.kind: one.why for one in cluster.blind} | dict(cluster.absent)
    if why := unseen.get(machines.collection):
        return Obstacle(SELF_DOUBT, f"machines are out of sight: {why}")
    if not is_here(check, cluster.nodes):
        whose = f"{check.item.namespace}/{check.cluster}"
        return Obstacle(ELSEWHERE, f"no node of this cluster says that it belongs to cluster {whose}")
    return None


def _machines(check: MachineCheck, cluster: Cluster) -> list[Machine]:
    found = (one for one in machines_in(cluster) if one.kind == check.machines and check.selects(one))
    return sorted(found, key=lambda one: one.item.key)


def _judged(machine: Machine, check: MachineCheck, cluster: Cluster, care: Care) -> Verdict:
    verdict = judge(machine, check, cluster.nodes, cluster.now)
    return msgspec.structs.replace(verdict, care=care_for(verdict, care))


def _cures(
    ill: list[Verdict], check: MachineCheck, cluster: Cluster, hurdles: Hurdles
) -> tuple[list[MachineAction], list[str]]:
    """And what there is to say of those about which nothing is done, or nothing could be."""
    cures: list[MachineAction] = []
    notes: list[str] = []
    for verdict in ill:
        cure = hurdles.before(verdict) or cure_for(verdict, check, cluster)
        if isinstance(cure, Obstacle):
            notes.append(f"machine {verdict.machine.item.name}: {verdict.why}; {cure.message}")
            continue
        hurdles.begin(verdict)
        cures.append(cure)
        if failure := cluster.failures.get(cure.key):
            notes.append(f"machine {verdict.machine.item.name}: {verdict.why}; {failure.why}")
    return cures, notes[:MOST_NOTES]
