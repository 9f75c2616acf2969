"""What is done to nodes, pods and machines around a power cycle. What destroys something looks at the proof, live."""

from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from defib.act.accounts import with_author
from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import Done, Outcome, Stale, Withheld
from defib.kube.client import Deletion, Merge
from defib.kube.errors import AlreadyExists, Conflict, NotFound
from defib.kube.kinds import NODE_INCIDENTS, NODES, PODS, unstructured
from defib.model.action import (
    DeleteAttachment,
    DeleteMachine,
    DeleteNode,
    DropIncident,
    FreePod,
    OpenIncident,
    RestoreNode,
    TaintNode,
    Target,
    UntaintNode,
)
from defib.model.agents import DistrustNode
from defib.model.incident import Phase
from defib.model.mandate import Mandate
from defib.model.node import OUT_OF_SERVICE, OUT_OF_SERVICE_TAINT, TAINTED_BY_US, Node, Taint
from defib.model.pod import DISRUPTED, FREED_BY_US
from defib.model.saved import lacks_cordon, missing, to_save
from defib.model.self_fencing import NEVER_REBOOTED

log = structlog.get_logger("act")

ATTACHMENTS = unstructured("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
TRIES = 4  # a node is written by its kubelet and by controllers all the time; losing a race to them is ordinary
MARK = {"type": DISRUPTED, "status": "True", "reason": FREED_BY_US}


async def open_incident(means: Means, action: OpenIncident, mandate: Mandate) -> Outcome:
    if action.instead_of is not None and not await _drop_closed(means, action.instead_of):
        return Stale(f"{action.instead_of} is another one now")
    try:
        body = with_author(action.body, mandate)
        incident = await means.client.create(NODE_INCIDENTS, body, deadline=REQUEST_SECONDS)
    except AlreadyExists:
        return Stale(f"there is an incident of node {action.node} already")
    means.note(NODE_INCIDENTS, incident)
    log.info("incident opened", node=action.node, cause=str(incident.spec.cause))
    return Done(incident)


async def drop_incident(means: Means, action: DropIncident) -> Outcome:
    return Done() if await _drop_closed(means, action.incident) else Stale(f"{action.incident} is another one now")


async def _drop_closed(means: Means, target: Target) -> bool:
    """A closed incident makes room for the next one."""
    known = await means.live(NODE_INCIDENTS.at(target.name))
    if known is None:
        return True
    if known.uid != target.uid or known.is_open:
        return False
    how = Deletion(uid=target.uid, version=known.metadata.resource_version)
    try:
        await means.client.delete(NODE_INCIDENTS.of(known), how, deadline=REQUEST_SECONDS)
    except NotFound:
        return True
    except Conflict:
        return False
    return True


async def taint_node(means: Means, action: TaintNode, mandate: Mandate) -> Outcome:
    if lost := await _no_proof(means, action.incident, Phase.FREEING, mandate):
        return lost

    def taint(node: Node) -> dict[str, Any] | None:
        taints = list(node.spec.taints or ())
        if any(one.key == OUT_OF_SERVICE for one in taints):
            return None
        now = f"{means.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        ours = _wire([OUT_OF_SERVICE_TAINT])[0] | {"timeAdded": now}
        return {"metadata": {"annotations": {TAINTED_BY_US: now}}, "spec": {"taints": [*_wire(taints), ours]}}

    outcome = await _write_node(means, action.node, action.node_uid, taint)
    log.info("node is out of service", node=action.node, how=type(outcome).__name__)
    return outcome


async def untaint_node(means: Means, action: UntaintNode) -> Outcome:
    def untaint(node: Node) -> dict[str, Any] | None:
        taints = node.spec.taints or ()
        kept = [one for one in taints if one.key != OUT_OF_SERVICE]
        if len(kept) == len(taints) and TAINTED_BY_US not in node.annotations:
            return None
        return {"metadata": {"annotations": {TAINTED_BY_US: None}}, "spec": {"taints": _wire(kept) or None}}

    outcome = await _write_node(means, action.node, action.node_uid, untaint)
    log.info("node is in service again", node=action.node, how=type(outcome).__name__)
    return outcome


async def distrust_node(means: Means, action: DistrustNode) -> Outcome:
    def mark(node: Node) -> dict[str, Any] | None:
        if NEVER_REBOOTED in node.annotations:
            return None
        return {"metadata": {"annotations": {NEVER_REBOOTED: action.since.isoformat(timespec="seconds")}}}

    outcome = await _write_node(means, action.node, action.node_uid, mark)
    log.error("node had not rebooted when it had to be dead", node=action.node, how=type(outcome).__name__)
    return outcome


async def restore_node(means: Means, action: RestoreNode) -> Outcome:
    def restore(node: Node) -> dict[str, Any] | None:
        labels, annotations, taints = missing(node, action.saved)
        spec: dict[str, Any] = {"taints": _wire([*(node.spec.taints or ()), *taints])} if taints else {}
        if lacks_cordon(node, action.saved):
            spec["unschedulable"] = True
        is_whole = not (labels or annotations or spec)
        return None if is_whole else {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}

    return await _write_node(means, action.node, action.node_uid, restore)


async def delete_node(means: Means, action: DeleteNode, mandate: Mandate) -> Outcome:
    if lost := await _no_proof(means, action.incident, Phase.FREEING, mandate):
        return lost
    for _ in range(TRIES):
        node = await means.live(NODES.at(action.node))
        if node is None or node.uid != action.node_uid:
            return Done()
        if to_save(node, action.saved) != action.saved:
            return Stale(f"node {action.node} has something that was not saved yet")
        how = Deletion(uid=node.uid, version=node.metadata.resource_version)
        try:
            await means.client.delete(NODES.of(node), how, deadline=REQUEST_SECONDS)
        except NotFound:
            return Done()
        except Conflict:
            continue
        log.info("node deleted", node=action.node)
        return Done()
    return Stale(f"node {action.node} changes faster than it can be deleted")


async def free_pod(means: Means, action: FreePod, mandate: Mandate) -> Outcome:
    """Marked first: its controller sees that it has failed, and why, and counts it no more."""
    if lost := await _no_proof(means, action.incident, Phase.FREEING, mandate):
        return lost
    # Kubernetes marks the same pods at this moment, because of the taint: whoever loses that race looks again, at once.
    for _ in range(TRIES):
        try:
            if not await _freed(means, action):
                return Done()
        except NotFound:
            return Done()
        except Conflict:
            continue
        log.info("pod freed", pod=f"{action.namespace}/{action.name}", node=action.node)
        return Done()
    return Stale(f"pod {action.namespace}/{action.name} has changed in between")


async def _freed(means: Means, action: FreePod) -> bool:
    """False when it is gone already."""
    ref = PODS.at(action.name, action.namespace)
    pod = await means.live(ref)
    if pod is None or pod.uid != action.uid:
        return False
    if not pod.is_finished:
        message = f"node {action.node} was proved to be down"
        condition = MARK | {"message": message, "lastTransitionTime": f"{means.clock.now():%Y-%m-%dT%H:%M:%SZ}"}
        others = [one for one in pod.status.conditions or () if one.get("type") != DISRUPTED]
        status = {"phase": "Failed", "reason": "NodeFenced", "message": message, "conditions": [*others, condition]}
        meta = {"uid": action.uid, "resourceVersion": pod.metadata.resource_version}
        patch = Merge({"metadata": meta, "status": status})
        await means.client.patch(ref, patch, subresource="status", deadline=REQUEST_SECONDS)
    await means.client.delete(ref, Deletion(uid=action.uid, grace_seconds=0), deadline=REQUEST_SECONDS)
    return True


async def delete_attachment(means: Means, action: DeleteAttachment, mandate: Mandate) -> Outcome:
    """Whoever attached the volume detaches it, and then lets go of the object."""
    if lost := await _no_proof(means, action.incident, Phase.FREEING, mandate):
        return lost
    ref = ATTACHMENTS.at(action.name)
    attachment = await means.live(ref)
    if attachment is None or attachment.uid != action.uid or attachment.metadata.deletion_timestamp is not None:
        return Done()
    if (attachment.spec or {}).get("nodeName") != action.node:
        return Stale(f"attachment {action.name} is of another node")
    try:
        await means.client.delete(ref, Deletion(uid=action.uid), deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):  # this one is gone; a namesake is not our business
        return Done()
    log.info("volume attachment deleted", attachment=action.name, node=action.node)
    return Done()


async def delete_machine(means: Means, action: DeleteMachine, mandate: Mandate) -> Outcome:
    """The host is marked first: without its mark it could be given to the machine that comes instead."""
    if lost := await _no_proof(means, action.incident, Phase.REPLACING, mandate):
        return lost
    if action.host is not None and (lost := await _mark(means, action.host, action.mark)):
        return lost
    machine = await means.address(action.machine.kind, action.machine.name, action.machine.namespace)
    if machine is None:
        return Stale(f"{action.machine} has another scope now")
    live = await means.live(machine)
    if live is None or live.uid != action.machine.uid:
        return Done()
    try:
        await means.client.delete(machine, Deletion(uid=live.uid), deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return Done()
    log.info("machine deleted, to be replaced", machine=str(action.machine), node=action.node)
    return Done()


async def _mark(means: Means, host: Target, mark: tuple[str, str]) -> Stale | None:
    """None when it has the mark, or is not there to be given to anybody."""
    ref = await means.address(host.kind, host.name, host.namespace)
    if ref is None:
        return Stale(f"{host} has another scope now")
    known = await means.live(ref)
    if known is None:
        return None
    if known.uid != host.uid:
        return Stale(f"{host} is another one now")
    meta = {"uid": known.uid, "resourceVersion": known.metadata.resource_version, "annotations": dict((mark,))}
    try:
        await means.client.patch(ref, Merge({"metadata": meta}), deadline=REQUEST_SECONDS)
    except (Conflict, NotFound):
        return Stale(f"{host} has changed in between")
    return None


async def _no_proof(means: Means, incident: Target, phase: Phase, mandate: Mandate) -> Stale | Withheld | None:
    """Whether the incident says, as it is written down now, that we may; None when it does."""
    known = await means.live(NODE_INCIDENTS.at(incident.name))
    if known is None or known.uid != incident.uid or known.status.phase is not phase:
        return Stale(f"{incident} has gone on since")
    if phase is Phase.FREEING and known.status.proof is None:
        return Stale(f"{incident} has no proof that the machine is down")
    why = means.forbids_start(mandate)
    return Withheld(why) if why else None


async def _write_node(means: Means, name: str, uid: str, change: Callable[[Node], dict[str, Any] | None]) -> Outcome:
    """Read, change, write if it is still the same; again when somebody else was faster."""
    for _ in range(TRIES):
        node = await means.live(NODES.at(name))
        if node is None or node.uid != uid:
            return Stale(f"node {name} is gone, or another one")
        patch = change(node)
        if patch is None:
            means.note(NODES, node)
            return Done(node)
        meta = {"uid": uid, "resourceVersion": node.metadata.resource_version, **patch.get("metadata", {})}
        try:
            written = await means.client.patch(
                NODES.of(node), Merge(patch | {"metadata": meta}), deadline=REQUEST_SECONDS
            )
        except Conflict:
            continue
        except NotFound:
            return Stale(f"node {name} is gone")
        means.note(NODES, written)
        return Done(written)
    return Stale(f"node {name} changes faster than it can be written")


def _wire(taints: list[Taint]) -> Any:
    return msgspec.to_builtins(taints)
