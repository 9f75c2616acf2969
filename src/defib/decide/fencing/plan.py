"""What to do now for every machine that is to be power-cycled. Pure: the same look gives the same plan."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from defib.decide.accounts.facts import FactsOf, no_facts
from defib.decide.entries import release
from defib.decide.fencing.agents import listen, needs_agents, safe_time_of
from defib.decide.fencing.case import VOLUME_ATTACHMENT, Case
from defib.decide.fencing.conditions import conditions_after
from defib.decide.fencing.covered import Machine, machine_of
from defib.decide.fencing.lost import is_untold
from defib.decide.fencing.lost import words as lost_words
from defib.decide.fencing.news import news_of, news_of_lost
from defib.decide.fencing.obstacles import OWN_NODE, hold_of, lock_of, obstacle_to, only_one, own_node
from defib.decide.fencing.order import Obstacle, Order, Report, target_of
from defib.decide.fencing.readiness import NOTHING as NOT_TRIED
from defib.decide.fencing.readiness import Readiness, why_shared
from defib.decide.fencing.said import said, why_closed
from defib.decide.fencing.sources import kinds_handed_over, kinds_served, left_behind, orders_in
from defib.decide.fencing.table import Row, next_row, telling
from defib.decide.fencing.wake import wake_at
from defib.decide.fencing.work import target, work
from defib.decide.fencing.written import ending, opening, timeline
from defib.decide.once import Once
from defib.decide.rules import Rules
from defib.model.action import Action, DropIncident, HoldLock, ReportRemediation, SwitchPower, TellEvent
from defib.model.cluster import Cluster, Missing, Served, Wanted
from defib.model.health_check import KindRef
from defib.model.incident import INCIDENTS, MESSAGE_MAX, Cause, IncidentStatus, NodeIncident, Phase
from defib.model.lock import Claim, ends_at, is_held
from defib.model.metal3 import HOST
from defib.model.moment import is_sensible
from defib.model.node import Lease
from defib.model.power import METAL3, UNSEEN, PowerPath
from defib.model.power_cycle import LOCK_HOLDER

LOCK_LENGTH = timedelta(minutes=10)
LOCK_RENEWED = timedelta(minutes=5)
NODE_KNOWN_WITHIN = timedelta(seconds=5)
KEPT_FOR = timedelta(days=7)
DROPPED_AT_ONCE = 20

_FIELDS = {field.name: field.encode_name for field in msgspec.structs.fields(IncidentStatus)}
_FREEING = frozenset({Phase.POWERING_OFF, Phase.FREEING})


class Fencing(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, of which nodes the pods must be in sight, and when to look again even if nothing changes."""

    actions: tuple[Action, ...] = ()
    nodes: frozenset[str] = frozenset()
    wake_at: datetime | None = None
    kinds: Mapping[KindRef, Wanted] = {}
    open: frozenset[str] = frozenset()  # UIDs of incidents of which the power is to be remembered
    known: "_Known | None" = None
    begins: str = ""

    @property
    def hears(self) -> bool:
        """Whether what agents tell is to be remembered."""
        return self.known is not None and any(map(needs_agents, self.known.open))


NOTHING = Fencing()


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """All incidents, looked through once for as long as none of them changes."""

    incidents: Mapping[str, NodeIncident]
    by_cause: Mapping[str, NodeIncident]
    open: tuple[NodeIncident, ...]
    by_machine: Mapping[Machine, NodeIncident]
    stale_at: datetime | None  # when the first of those that are closed has been kept for long enough

    def due(self, now: datetime) -> datetime | None:
        """One that could not be dropped is tried again in its own time."""
        return self.stale_at if self.stale_at is not None and self.stale_at > now else None


class _Pass(msgspec.Struct, frozen=True):
    """What is the same for all of them."""

    cluster: Cluster
    rules: Rules
    hold: Callable[[], Obstacle | None]
    hold_of_begun: Callable[[], Obstacle | None]
    readiness: Readiness
    by_machine: Mapping[Machine, NodeIncident]  # those that are out
    facts: FactsOf
    begins: str = ""  # the control-plane node that begins in this very pass


