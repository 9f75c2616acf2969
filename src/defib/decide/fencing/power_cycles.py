"""Our own remediations as orders, and what is reported back to each: the contract that remediators of medik8s have."""

import msgspec

from defib.decide.entries import target
from defib.decide.fencing.covered import told_shared
from defib.decide.fencing.hosts import host_of_machine, is_on_a_host, other_claimant, target_of_host
from defib.decide.fencing.kinds import MACHINES, are_in_sight
from defib.decide.fencing.machines import Machine, machines_in, replaceable
from defib.decide.fencing.order import Obstacle, Order
from defib.decide.fencing.ours import BY_REMEDIATION, POWER_CYCLE, Ours
from defib.decide.fencing.paths import path_in
from defib.decide.fencing.readiness import SHARED
from defib.decide.status import merged
from defib.model import medik8s
from defib.model.action import Action, ReportRemediation, SetFinalizers, Target
from defib.model.cluster import Cluster
from defib.model.health_check import StatusCondition
from defib.model.incident import NodeIncident, Outcome, Phase
from defib.model.meta import Unstructured
from defib.model.moment import read_moment
from defib.model.power import METAL3, PowerPath
from defib.model.power_cycle import (
    LOCK_HOLDER,
    HandOver,
    Policy,
    PowerCycleStatus,
    read_power_cycle_status,
)
from defib.model.remediation import SILENT_SINCE, read_remediation

PROCESSING = "Processing"
INVALID = "InvalidSpec"
NODE_NOT_FOUND = "NodeNotFound"
NAME_MAX = 253

_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(PowerCycleStatus))


def power_cycle_order(item: Unstructured, cluster: Cluster, ours: Ours = POWER_CYCLE) -> Order:
    remediation = read_remediation(item, ours.remediation)
    name = remediation.node[:NAME_MAX]
    node = cluster.nodes.get(name)
    policy = ours.read(item.spec, name)
    if isinstance(policy, Policy):
        path = path_in(cluster, policy, name, item.namespace)
        path = _claimed_by_another(path, name, cluster) or path
    else:
        path, policy = Obstacle(INVALID, "; ".join(policy)), Policy()
    machine, host = _handed_over(name, policy, cluster)
    return Order(
        cause=target(remediation),
        node=name,
        name=name,
        path=path,
        policy=policy,
        withdrawn=_withdrawn(item),
        is_over=_is_over(item),
        is_held=ours.finalizer in (item.metadata.finalizers or ()),
        obstacle=None if node is not None else Obstacle(NODE_NOT_FOUND, f"there is no node {name}"),
        unless_ready=bool(remediation.owner),
        silent_since=read_moment(remediation.annotations.get(SILENT_SINCE, "")),
        lock_holder=medik8s.holder_of(remediation.owner) if remediation.owner else LOCK_HOLDER,
        machine=machine,
        host=host,
        knows_machine=machine is not None or policy.hand_over is HandOver.PERSON or _has_none(name, cluster),
    )


def _claimed_by_another(path: PowerPath | Obstacle, name: str, cluster: Cluster) -> Obstacle | None:
    if isinstance(path, Obstacle) or path.driver != METAL3:
        return None
    other = other_claimant(path.address, name, cluster)
    return Obstacle(SHARED, told_shared(path, other)) if other else None


def _handed_over(node: str, policy: Policy, cluster: Cluster) -> tuple[Target | None, Target | None]:
    """The Machine that may be deleted when all attempts have failed, and the host that should not be used again."""
    if (going := _going(node, cluster)) is not None:
        host = host_of_machine(going, cluster)
        return going.target, None if isinstance(host, Obstacle) else target_of_host(host)
    machine = replaceable(node, cluster) if policy.hand_over is HandOver.DELETE_MACHINE else None
    if machine is None:
        return None, None
    host = host_of_machine(machine, cluster)
    if isinstance(host, Obstacle):  # a host that cannot be found may be one that nobody could provision again
        return None if is_on_a_host(machine) else machine.target, None
    is_external = (host.spec or {}).get("externallyProvisioned") is True
    return (None, None) if is_external else (machine.target, target_of_host(host))


def _going(node: str, cluster: Cluster) -> Machine | None:
    """The Machine that was handed over already, while it is there: it may no longer say which node it has."""
    incident = cluster.incidents().get(node)
    handed_over = incident.status.machine if incident is not None and incident.is_out else None
    if handed_over is None:
        return None
    return next((machine for machine in machines_in(cluster) if machine.item.uid == handed_over.uid), None)


