"""What to do now for every machine that is to be power-cycled. Pure: the same look gives the same plan."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from defib.decide.entries import release
from defib.decide.fencing.case import UNREADABLE_WAIT, VOLUME_ATTACHMENT, Case
from defib.decide.fencing.news import news_of
from defib.decide.fencing.obstacles import hold_of, lock_of, obstacle_to
from defib.decide.fencing.order import Obstacle, Order, Report, cause_of, target_of
from defib.decide.fencing.said import said
from defib.decide.fencing.sources import kinds_served, orders_in
from defib.decide.fencing.table import Row, next_row
from defib.decide.fencing.work import next_command, next_reading, target, work
from defib.decide.ground import is_control_plane
from defib.decide.rules import INSTANT, LOOK_AGAIN, Rules
from defib.model.action import Action, HoldLock, OpenIncident, ReportRemediation
from defib.model.cluster import Cluster, Wanted
from defib.model.health_check import KindRef
from defib.model.incident import INCIDENTS, TIMELINE_MAX, Entry, IncidentSpec, IncidentStatus, NodeIncident, Phase
from defib.model.lock import Claim, ends_at, is_held
from defib.model.metal3 import HOST
from defib.model.power import METAL3, UNSEEN, PowerPath, PowerState
from defib.model.power_cycle import LOCK_HOLDER
from defib.model.saved import to_save

LOCK_LENGTH = timedelta(minutes=10)
LOCK_RENEWED = timedelta(minutes=5)
MESSAGE_MAX = 1024

_FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(IncidentStatus)}
_FREEING = frozenset({Phase.POWERING_OFF, Phase.FREEING})


class Fencing(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, of which nodes the pods must be in sight, and when to look again even if nothing changes."""

    actions: tuple[Action, ...] = ()
    nodes: frozenset[str] = frozenset()
    wake_at: datetime | None = None
    kinds: Mapping[KindRef, Wanted] = {}
    open: frozenset[str] = frozenset()  # UIDs of incidents of which the power is to be remembered


NOTHING = Fencing()


class _Pass(msgspec.Struct, frozen=True):
    """What is the same for all of them."""

    cluster: Cluster
    rules: Rules
    hold: Callable[[], Obstacle | None]


def plan_fencing(cluster: Cluster, rules: Rules) -> Fencing:
    incidents = {incident.spec.cause.uid: incident for incident in cluster.incidents().values()}
    orders = sorted(orders_in(cluster, rules), key=lambda one: (one[0].name, str(one[0].cause)))
    if not orders and not incidents:
        return Fencing(kinds=kinds_served(rules))

    @cache
    def hold() -> Obstacle | None:
        return hold_of(cluster, rules)

    this = _Pass(cluster, rules, hold)
    plans = [_plan_one(order, report, incidents.get(order.cause.uid), this) for order, report in orders]
    ordered = {order.cause.uid for order, _ in orders}
    left = [incident for uid, incident in sorted(incidents.items()) if uid not in ordered and incident.is_open]
    plans += [_plan_one(_left_over(incident), _nobody, incident, this) for incident in left]
    return Fencing(
        kinds={**kinds_served(rules), **_kinds(orders, incidents.values())},
        actions=tuple(action for plan in plans for action in plan.actions),
        nodes=frozenset(node for plan in plans for node in plan.nodes),
        wake_at=min((plan.wake_at for plan in plans if plan.wake_at is not None), default=None),
        open=frozenset(incident.uid for incident in incidents.values() if incident.is_open),
    )


def _kinds(orders: list[tuple[Order, Report]], incidents: Iterable[NodeIncident]) -> dict[KindRef, Wanted]:
    """What is needed to go on. Volumes are followed from the beginning, so that they are in sight when it matters."""
    paths = [order.path for order, _ in orders] + [one.status.power for one in incidents if one.is_open]
    metal3 = any(isinstance(path, PowerPath) and path.driver == METAL3 for path in paths)
    return {VOLUME_ATTACHMENT: Wanted()} | ({HOST: Wanted()} if metal3 else {})


def _nobody(_: NodeIncident | None, __: Obstacle) -> tuple[Action, ...]:
    return ()


def _left_over(incident: NodeIncident) -> Order:
    """Its cause is gone, by force: whatever was begun is undone, from what was written down."""
    path = incident.status.power or Obstacle("NoPowerPath", "nobody wrote down the way to its power")
    return Order(
        cause=target_of(incident.spec.cause),
        node=incident.spec.node,
        name=incident.name,
        path=path,
        withdrawn=f"{incident.spec.cause} is gone",
        lock_holder=LOCK_HOLDER,
    )


def _plan_one(order: Order, report: Report, incident: NodeIncident | None, this: _Pass) -> Fencing:
    cluster = this.cluster
    if why := cluster.absent.get(INCIDENTS):
        return Fencing(actions=report(None, Obstacle("NoIncidents", f"nothing can be written down: {why}")))
    if incident is None:
        return _plan_new(order, report, this)
    case = Case(
        cluster=cluster,
        order=order,
        incident=incident,
        node=cluster.nodes.get(order.node) if order.node else None,
        seen=cluster.power.get(incident.uid, UNSEEN),
        hold=this.hold,
        obstacle=obstacle_to(order, cluster, this.rules, this.hold, has_begun=incident.is_out),
    )
    row = next_row(case)
    so = said(case)
    # One write at a time: whatever else would be done now is a version too early.
    actions: tuple[Action, ...] = (_enter(case, row, so),) if row is not None else _write(case, so) or work(case)
    return Fencing(
        actions=(*actions, *_lock(case, this.rules), *report(incident, so)),
        nodes=frozenset({order.node}) if order.node and incident.status.phase in _FREEING else frozenset(),
        wake_at=_wake_at(case) if row is None else None,
    )