def plan_fencing(
    cluster: Cluster,
    rules: Rules,
    before: Fencing = NOTHING,
    readiness: Readiness = NOT_TRIED,
    facts: FactsOf = no_facts,
) -> Fencing:
    """`before` spares work and changes nothing."""
    known = _known(cluster, before)
    orders = sorted(orders_in(cluster, rules), key=lambda one: (one[0].name, str(one[0].cause)))
    if not orders and not known.open:
        return _idle(cluster, rules, known)

    begins, goes_on = (Once(partial(hold_of, cluster, rules, goes_on=so)) for so in (False, True))
    this = _Pass(cluster, rules, begins, goes_on, readiness, known.by_machine, facts)
    plans: list[Fencing] = []
    for order, report in orders:
        incident = known.by_cause.get(order.cause.uid)
        plans.append(_plan_one(_of_its_node(order, incident), report, incident, this))
        this = msgspec.structs.replace(this, begins=this.begins or plans[-1].begins)
    ordered = {order.cause.uid for order, _ in orders}
    left = [one for one in known.open if one.spec.cause.uid not in ordered and _would_be_seen(one.spec.cause, cluster)]
    plans += [_plan_one(_left_over(incident), _nobody, incident, this) for incident in left]
    return Fencing(
        kinds={**kinds_served(cluster, rules), **_kinds(orders, known.open), **kinds_handed_over(orders, cluster)},
        actions=(
            *(action for plan in plans for action in plan.actions),
            *listen(rules.namespace, known.open, cluster),
            *left_behind(cluster, rules, [order for order, _ in orders]),
            *_drops(known, cluster.now),
        ),
        nodes=frozenset(node for plan in plans for node in plan.nodes),
        wake_at=min(filter(None, (plan.wake_at for plan in plans)), default=known.due(cluster.now)),
        open=frozenset(incident.uid for incident in known.open),
        known=known,
    )


def _idle(cluster: Cluster, rules: Rules, known: _Known) -> Fencing:
    return Fencing(
        kinds=kinds_served(cluster, rules),
        known=known,
        actions=(*left_behind(cluster, rules, ()), *_drops(known, cluster.now)),
        wake_at=known.due(cluster.now),
    )


def _known(cluster: Cluster, before: Fencing) -> _Known:
    incidents = cluster.incidents()
    if before.known is not None and before.known.incidents is incidents:
        return before.known
    # Of one cause, the open one counts, or else the latest.
    found = sorted(incidents.values(), key=lambda one: (one.is_open, str(one.status.since or ""), one.name))
    closed = [moment for one in found if (moment := _closed_at(one)) is not None]
    powers = [(one, one.status.power) for one in found if one.is_out and one.status.power is not None]
    machines = {machine: one for one, power in powers if (machine := machine_of(power)) is not None}
    return _Known(
        incidents=incidents,
        by_cause={incident.spec.cause.uid: incident for incident in found},
        open=tuple(incident for incident in found if incident.is_open),
        by_machine=machines,
        stale_at=min(closed) + KEPT_FOR if closed else None,
    )


def _closed_at(incident: NodeIncident) -> datetime | None:
    """None while it is open, or where somebody wrote a time that makes no sense."""
    since = incident.status.since
    return since if not incident.is_open and since is not None and is_sensible(since) else None


def _drops(known: _Known, now: datetime) -> tuple[DropIncident, ...]:
    """Closed incidents stay to be read, but not for ever: nodes come and go, and each has its own name."""
    if known.stale_at is None or now < known.stale_at:
        return ()
    since = {name: _closed_at(one) for name, one in known.incidents.items()}
    old = [name for name, moment in since.items() if moment is not None and moment + KEPT_FOR <= now]
    return tuple(DropIncident(incident=target(known.incidents[name])) for name in old[:DROPPED_AT_ONCE])


def _kinds(orders: list[tuple[Order, Report]], incidents: Iterable[NodeIncident]) -> dict[KindRef, Wanted]:
    """What is needed to go on. Volumes are followed from the beginning, so that they are in sight when it matters."""
    paths = [order.path for order, _ in orders] + [one.status.power for one in incidents if one.is_open]
    metal3 = any(isinstance(path, PowerPath) and path.driver == METAL3 for path in paths)
    causes = {KindRef(one.spec.cause.api_version, one.spec.cause.kind): Wanted() for one in incidents if one.is_open}
    return {VOLUME_ATTACHMENT: Wanted()} | causes | ({HOST: Wanted()} if metal3 else {})


def _would_be_seen(cause: Cause, cluster: Cluster) -> bool:
    """Whether what asked for it would be in sight, if it were there: after a start it takes a moment until it is."""
    served = cluster.kinds.get(KindRef(cause.api_version, cause.kind))
    if not isinstance(served, Served):
        return isinstance(served, Missing) and not served.is_off
    name = served.collection
    return name in cluster.others and name not in cluster.absent and all(one.kind != name for one in cluster.blind)


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