def _has_none(node: str, cluster: Cluster) -> bool:
    """Whether there is certainly no Machine of this node, not even one that must not be deleted."""
    return all(are_in_sight(one, cluster) for one in MACHINES) and all(one.node != node for one in machines_in(cluster))


def _withdrawn(item: Unstructured) -> str:
    if item.metadata.deletion_timestamp is not None:
        return "the remediation is being deleted"
    return "the time that the NodeHealthCheck gave is up" if medik8s.TIMED_OUT in item.annotations else ""


def _is_over(item: Unstructured) -> bool:
    """It has succeeded, or it has failed as it was written: one that was corrected since may begin anew."""
    condition = read_power_cycle_status(item).condition(medik8s.SUCCEEDED)
    if condition is None or condition.status == "Unknown":
        return False
    return condition.status == "True" or condition.observed_generation == item.metadata.generation


def report_power_cycle(
    item: Unstructured, order: Order, incident: NodeIncident | None, said: Obstacle, cluster: Cluster
) -> tuple[Action, ...]:
    """Hold on to it while we work for it, say how it stands, and let it go when nothing is left to undo."""
    if item.metadata.deletion_timestamp is not None:
        is_done = incident is None or incident.status.phase in (Phase.CLOSED, Phase.NEEDS_PERSON)
        return _let_go(item, order) if is_done else _report(item, order, incident, said, cluster)
    if not order.is_held:
        finalizer = BY_REMEDIATION[order.cause.kind].finalizer
        return (_finalizers(item, order, (*(item.metadata.finalizers or ()), finalizer)),)
    return _report(item, order, incident, said, cluster)


def _let_go(item: Unstructured, order: Order) -> tuple[Action, ...]:
    known, ours = item.metadata.finalizers or (), BY_REMEDIATION[order.cause.kind].finalizer
    others = tuple(one for one in known if one != ours)
    return (_finalizers(item, order, others),) if ours in known else ()


def _finalizers(item: Unstructured, order: Order, finalizers: tuple[str, ...]) -> SetFinalizers:
    return SetFinalizers(
        target=order.cause,
        version=item.metadata.resource_version,
        finalizers=finalizers,
        node=order.name,
    )


def _report(
    item: Unstructured, order: Order, incident: NodeIncident | None, said: Obstacle, cluster: Cluster
) -> tuple[Action, ...]:
    before = read_power_cycle_status(item)
    processing, succeeded = _standing(before, order, incident, said)
    conditions = [
        StatusCondition(type=PROCESSING, status=processing, reason=said.reason, message=said.message),
        StatusCondition(type=medik8s.SUCCEEDED, status=succeeded, reason=said.reason, message=said.message),
    ]
    if incident is not None and incident.status.phase is Phase.REPLACING:
        # A NodeHealthCheck then knows that the node goes for good, and on purpose.
        conditions.append(
            StatusCondition(type=medik8s.PERMANENT_DELETION, status="True", reason=said.reason, message=said.message)
        )
    generation = item.metadata.generation
    after = PowerCycleStatus(
        node=order.node,
        phase=incident.status.phase if incident is not None else before.phase,
        reason=said.message,
        attempt=incident.status.attempt if incident is not None else before.attempt,
        proof=(incident.status.proof.grade if incident.status.proof else "") if incident is not None else before.proof,
        conditions=merged(before.conditions or [], conditions, generation, cluster.now),
    )
    if after == before:
        return ()
    told = msgspec.to_builtins(after)
    return (
        ReportRemediation(
            target=order.cause,
            version=item.metadata.resource_version,
            status={name: told.get(name) for name in _FIELDS},
            node=order.name,
        ),
    )


def _standing(before: PowerCycleStatus, order: Order, incident: NodeIncident | None, said: Obstacle) -> tuple[str, str]:
    """Processing and Succeeded. What was said last about a remediation that is over stays."""
    known = before.condition(medik8s.SUCCEEDED)
    if incident is None and order.is_over and known is not None:
        return "False", known.status
    phase = incident.status.phase if incident is not None else Phase.OPEN
    if phase is Phase.CLOSED and incident is not None:
        return "False", "True" if incident.status.outcome == Outcome.RECOVERED else "False"
    if phase is Phase.NEEDS_PERSON or said.reason == INVALID:
        return "False", "False"
    return "True", "Unknown"
