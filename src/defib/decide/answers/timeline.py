"""What happened to a node, in the order in which it happened: from its incidents, its checks, its remediations and Events.

Each of them knows a part. What two of them tell in the same words is told once.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from defib.decide.accounts.timeline import timeline as opened_with
from defib.decide.answers.told import Told
from defib.decide.explain import remediations_of
from defib.decide.plan import Plan
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.health_check import UnhealthyNode
from defib.model.incident import INCIDENTS, EntryKind, NodeIncident
from defib.model.meta import Resource, Unstructured, Wire
from defib.model.moment import is_sensible, read_moment

BEFORE = timedelta(minutes=15)  # what led to an incident is part of it
AFTER = timedelta(minutes=5)
SAME_MOMENT = timedelta(seconds=2)  # an Event, a status and a record of one thing are written one after the other
EVENT = "event"


class Happening(Told, frozen=True, kw_only=True):
    """`kind` is evidence, gate, decision, action, proof, end or event; `by` is who, empty where nobody knows."""

    at: datetime
    kind: str
    by: str
    message: str
    source: str  # where it stands
    is_warning: bool = False


class _Involved(Wire, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Source(Wire, frozen=True):
    component: str = ""
    host: str = ""


class _Series(Wire, frozen=True):
    count: int | None = None


class Event(Resource, frozen=True):
    """An Event of Kubernetes, as far as it tells who did what to what, and when."""

    involved_object: _Involved = _Involved()
    type: str = ""
    reason: str = ""
    message: str = ""
    source: _Source = _Source()
    reporting_component: str = ""
    reporting_instance: str = ""
    first_timestamp: datetime | None = None
    event_time: datetime | None = None
    count: int | None = None
    series: _Series | None = None


def incidents_about(node: str, cluster: Cluster) -> list[NodeIncident]:
    return [one for one in cluster.all_of(INCIDENTS, NodeIncident).values() if (one.spec.node or one.name) == node]


def happenings(
    node: str, cluster: Cluster, plan: Plan, events: Iterable[Event], only: NodeIncident | None = None
) -> tuple[Happening, ...]:
    """By time. `only`: what belongs to this incident and its time, instead of all that is known."""
    incidents = [only] if only else incidents_about(node, cluster)
    causes = frozenset(str(incident.spec.cause) for incident in incidents)  # whose beginnings the incidents tell
    told = [
        *(one for incident in incidents for one in _of_incident(incident)),
        *_of_node(node, cluster),
        *_of_checks(node, plan, causes),
        *_of_remediations(node, cluster, plan, causes),
        *(one for event in events for one in _of_event(event)),
    ]
    first, last = _span(only, cluster.now)
    kept = (one for one in told if is_sensible(one.at) and first <= one.at <= last)
    return tuple(_once(sorted(kept, key=lambda one: one.at)))


def _span(incident: NodeIncident | None, now: datetime) -> tuple[datetime, datetime]:
    last = now + AFTER  # clocks differ
    if incident is None:
        return datetime.min.replace(tzinfo=now.tzinfo), last
    begun = min((one for one in (incident.spec.unhealthy_since, incident.opened) if one is not None), default=now)
    closed = incident.status.closed_at
    return begun - BEFORE, closed + AFTER if closed is not None and not incident.is_open else last


def _once(told: Iterable[Happening]) -> Iterator[Happening]:
    """Of two that say the same, the first; whoever tells it later only repeats it."""
    said: dict[str, datetime] = {}
    for one in told:
        words = one.message.removeprefix(medik8s.EVENT_PREFIX)
        if words not in said or one.at - said[words] > SAME_MOMENT:
            yield one
        said[words] = one.at


def _of_incident(incident: NodeIncident) -> Iterator[Happening]:
    spec, status, source = incident.spec, incident.status, f"NodeIncident {incident.name}"
    entries = opened_with(incident) if incident.is_account else status.timeline or ()
    for entry in entries:
        message = f"{entry.phase}: {entry.message}" if entry.phase else entry.message
        yield Happening(at=entry.at, kind=entry.kind or EntryKind.ACTION, by=entry.by, message=message, source=source)
    if not incident.is_account:
        yield from _opening(incident, source)
    if spec.confirmed_off is not None:
        said = spec.confirmed_off
        words = "confirms that the machine is off"
        yield Happening(at=said.at, kind=EntryKind.PROOF, by=said.by, message=words, source=source)
    if status.proof is not None:
        words = f"the machine is proved to be down, grade {status.proof.grade}: {status.proof.how}"
        yield Happening(at=status.proof.at, kind=EntryKind.PROOF, by=status.proof.by, message=words, source=source)


def _opening(incident: NodeIncident, source: str) -> Iterator[Happening]:
    """What was known when it was opened, of one whose timeline does not begin with it."""
    spec, opened = incident.spec, incident.opened
    if opened is None:
        return  # nobody wrote down when
    for line in spec.evidence or ():
        at = spec.unhealthy_since or opened
        yield Happening(at=at, kind=EntryKind.EVIDENCE, by=spec.by, message=line, source=source)
    if spec.gates:
        closed = [gate.message for gate in spec.gates if not gate.open]
        passed = ", ".join(gate.name for gate in spec.gates if gate.open)
        words = f"held back by: {'; '.join(closed)}" if closed else f"every gate was open: {passed}"
        yield Happening(at=opened, kind=EntryKind.GATE, by=spec.by, message=words, source=source)


def _of_node(node: str, cluster: Cluster) -> Iterator[Happening]:
    item = cluster.nodes.get(node)
    ready = item.condition("Ready") if item is not None else None
    if ready is None or ready.last_transition_time is None:
        return
    reason = f" ({ready.reason})" if ready.reason else ""
    words, at = f"Ready became {ready.status}{reason}", ready.last_transition_time
    yield Happening(at=at, kind=EntryKind.EVIDENCE, by="Kubernetes", message=words, source=f"Node {node}")


def _of_checks(node: str, plan: Plan, causes: frozenset[str]) -> Iterator[Happening]:
    for name, one in plan.checks.items():
        entry = one.known.status.node(node)
        if entry is not None:
            yield from _of_entry(entry, f"NodeHealthCheck {name}", causes)


def _of_entry(entry: UnhealthyNode, source: str, causes: frozenset[str]) -> Iterator[Happening]:
    if entry.since is not None and entry.message:
        yield Happening(at=entry.since, kind=EntryKind.DECISION, by="Defib", message=entry.message, source=source)
    for one in entry.remediations or ():
        where = f"{one.resource.namespace}/" if one.resource.namespace else ""
        what = f"{one.resource.kind} {where}{one.resource.name}"
        if what in causes:
            continue
        if one.started is not None:
            words = f"{what} is created"
            yield Happening(at=one.started, kind=EntryKind.ACTION, by="Defib", message=words, source=source)
        if one.timed_out is not None:
            words = f"{what} has run out of time"
            yield Happening(
                at=one.timed_out, kind=EntryKind.DECISION, by="Defib", message=words, source=source, is_warning=True
            )


def _of_remediations(node: str, cluster: Cluster, plan: Plan, causes: frozenset[str]) -> Iterator[Happening]:
    """What their remediators say of them."""
    for one in remediations_of(node, cluster, plan):
        source = f"{one.kind.name} {one.key}"
        if one.created is not None and source not in causes:
            by = f"NodeHealthCheck {one.owner}" if one.owner else ""
            yield Happening(at=one.created, kind=EntryKind.ACTION, by=by, message=f"{source} is created", source=source)
        item = next((each for each in cluster.every(one.kind) if each.uid == one.uid), None)
        yield from _of_conditions(item, source) if item is not None else ()
        if one.deleting_since is not None:
            words = f"{source} is being deleted"
            yield Happening(at=one.deleting_since, kind=EntryKind.ACTION, by="", message=words, source=source)


def _of_conditions(item: Unstructured, source: str) -> Iterator[Happening]:
    """Whatever a remediator wrote: what makes no sense counts as not said."""
    listed = item.status.get("conditions") if isinstance(item.status, dict) else None
    for condition in listed if isinstance(listed, list) else ():
        if not isinstance(condition, dict):
            continue
        at = read_moment(str(condition.get("lastTransitionTime", "")))
        if at is None:
            continue
        why = ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
        words = f"{condition.get('type')} is {condition.get('status')}" + (f" ({why})" if why else "")
        yield Happening(at=at, kind=EntryKind.ACTION, by="its remediator", message=words, source=source)


def _of_event(event: Event) -> Iterator[Happening]:
    at = event.event_time or event.first_timestamp or event.metadata.creation_timestamp
    if at is None:
        return
    times = (event.series.count if event.series is not None else None) or event.count or 1
    again = f" ({times} times)" if times > 1 else ""
    by = event.reporting_instance or event.reporting_component or event.source.component
    about = event.involved_object
    yield Happening(
        at=at,
        kind=EVENT,
        by=by,
        message=f"{event.message.removeprefix(medik8s.EVENT_PREFIX)}{again}",
        source=f"Event {event.reason} of {about.kind} {about.name}",
        is_warning=event.type == "Warning",
    )