def _of_its_node(order: Order, incident: NodeIncident | None) -> Order:
    """What was begun for one node is undone for that one, whichever its cause names now: commands and proof are about it."""
    node = incident.spec.node if incident is not None and incident.is_open else ""
    if incident is None or not node or order.node in ("", node):
        return order
    return msgspec.structs.replace(_left_over(incident), withdrawn=f"{incident.spec.cause} names another node now")


def _plan_one(order: Order, report: Report, incident: NodeIncident | None, this: _Pass) -> Fencing:
    cluster = this.cluster
    if incident is not None and order.repeats and not incident.is_open:
        incident = None
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
        hold=lambda: (this.hold_of_begun if _seeks_proof(incident) else this.hold)() or own_node(order, this.rules),
        obstacle=_obstacle(order, this, has_begun=incident.is_out) or _turn(incident, this) or _no_node(incident, this),
    )
    row = next_row(case)
    so = said(case)
    begins = row is not None and row.target is Phase.LOOKING and incident.spec.control_plane
    actions: tuple[Action, ...] = (_enter(case, row, so),) if row is not None else _go_on(case, so)
    # What waits for a person is let go when that is wanted; not when it goes on in this very pass.
    goes_on = row is not None and incident.status.phase is Phase.NEEDS_PERSON
    return Fencing(
        actions=(*actions, *_lock(case, this.rules, row), *(() if goes_on else report(incident, so))),
        nodes=frozenset({order.node}) if order.node and incident.status.phase in _FREEING else frozenset(),
        wake_at=wake_at(case) if row is None else None,
        begins=order.node if begins else "",
    )


def _seeks_proof(incident: NodeIncident) -> bool:
    """Whoever has told its machine to go off, until that is proved. What is freed by the proof waits while most are silent."""
    return incident.is_switched_off and incident.status.proof is None


def _obstacle(order: Order, this: _Pass, *, has_begun: bool) -> Obstacle | None:
    shared = None if has_begun else why_shared(this.readiness, order.node, order.path) or _other_at_work(order, this)
    return shared or obstacle_to(order, this.cluster, this.rules, this.hold, has_begun=has_begun)


def _other_at_work(order: Order, this: _Pass) -> Obstacle | None:
    """A machine may have been asked for under another name, before it was a node. It has one power all the same."""
    machine = machine_of(order.path)
    other = this.by_machine.get(machine) if machine is not None else None
    if other is None or other.spec.cause.uid == order.cause.uid:
        return None
    return Obstacle(
        "OtherIncident", f"{other.spec.cause} is at work on the same machine; see NodeIncident {other.name}"
    )


def _no_node(incident: NodeIncident, this: _Pass) -> Obstacle | None:
    """A Machine says which node it has a moment after it has one, and we may hear of that later than of the order."""
    opened = incident.metadata.creation_timestamp or this.cluster.now
    if incident.spec.node or incident.is_out or this.cluster.now >= opened + NODE_KNOWN_WITHIN:
        return None
    return Obstacle("LookingForNode", "the machine has no node, as far as we know; that is looked at once more")


def _turn(incident: NodeIncident, this: _Pass) -> Obstacle | None:
    """What begins in this pass is not written down yet, and still counts for the control plane."""
    others = this.begins if incident.spec.control_plane and this.begins != incident.spec.node else ""
    return only_one(others) if others else None


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
    obstacle = _obstacle(order, this, has_begun=False)
    cannot = order.path if isinstance(order.path, Obstacle) else order.obstacle
    if cannot is not None and not (order.tells_by_incident and cannot.reason != "NoMachine"):
        # Nothing is opened that could not begin: it would be in the way of others who can do something for the node.
        return Fencing(actions=report(None, cannot))
    so = obstacle or Obstacle("Starting", "nothing stands against it")
    opened = opening(order, this.cluster, this.facts, target(there) if there is not None else None)
    return Fencing(actions=(opened, *report(None, so)))


