"""Metal3Remediations of Cluster API's Metal3 provider, as orders; and what is written back, in the words of its CRD.

Its status has room for a phase and two numbers only, so what stands in the way is told in an annotation.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.fencing.hosts import (
    NOT_ONLINE,
    host_of_machine,
    host_of_node,
    obstacle_of_host,
    target_of_host,
    way_to,
)
from defib.decide.fencing.kinds import CLUSTER_API, OPENSHIFT
from defib.decide.fencing.machine_annotation import HOST_OFF_WITHIN, HOST_ON_WITHIN
from defib.decide.fencing.machines import (
    BECAME_NODE,
    Machine,
    is_misnamed,
    is_replaceable,
    machines_in,
    node_of,
    obstacle_of,
    text_in,
)
from defib.decide.fencing.order import Obstacle, Order
from defib.decide.fencing.power_cycles import INVALID
from defib.decide.field import Field, Problems
from defib.model import medik8s
from defib.model.action import Action, MarkRemediation, ReportRemediation, SetFinalizers, Target
from defib.model.cluster import Cluster
from defib.model.duration import read_duration
from defib.model.health_check import KindRef
from defib.model.incident import NodeIncident, Outcome, Phase
from defib.model.meta import Unstructured
from defib.model.power import PowerPath
from defib.model.power_cycle import LOCK_HOLDER, HandOver, Policy
from defib.model.remediation import read_remediation

FINALIZER = "metal3remediation.infrastructure.cluster.x-k8s.io"
KEY = "reboot.metal3.io/metal3-remediation-"  # and the UID behind it
REASON = "defib.dev/reason"  # on the remediation: why it does not go on
NO_MACHINE = "NoMachine"

RUNNING, WAITING, DELETING, FAILED = "Running", "Waiting", "Deleting machine", "Failed"
RETRIES, RETRIES_MAX = 1, 1000
TIMEOUT, TIMEOUT_LEAST, TIMEOUT_MOST = timedelta(seconds=600), timedelta(seconds=100), timedelta(hours=24)
RETRY_PAUSE = timedelta(seconds=1)  # the timeout is the pause

_PHASES = {
    Phase.OPEN: RUNNING,
    Phase.LOOKING: RUNNING,
    Phase.TESTING: RUNNING,
    Phase.POWERING_OFF: RUNNING,
    Phase.FREEING: RUNNING,
    Phase.REPLACING: DELETING,
    Phase.NEEDS_PERSON: FAILED,
}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What a remediation is about."""

    host: Unstructured | Obstacle
    machine: Machine | None = None
    node: str = ""


def metal3_order(kind: KindRef, item: Unstructured, cluster: Cluster) -> Order:
    incidents = [one for one in cluster.incidents().values() if one.spec.cause.uid == item.uid]
    incident = next((one for one in incidents if one.is_open), None)
    subject = _subject(item, cluster)
    name = node_of(subject.node, incident)
    policy = read_strategy(item.spec)
    path = way_to(subject.host, f"{KEY}{item.uid}") if isinstance(policy, Policy) else policy
    machine, host = _to_hand_over(subject, incident, cluster)
    owner = read_remediation(item, kind).owner
    return Order(
        cause=_target(kind, item),
        node=name,
        name=incident.name if incident is not None else name or _incident_name(subject, item),
        path=path,
        policy=policy if isinstance(policy, Policy) else Policy(),
        withdrawn=_withdrawn(item) or (BECAME_NODE if is_misnamed(subject.node, incident) else ""),
        repeats=not _withdrawn(item) and bool(incidents and name) and all(map(_was_misnamed, incidents)),
        is_over=_is_over(item),
        is_held=FINALIZER in (item.metadata.finalizers or ()) or bool(incidents) or _is_invalid(path),
        obstacle=_obstacle(subject, name, cluster),
        tells_by_incident=True,
        unless_ready=bool(owner),
        lock_holder=medik8s.holder_of(owner) if owner else LOCK_HOLDER,
        machine=machine,
        host=host,
    )


