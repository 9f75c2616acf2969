"""What is done to a machine that a MachineHealthCheck finds unhealthy: marked, remediated or replaced.

Before each of them the check, the machine and the node are read live. If anything is no longer as it was judged,
nothing is done.
"""

import structlog

from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import Done, Outcome, Stale, Withheld
from defib.kube.client import Deletion, Merge
from defib.kube.errors import AlreadyExists, Conflict, NotFound
from defib.kube.kinds import NODES, Ref
from defib.model.machine import PAUSED
from defib.model.machine_action import AskForPowerCycle, Patient, RemediateMachine, ReplaceMachine
from defib.model.mandate import Mandate
from defib.model.meta import Unstructured
from defib.model.node import Node

log = structlog.get_logger("act")


async def ask_for_power_cycle(means: Means, action: AskForPowerCycle, mandate: Mandate) -> Outcome:
    patient = action.patient
    ref = await _as_judged(means, patient, mandate)
    if not isinstance(ref, Ref):
        return ref
    meta = {
        "uid": patient.machine.uid,
        "resourceVersion": patient.version,
        "annotations": {action.annotation: ""},
    }
    try:
        marked = await means.client.patch(ref, Merge({"metadata": meta}), deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return _changed(patient)
    means.note(ref.kind, marked)
    log.info("power cycle asked for", machine=str(patient.machine), node=patient.node, check=str(patient.check))
    return Done(marked)


async def remediate_machine(means: Means, action: RemediateMachine, mandate: Mandate) -> Outcome:
    patient = action.patient
    to_make = await means.address(action.kind, patient.machine.name, patient.machine.namespace)
    if to_make is None:
        return Stale(f"{action.kind} has another scope now")
    ref = await _as_judged(means, patient, mandate)
    if not isinstance(ref, Ref):
        return ref
    try:
        made = await means.client.create(
            to_make.kind, action.body, namespace=patient.machine.namespace, deadline=REQUEST_SECONDS
        )
    except AlreadyExists:
        return Stale(f"there is a {action.kind.name} of {patient.machine} already")
    except NotFound:
        means.discovery.forget(to_make.kind)  # the kind is gone, or lives elsewhere now
        raise
    means.note(to_make.kind, made)
    log.info("machine is being remediated", machine=str(patient.machine), node=patient.node, by=action.kind.name)
    return Done(made)


async def replace_machine(means: Means, action: ReplaceMachine, mandate: Mandate) -> Outcome:
    patient = action.patient
    ref = await _as_judged(means, patient, mandate)
    if not isinstance(ref, Ref):
        return ref
    how = Deletion(uid=patient.machine.uid, version=patient.version)
    try:
        await means.client.delete(ref, how, deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return _changed(patient)
    log.info("machine deleted, to be replaced", machine=str(patient.machine), node=patient.node)
    leaving = await means.live(ref)
    if leaving is not None and leaving.uid == patient.machine.uid:
        means.note(ref.kind, leaving)  # the next plan must see that it leaves, before it judges another one
    return Done(leaving)


def _changed(patient: Patient) -> Stale:
    return Stale(f"{patient.machine} has changed in between")


async def _as_judged(means: Means, patient: Patient, mandate: Mandate) -> Ref[Unstructured] | Stale | Withheld:
    """Where the machine is, if nothing has changed since it was judged and we may still act; the node is read last."""
    check = await means.address(patient.check.kind, patient.check.name, patient.check.namespace)
    machine = await means.address(patient.machine.kind, patient.machine.name, patient.machine.namespace)
    if check is None or machine is None:
        return Stale(f"{patient.check.kind} or {patient.machine.kind} has another scope now")
    if why := why_not_asked(await means.live(check), patient):
        return Stale(why)
    live = await means.live(machine)
    if live is None or (live.uid, live.metadata.resource_version) != (patient.machine.uid, patient.version):
        return _changed(patient)
    if patient.node and (why := why_not_ill(await means.live(NODES.at(patient.node)), patient)):
        return Stale(why)
    why = means.forbids_start(mandate)
    return Withheld(why) if why else machine


def why_not_asked(check: Unstructured | None, patient: Patient) -> str:
    """What speaks against acting for this check; empty when nothing does."""
    if check is None or check.uid != patient.check.uid or check.metadata.deletion_timestamp is not None:
        return f"{patient.check} is gone"
    if PAUSED in check.annotations:
        return f"{patient.check} is paused"
    return f"{patient.check} was edited in between" if check.metadata.generation != patient.generation else ""


def why_not_ill(node: Node | None, patient: Patient) -> str:
    """What is otherwise about the node than it was judged; empty when nothing is."""
    if not patient.node_uid:
        return "" if node is None else f"node {patient.node} is there"
    if patient.because is None:
        return ""  # its machine is the reason, whatever the node says
    if node is None or node.uid != patient.node_uid:
        return f"node {patient.node} is gone, or another one"
    shown = node.condition(patient.because.type)
    if shown is None or (shown.status, shown.last_transition_time) != (patient.because.status, patient.because.since):
        return f"{patient.because.type} of node {patient.node} has changed"
    return ""