def _enter(case: Case, row: Row, so: Obstacle) -> ReportRemediation:
    """Into the next phase, before anything is done in it."""
    kept = so if row.target in (Phase.NEEDS_PERSON, Phase.RESTING) else None
    message = f"{kept.reason}: {kept.message}" if kept is not None else row.name
    changes = row.also(case)
    if row.target is Phase.CLOSED:
        message = f"{why_closed(case, changes['outcome'])}; {row.name}"
        changes |= ending(case.incident, case.cluster.now)
    if row.target is Phase.FREEING and (lost := lost_words(case)):
        message = f"{row.name}; {lost}"
    changes |= {
        "phase": row.target,
        "since": case.cluster.now,
        "reason": kept.reason if kept is not None else str(row.target),
        "message": (kept.message if kept is not None else message)[:MESSAGE_MAX],
    }
    changes |= {
        "timeline": timeline(case.status, row.target, message, case.cluster.now),
        "conditions": conditions_after(case, row, changes),
    }
    written = _report(case, changes)
    return msgspec.structs.replace(written, tells=news_of(case, row, message))


def _go_on(case: Case, so: Obstacle) -> tuple[Action, ...]:
    """One write of the incident at a time: where a command is about to begin, the words wait for the next pass.

    What failed and rests stays among what is wanted: else its failure would be forgotten, and with it what to say.
    """
    if case.begins_anew:
        return _write(case, so)
    todo = work(case)
    busy = {*case.cluster.failures, *(action.key for action in case.cluster.underway)}
    begins = any(isinstance(action, SwitchPower) and action.key not in busy for action in todo)
    return todo if begins else (*_write(case, so), *todo)


def _write(case: Case, so: Obstacle) -> tuple[ReportRemediation, ...]:
    """What is said of a phase may change while it lasts, and so may what must be known before a node is touched."""
    changes: dict[str, Any] = {}
    if case.status.phase is Phase.CLOSED:
        return ()
    if (so.reason, so.message[:MESSAGE_MAX]) != (case.status.reason, case.status.message):
        changes |= {"reason": so.reason, "message": so.message[:MESSAGE_MAX]}
    if case.begins_anew:
        changes["since"] = case.cluster.now
    if case.status.phase is Phase.POWERING_OFF and case.status.safe_time != (time := safe_time_of(case)):
        changes["safe_time"] = time
    if case.status.phase is Phase.FREEING and not case.is_told:
        changes |= {name: value for name, value in telling(case).items() if getattr(case.status, name) != value}
    tells: tuple[TellEvent, ...] = ()
    if case.status.phase is Phase.FREEING and is_untold(case):
        changes["timeline"] = timeline(case.status, Phase.FREEING, lost_words(case), case.cluster.now)
        tells = news_of_lost(case)
    return (msgspec.structs.replace(_report(case, changes), tells=tells),) if changes else ()


def _report(case: Case, changes: dict[str, Any]) -> ReportRemediation:
    """Whether it may begin depends on all others, so until then it is for whoever admits, and not for its own replica."""
    incident = case.incident
    return ReportRemediation(
        target=target(incident),
        version=incident.metadata.resource_version,
        node=incident.name if incident.is_out else "",
        status={_FIELDS[name]: msgspec.to_builtins(value) for name, value in changes.items()},
    )


def _lock(case: Case, rules: Rules, row: Row | None) -> tuple[Action, ...]:
    """Where no NodeHealthCheck holds the lock of the node for us, we do, until it is over or a person's."""
    order, node = case.order, case.node
    lease = lock_of(order, case.cluster, rules)
    if order.lock_holder != LOCK_HOLDER:
        return ()
    ours = lease is not None and lease.spec.holder_identity == LOCK_HOLDER
    if (row.target if row is not None else case.status.phase) in (Phase.CLOSED, Phase.NEEDS_PERSON):
        return (release(order.node, lease),) if lease is not None and ours else ()
    if node is None or (not ours and not _needs_lock(case, lease)):
        return ()
    ends = ends_at(lease) if lease is not None and ours else None
    if ends is not None and case.cluster.now < ends - LOCK_RENEWED:
        return ()
    claim = Claim(node=node.name, node_uid=node.uid, holder=LOCK_HOLDER, length=LOCK_LENGTH, known=lease)
    return (HoldLock(claim=claim),)


def _needs_lock(case: Case, lease: Lease | None) -> bool:
    """What cannot begin takes nobody's lock away. That it is the node under us is for another replica to say."""
    is_free = lease is None or not is_held(lease, case.cluster.now)
    is_next = case.incident.is_out or case.obstacle is None or case.obstacle.reason in ("Lock", OWN_NODE)
    return is_free and is_next and not case.order.withdrawn
