"""What is done about an unhealthy machine: a power cycle is asked for, a remediation is made, or it is replaced."""

import copy
from typing import Any

from defib.decide.fencing.order import Obstacle
from defib.decide.machine_health.reading import MachineCheck, target_of
from defib.decide.machine_health.verdicts import Verdict
from defib.model import medik8s
from defib.model.action import EndRemediation
from defib.model.cluster import Cluster, Missing, Served
from defib.model.health_check import KindRef, TemplateRef
from defib.model.machine_action import AskForPowerCycle, MachineAction, Patient, RemediateMachine, ReplaceMachine
from defib.model.meta import Unstructured
from defib.model.metal3 import TRIGGER

NO_CONTROLLER = Obstacle("NoController", "it has no controller that would make another one, so it is not deleted")


def cure_for(verdict: Verdict, check: MachineCheck, cluster: Cluster) -> MachineAction | Obstacle:
    """A machine that has failed never becomes a node, whatever is done to it: it can only be replaced."""
    patient = _patient(verdict, check)
    if check.template is not None and not verdict.is_failed:
        return _remediation(verdict, check.template, patient, cluster)
    if check.asks_for_power_cycles and not verdict.is_failed:
        return AskForPowerCycle(patient=patient, annotation=TRIGGER)
    return ReplaceMachine(patient=patient) if verdict.machine.has_owner else NO_CONTROLLER


def ending(verdict: Verdict, check: MachineCheck, cluster: Cluster) -> tuple[EndRemediation, ...]:
    """Of a remediation that is the machine's own, when that is well again."""
    if check.template is None or not verdict.is_well:
        return ()
    machine = verdict.machine.item
    item = _named(machine.key, check.template.makes, cluster)
    if item is None or item.metadata.deletion_timestamp is not None:
        return ()
    if machine.uid not in {owner.uid for owner in item.metadata.owner_references or ()}:
        return ()
    return (
        EndRemediation(
            check=check.key,
            node=verdict.node_name,
            target=target_of(item, check.template.makes),
            unless=tuple((one.type, one.status) for one in check.conditions),
        ),
    )


def _patient(verdict: Verdict, check: MachineCheck) -> Patient:
    return Patient(
        check=check.target,
        generation=check.item.metadata.generation,
        machine=verdict.machine.target,
        version=verdict.machine.item.metadata.resource_version,
        node="" if verdict.is_failed else verdict.node_name,  # whatever its node says
        node_uid=verdict.node.uid if verdict.node is not None else "",
        because=verdict.because,
        is_control_plane=verdict.is_control_plane,
    )


def _remediation(verdict: Verdict, ref: TemplateRef, patient: Patient, cluster: Cluster) -> RemediateMachine | Obstacle:
    template = _template(ref, cluster)
    if isinstance(template, Obstacle):
        return template
    annotations = {medik8s.TEMPLATE_NAME: ref.name}
    if verdict.node_name:
        annotations[medik8s.NODE_NAME] = verdict.node_name
    machine = patient.machine
    owner = {
        "apiVersion": machine.kind.api_version,
        "kind": machine.kind.name,
        "name": machine.name,
        "uid": machine.uid,
    }
    body: dict[str, Any] = {
        "metadata": {
            "name": machine.name,
            "namespace": machine.namespace,
            "annotations": annotations,
            "ownerReferences": [owner],
        }
    }
    inner = (template.spec or {}).get("template")
    spec = inner.get("spec") if isinstance(inner, dict) else None
    return RemediateMachine(
        patient=patient, kind=ref.makes, body=body | ({"spec": copy.deepcopy(spec)} if spec is not None else {})
    )


def _template(ref: TemplateRef, cluster: Cluster) -> Unstructured | Obstacle:
    for kind in (ref.kind, ref.makes):
        match cluster.kinds.get(kind):
            case None:
                return Obstacle("LookingForTemplate", f"{kind} is being looked for")
            case Missing(why):
                return Obstacle("TemplateNotFound", why)
            case Served(namespaced=False):
                return Obstacle("TemplateInvalid", f"{kind} is not namespaced, as a machine is")
    found = _named(ref.key, ref.kind, cluster)
    return found or Obstacle("TemplateNotFound", f"there is no {ref.kind.name} {ref.key}")


def _named(key: str, kind: KindRef, cluster: Cluster) -> Unstructured | None:
    served = cluster.kinds.get(kind)
    return cluster.all_of(served.collection, Unstructured).get(key) if isinstance(served, Served) else None