def read_strategy(spec: Any) -> Policy | Obstacle:
    """What is asked for; or what is wrong with it, as the provider's webhook would have said."""
    problems = Problems()
    strategy = Field("spec", spec, problems)["strategy"]
    if strategy.is_given:
        strategy.is_a(dict)
    if strategy["type"].value not in (None, "", "Reboot"):
        strategy["type"].wrong("must be Reboot")
    limit = strategy["retryLimit"]
    retries = limit.whole(1, RETRIES_MAX) if limit.is_given else RETRIES
    timeout = _timeout(strategy)
    if problems.sentences:
        return Obstacle(INVALID, "; ".join(problems.sentences))
    return Policy(
        attempts=(retries or RETRIES) + 1,
        backoff=RETRY_PAUSE,
        off_within=HOST_OFF_WITHIN,
        on_within=HOST_ON_WITHIN,
        back_within=timeout,
        hand_over=HandOver.DELETE_MACHINE,
    )


def _timeout(strategy: Field) -> timedelta:
    """Seconds in v1beta2, a duration in v1beta1; 0 is as if nothing was said."""
    seconds, text = strategy["timeoutSeconds"], strategy["timeout"]
    if seconds.is_given:
        number = seconds.whole(0, int(TIMEOUT_MOST.total_seconds()))
        length, field = timedelta(seconds=number or 0), seconds
    elif text.is_given:
        try:
            length, field = read_duration(text.value), text
        except ValueError as error:
            text.wrong(str(error))
            return TIMEOUT
    else:
        return TIMEOUT
    if length and not TIMEOUT_LEAST <= length <= TIMEOUT_MOST:
        field.wrong(f"must be from {TIMEOUT_LEAST.total_seconds():g} s to {TIMEOUT_MOST.total_seconds():g} s")
    return length or TIMEOUT


def _subject(item: Unstructured, cluster: Cluster) -> Subject:
    """The Machine that owns it; or the node that a NodeHealthCheck made it for, and its Machine, if it has one."""
    owners = {
        one.uid
        for one in item.metadata.owner_references or ()
        if one.kind == "Machine" and _is_of_machines(one.api_version)
    }
    node = item.annotations.get(medik8s.NODE_NAME, "")
    for machine in machines_in(cluster):
        if machine.item.namespace != item.namespace:
            continue
        if machine.item.uid in owners or (not owners and node and machine.node == node):
            return Subject(host=host_of_machine(machine, cluster), machine=machine, node=machine.node)
    if node and not owners:
        return Subject(host=host_of_node(cluster.nodes.get(node), item.namespace, cluster), node=node)
    why = "its Machine is not there" if owners else f"it has no Machine as owner, and no annotation {medik8s.NODE_NAME}"
    return Subject(host=Obstacle(NO_MACHINE, why))


def _is_of_machines(api_version: str) -> bool:
    return api_version.partition("/")[0] in (OPENSHIFT, CLUSTER_API)


def _incident_name(subject: Subject, item: Unstructured) -> str:
    return subject.machine.incident if subject.machine is not None else f"{item.name[:200].rstrip('-.')}.{item.uid}"


def _obstacle(subject: Subject, name: str, cluster: Cluster) -> Obstacle | None:
    found = obstacle_of_host(subject.host)
    if found is not None or subject.machine is None:
        return found
    return obstacle_of(subject.machine, cluster.nodes.get(name))


def _to_hand_over(
    subject: Subject, incident: NodeIncident | None, cluster: Cluster
) -> tuple[Target | None, Target | None]:
    machine, host = subject.machine, subject.host
    is_going = incident is not None and incident.status.phase is Phase.REPLACING
    if machine is None or not (is_going or is_replaceable(machine, host, cluster.nodes.get(subject.node))):
        return None, None
    return machine.target, None if isinstance(host, Obstacle) else target_of_host(host)


def _was_misnamed(incident: NodeIncident) -> bool:
    """Closed before anything was done, since it was about no node: another one is opened, which is."""
    status = incident.status
    return status.outcome == Outcome.CANCELLED and not incident.spec.node and status.command is None


