"""Starting a remediation: look at the node once more, take its lock, create the resource, and never two of them."""

from typing import Any

import structlog

from defib.act.locks import Locked, give_back, take_lock
from defib.act.means import REQUEST_SECONDS, Means, side_by_side
from defib.act.outcome import Done, Held, Outcome, Stale, Taken, Withheld
from defib.kube.errors import AlreadyExists, NotFound, Refused, ServerFailed, Unreachable
from defib.kube.kinds import LEASES, NODES, Ref, metadata_only
from defib.model import medik8s
from defib.model.action import StartRemediation
from defib.model.cluster import HEARTBEAT_NAMESPACE
from defib.model.mandate import Mandate
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.remediation import Remediation, read_remediation
from defib.model.target import HEARTBEAT, Because

log = structlog.get_logger("act")

MACHINE_GROUP, MACHINE_VERSION, MACHINE_KIND = "machine.openshift.io", "v1beta1", "Machine"


async def start_remediation(means: Means, action: StartRemediation, mandate: Mandate) -> Outcome:
    """All that can be read is read before the first write, the node last of all."""
    ref = await means.address(action.kind, action.body["metadata"]["name"], action.namespace)
    if ref is None:
        return Stale(f"{action.kind} has another scope now")
    body = await _with_machine(means, action) if action.machine else action.body
    node, why = await side_by_side(means.live(NODES.at(action.node)), why_heard(means, action))
    if why := why or why_not_now(node, action):
        return Stale(why)
    if why := means.forbids_start(mandate):
        return Withheld(why)
    locked = await take_lock(means, action.claim)
    if isinstance(locked, Held):
        return locked
    try:
        outcome = await _create(means, action, ref, body, mandate)
    except Refused as error:
        if isinstance(error, NotFound):
            means.discovery.forget(ref.kind)  # its namespace or the kind itself is gone, or lives elsewhere now
        await _undo(means, locked, mandate)
        raise
    if not isinstance(outcome, Done):
        await _undo(means, locked, mandate)
    return outcome


async def why_heard(means: Means, action: StartRemediation) -> str:
    """Of a node that has fallen silent: that it has been heard since; empty when it has not, or was never asked."""
    if action.because.type != HEARTBEAT:
        return ""
    lease = await means.live(LEASES.at(action.node, HEARTBEAT_NAMESPACE))
    if lease is None:
        return f"node {action.node} has no heartbeat any more"
    return "" if lease.spec.renew_time == action.because.since else f"node {action.node} was heard again"


def why_not_now(node: Node | None, action: StartRemediation) -> str:
    """What has changed since this was decided; empty when nothing has."""
    if node is None:
        return f"node {action.node} is gone"
    if node.uid != action.node_uid:
        return f"node {action.node} is another one now"
    if node.labels.get(medik8s.EXCLUDED) == "true":
        return f"node {action.node} is excluded from remediation"
    return "" if action.because.type == HEARTBEAT else _why_changed(node, action.because)


def _why_changed(node: Node, because: Because) -> str:
    shown = node.condition(because.type)
    if shown is None or shown.status != because.status:
        return f"{because.type} of node {node.name} is {shown.status if shown else 'gone'}, not {because.status}"
    if because.since is not None and shown.last_transition_time != because.since:
        return f"{because.type} of node {node.name} has changed in between"
    return ""


async def _with_machine(means: Means, action: StartRemediation) -> dict[str, Any]:
    """The same body, owned by the node's Machine too. Some remediators find their machine in no other way."""
    namespace, _, name = action.machine.rpartition("/")
    found = await means.discovery.find(MACHINE_GROUP, MACHINE_KIND, MACHINE_VERSION)
    machine = await means.client.get(metadata_only(found).at(name, namespace), deadline=REQUEST_SECONDS)
    owner = {"apiVersion": found.api_version, "kind": found.name, "name": machine.name, "uid": machine.uid}
    meta = action.body["metadata"]
    owners = [*(meta.get("ownerReferences") or ()), owner]
    return {**action.body, "metadata": {**meta, "ownerReferences": owners}}


async def _create(
    means: Means, action: StartRemediation, ref: Ref[Unstructured], body: dict[str, Any], mandate: Mandate
) -> Outcome:
    if why := means.forbids_start(mandate):  # taking the lock may have lasted
        return Withheld(why)
    try:
        made = await means.client.create(ref.kind, body, namespace=action.namespace, deadline=REQUEST_SECONDS)
    except AlreadyExists:
        there = await _look(means, action, ref)
        return there or Stale(f"an earlier {action.kind.name} of node {action.node} went in this moment")
    except (ServerFailed, Unreachable):  # it may have been created all the same
        there = await _look(means, action, ref)
        if there is None:
            raise
        return there
    means.note(ref.kind, made)
    return Done(made)


async def _look(means: Means, action: StartRemediation, ref: Ref[Unstructured]) -> Outcome | None:
    """What stands under the name that we wanted, if anything: ours, or somebody else's."""
    there = await means.live(ref)
    if there is None:
        return None
    means.note(ref.kind, there)
    remediation = read_remediation(there, action.kind)
    if (remediation.owner, remediation.node) != (action.check, action.node):
        return Taken(_whose(remediation))
    if remediation.is_deleting:
        return Stale(f"an earlier {remediation} is still being deleted")
    return Done(there)


def _whose(remediation: Remediation) -> str:
    owner = f"{medik8s.CHECK_KIND} {remediation.owner}" if remediation.owner else "somebody else"
    return f"{owner}, for node {remediation.node}"


async def _undo(means: Means, locked: Locked, mandate: Mandate) -> None:
    """A lock that was ours before stays. Without a mandate we write nothing: the next leader knows our locks."""
    if not locked.is_new or means.forbids(mandate):
        return
    if error := await give_back(means, locked):
        log.info("lock not given back", lock=locked.lease.key, why=str(error))