def _plan_new(order: Order, report: Report, this: _Pass) -> Fencing:
    if order.is_over or order.withdrawn or not order.is_held:
        return Fencing(actions=report(None, Obstacle("NotStarted", order.withdrawn or "nothing was begun")))
    if unread := next((one for one in this.cluster.unread if (one.kind, one.key) == (INCIDENTS, order.name)), None):
        so = Obstacle("IncidentUnreadable", f"NodeIncident {order.name} cannot be read: {unread.why}")
        return Fencing(actions=report(None, so))
    there = this.cluster.incidents().get(order.name)
    if there is not None and there.is_open:
        so = Obstacle("OtherIncident", f"{there.spec.cause} is at work on this node")
        return Fencing(actions=report(None, so))
    if isinstance(order.path, Obstacle) and order.path.reason == "InvalidSpec":
        return Fencing(actions=report(None, order.path))
    obstacle = obstacle_to(order, this.cluster, this.rules, this.hold, has_begun=False)
    so = obstacle or Obstacle("Starting", "nothing stands against it")
    opened = OpenIncident(
        node=order.name, body=_body(order, this.cluster), instead_of=target(there) if there is not None else None
    )
    return Fencing(actions=(opened, *report(None, so)))


def _body(order: Order, cluster: Cluster) -> dict[str, Any]:
    node = cluster.nodes.get(order.node)
    spec = IncidentSpec(
        node=order.node, cause=cause_of(order.cause), control_plane=node is not None and is_control_plane(node)
    )
    return {"metadata": {"name": order.name}, "spec": {"node": order.node, **msgspec.to_builtins(spec)}}


def _enter(case: Case, row: Row, so: Obstacle) -> ReportRemediation:
    """Into the next phase, before anything is done in it."""
    kept = so if row.target in (Phase.NEEDS_PERSON, Phase.RESTING) else None
    message = f"{kept.reason}: {kept.message}" if kept is not None else row.name
    if row.target is Phase.CLOSED:
        why = case.order.withdrawn if case.order.withdrawn and not case.is_back else "the node is back"
        message = f"{why}; {row.name}"
    changes = row.also(case) | {
        "phase": row.target,
        "since": case.cluster.now,
        "reason": kept.reason if kept is not None else str(row.target),
        "message": (kept.message if kept is not None else message)[:MESSAGE_MAX],
    }
    entry = Entry(at=case.cluster.now, phase=row.target, message=message[:MESSAGE_MAX])
    written = _report(case, changes | {"timeline": [*(case.status.timeline or ()), entry][-TIMELINE_MAX:]})
    return msgspec.structs.replace(written, tells=news_of(case, row, message))


def _write(case: Case, so: Obstacle) -> tuple[ReportRemediation, ...]:
    """What is said of a phase may change while it lasts; and a node may get something that must be saved too."""
    changes: dict[str, Any] = {}
    if case.status.phase is Phase.CLOSED:
        return ()
    if (so.reason, so.message[:MESSAGE_MAX]) != (case.status.reason, case.status.message):
        changes |= {"reason": so.reason, "message": so.message[:MESSAGE_MAX]}
    if case.status.phase is Phase.FREEING and case.needs_saving and case.node is not None:
        changes["saved"] = to_save(case.node, case.status.saved)
    return (_report(case, changes),) if changes else ()


def _report(case: Case, changes: dict[str, Any]) -> ReportRemediation:
    return ReportRemediation(
        target=target(case.incident),
        version=case.incident.metadata.resource_version,
        status={_FIELDS[name]: msgspec.to_builtins(value) for name, value in changes.items()},
    )


def _lock(case: Case, rules: Rules) -> tuple[Action, ...]:
    """Where no NodeHealthCheck holds the lock of the node for us, we do, until it is over or a person's."""
    order, node = case.order, case.node
    lease = lock_of(order, case.cluster, rules)
    if order.lock_holder != LOCK_HOLDER or node is None:
        return ()
    ours = lease is not None and lease.spec.holder_identity == LOCK_HOLDER
    if case.status.phase in (Phase.CLOSED, Phase.NEEDS_PERSON):
        return (release(order.node, lease),) if lease is not None and ours else ()
    if order.withdrawn and not ours:
        return ()
    ends = ends_at(lease) if lease is not None and ours else None
    if ends is not None and case.cluster.now < ends - LOCK_RENEWED:
        return ()
    if lease is not None and not ours and is_held(lease, case.cluster.now):
        return ()
    claim = Claim(node=node.name, node_uid=node.uid, holder=LOCK_HOLDER, length=LOCK_LENGTH, known=lease)
    return (HoldLock(claim=claim),)


def _wake_at(case: Case) -> datetime | None:
    """The next reading, the next command, the deadline; and what only a heartbeat could change is looked at again."""
    moments = [case.deadline + INSTANT] if case.deadline is not None else []
    phase = case.status.phase
    power = {
        Phase.TESTING: PowerState.ON,
        Phase.POWERING_OFF: PowerState.OFF,
        Phase.POWERING_ON: PowerState.ON,
        Phase.CANCELLING: PowerState.ON,
        Phase.NEEDS_PERSON: PowerState.ON,
    }.get(phase)
    if phase is Phase.LOOKING or power is not None:
        moments.append(next_reading(case))
    if power is not None:
        moments.append(next_command(case, power))
    if not case.can_read and (sent := case.was_sent(PowerState.OFF)):
        moments.append(sent + UNREADABLE_WAIT)
    waits = case.obstacle is not None and phase in (Phase.OPEN, Phase.RESTING)
    if waits or case.is_held_back:
        moments.append(case.cluster.now + LOOK_AGAIN)
    return min((moment for moment in moments if moment > case.cluster.now), default=None)