def _withdrawn(item: Unstructured) -> str:
    if item.metadata.deletion_timestamp is not None:
        return "the remediation is being deleted"
    return "the time that the NodeHealthCheck gave is up" if medik8s.TIMED_OUT in item.annotations else ""


def _is_over(item: Unstructured) -> bool:
    """It has had its power cycles, and was let go. One that was refused may begin when it is corrected."""
    is_let_go = FINALIZER not in (item.metadata.finalizers or ())
    return is_let_go and text_in(item.status, "phase") in (WAITING, DELETING)


def _is_invalid(path: PowerPath | Obstacle) -> bool:
    return isinstance(path, Obstacle) and path.reason == INVALID


def report_metal3(
    kind: KindRef, item: Unstructured, order: Order, incident: NodeIncident | None, so: Obstacle
) -> tuple[Action, ...]:
    """Hold on to it while we work for it, say how it stands, and let it go as soon as nothing is left to undo."""
    target, meta = _target(kind, item), item.metadata
    held = tuple(meta.finalizers or ())
    kept = tuple(one for one in held if one != FINALIZER)
    let_go = (
        (SetFinalizers(target=target, version=meta.resource_version, finalizers=kept, node=order.name),)
        if kept != held
        else ()
    )
    if meta.deletion_timestamp is not None:
        is_done = incident is None or incident.status.phase in (Phase.CLOSED, Phase.NEEDS_PERSON)
        return let_go if is_done else _told(target, item, order, incident, so)
    if incident is None and order.is_over:
        return ()
    if not order.is_held:
        return (
            SetFinalizers(target=target, version=meta.resource_version, finalizers=(*held, FINALIZER), node=order.name),
        )
    told = _told(target, item, order, incident, so)
    return told or (let_go if incident is not None and not incident.is_open else ())


def _told(
    target: Target, item: Unstructured, order: Order, incident: NodeIncident | None, so: Obstacle
) -> tuple[Action, ...]:
    known = item.status or {}
    begun, attempt = _began(incident), incident.status.attempt if incident is not None else 1
    wanted: dict[str, Any] = {
        "phase": _phase(incident, so),
        "retryCount": attempt - 1 or None,  # its CRD has no room for a zero
        "lastRemediated": f"{begun:%Y-%m-%dT%H:%M:%SZ}" if begun is not None else known.get("lastRemediated"),
    }
    changed = {name: value for name, value in wanted.items() if known.get(name) != value}
    why = _why(incident, so)
    said: tuple[Action, ...] = ()
    if item.annotations.get(REASON) != why:
        said = (MarkRemediation(node=order.name, target=target, annotations={REASON: why}),)
    if not changed:
        return said
    version = item.metadata.resource_version
    return (ReportRemediation(target=target, version=version, status=changed, node=order.name), *said)


def _phase(incident: NodeIncident | None, so: Obstacle) -> str:
    if incident is None or incident.status.phase is Phase.OPEN:
        return FAILED if so.reason in (INVALID, NOT_ONLINE) else RUNNING
    if not incident.is_open and incident.status.outcome == Outcome.REPLACED:
        return DELETING
    return _PHASES.get(incident.status.phase, WAITING)


def _why(incident: NodeIncident | None, so: Obstacle) -> str | None:
    """Only what stands in the way: the rest is in the incident."""
    is_waiting = incident is None or incident.status.phase in (Phase.OPEN, Phase.NEEDS_PERSON)
    return f"{so.reason}: {so.message}" if is_waiting and so.reason not in ("Starting", "Lock") else None


def _began(incident: NodeIncident | None) -> datetime | None:
    """When its last power cycle began."""
    entries = (incident.status.timeline or ()) if incident is not None else ()
    return next((entry.at for entry in reversed(entries) if entry.phase == Phase.LOOKING), None)


def _target(kind: KindRef, item: Unstructured) -> Target:
    return Target(kind=kind, namespace=item.namespace, name=item.name, uid=item.uid)
