"""Taking away what dead remediations and dead replicas have left. Each looks once more, live, whether anybody wants it."""

from collections.abc import Callable

import msgspec

from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import Done, MembersRead, Outcome, Stale, Withheld
from defib.kube.client import Deletion, Merge, Scope
from defib.kube.decode import Page
from defib.kube.errors import Conflict, KubeError, NotFound
from defib.kube.kinds import LEASES, NODE_HEALTH_CHECKS, NODE_INCIDENTS, NODES, Kind, R, Ref
from defib.model import medik8s
from defib.model.incident import NodeIncident
from defib.model.leftover import (
    BY_US,
    MANAGED_BY,
    DropMember,
    LeftoverAction,
    LetHostGo,
    MembersSeen,
    ReadMembers,
    TakeTaintOff,
)
from defib.model.mandate import Mandate
from defib.model.meta import Unstructured
from defib.model.metal3 import KEPT_OFF_BY, KEPT_OFF_FOR, REBOOT_HARD, why_no_way
from defib.model.node import TAINTED_BY_US, Node
from defib.model.power import METAL3
from defib.model.target import Target

_CHECK = (medik8s.API_VERSION, medik8s.CHECK_KIND)


async def collect(means: Means, action: LeftoverAction, mandate: Mandate) -> Outcome:
    match action:
        case TakeTaintOff():
            return await take_taint_off(means, action, mandate)
        case LetHostGo():
            return await let_host_go(means, action, mandate)
        case DropMember():
            return await drop_member(means, action)
        case ReadMembers():
            return await read_members(means, action)


async def take_taint_off(means: Means, action: TakeTaintOff, mandate: Mandate) -> Outcome:
    if why := await _why_wanted(means, lambda one: action.node in (one.spec.node, one.name)):
        return Stale(why)
    node = await means.live(NODES.at(action.node))
    ours = node.our_taint if node is not None else None
    if node is None or ours is None or (why := _why_it_stays_out(node, action)):
        return Stale(why or f"node {action.node} has no taint of ours")
    if why := means.forbids(mandate):
        return Withheld(why)
    kept = [one for one in node.spec.taints or () if one is not ours]
    patch = {
        "metadata": {
            "uid": node.uid,
            "resourceVersion": node.metadata.resource_version,
            "annotations": {TAINTED_BY_US: None},
        },
        "spec": {"taints": msgspec.to_builtins(kept) or None},
    }
    try:
        written = await means.client.patch(NODES.of(node), Merge(patch), deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return Stale(f"node {action.node} has changed in between")
    means.note(NODES, written)
    return Done(written)


def _why_it_stays_out(node: Node, action: TakeTaintOff) -> str:
    if node.uid != action.node_uid:
        return f"node {action.node} is another one now"
    return "" if node.ready == "True" else f"node {action.node} is not ready"


async def let_host_go(means: Means, action: LetHostGo, mandate: Mandate) -> Outcome:
    address = f"{action.host.namespace}/{action.host.name}"
    if why := await _why_wanted(means, lambda one: _may_want(one, address, action.node)):
        return Stale(why)
    ref = await means.address(action.host.kind, action.host.name, action.host.namespace)
    host = await means.live(ref) if ref is not None else None
    if ref is None or host is None or host.uid != action.host.uid:
        return Stale(f"{action.host} is gone, or another one")
    if host.annotations.get(KEPT_OFF_BY) != action.kept_off_by:
        return Stale(f"{action.host} no longer says that {action.kept_off_by} is ours")
    if why := means.forbids(mandate):
        return Withheld(why)
    gone: dict[str, None] = {KEPT_OFF_BY: None, KEPT_OFF_FOR: None}
    # Whatever the mark says, only what can be ours goes: an annotation that keeps a host off, as we write it.
    if not why_no_way(address, action.kept_off_by) and host.annotations.get(action.kept_off_by) == REBOOT_HARD:
        gone[action.kept_off_by] = None
    meta = {"uid": host.uid, "resourceVersion": host.metadata.resource_version, "annotations": gone}
    try:
        written = await means.client.patch(ref, Merge({"metadata": meta}), deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return Stale(f"{action.host} has changed in between")
    means.note(ref.kind, written)
    return Done(written)


def _may_want(incident: NodeIncident, address: str, node: str) -> bool:
    """By whichever way it is switched. A host of which nobody knows the node may be anybody's."""
    power = incident.status.power
    if power is not None and power.driver == METAL3:
        return power.address == address
    return incident.may_need_it_off and (not node or node in (incident.spec.node, incident.name))


async def _why_wanted(means: Means, concerns: Callable[[NodeIncident], bool]) -> str:
    """Whether an open incident may stand behind it; empty when none does. One that cannot be read may be any."""
    incidents = await _all_of(means, NODE_INCIDENTS)
    if isinstance(incidents, str):
        return incidents
    found = next((one.name for one in incidents if one.is_open and not one.is_account and concerns(one)), "")
    return f"NodeIncident {found} is open" if found else ""


async def why_owned(means: Means, target: Target, ref: Ref[Unstructured]) -> str:
    """Whether a NodeHealthCheck stands behind a remediation after all; empty when none does."""
    item = await means.live(ref)
    if item is None or item.uid != target.uid:
        return f"{target} is gone"
    checks = await _all_of(means, NODE_HEALTH_CHECKS)
    if isinstance(checks, str):
        return checks
    there = {check.uid for check in checks}
    owners = item.metadata.owner_references or ()
    is_left = [one.uid not in there and (one.api_version, one.kind) == _CHECK for one in owners]
    return "" if is_left and all(is_left) else f"{target} has an owner, or never had a check"


async def _all_of(means: Means, kind: Kind[R]) -> list[R] | str:
    """As they are now, for all who ask in this moment; or why that cannot be told. Then none may be held to be gone."""
    found = await means.reads.ask(kind, lambda: _listed(means, kind))
    if isinstance(found, NotFound):
        return f"the cluster has no {kind.name}s, so nobody can say whose this is"
    if isinstance(found, KubeError):
        raise found
    return f"{kind.name} {found.set_aside[0].key} cannot be read" if found.set_aside else found.items


async def _listed(means: Means, kind: Kind[R]) -> Page[R] | KubeError:
    """A failure is an answer for all too: else each would wait for one of its own, one after the other."""
    try:
        return await means.client.list_all(kind, deadline=REQUEST_SECONDS)
    except KubeError as error:
        return error


async def drop_member(means: Means, action: DropMember) -> Outcome:
    """A replica that is alive after all has renewed it since, and then this is another version."""
    how = Deletion(uid=action.uid, version=action.version)
    try:
        await means.client.delete(LEASES.at(action.name, action.namespace), how, deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):
        return Stale(f"Lease {action.name} is gone, or was renewed")
    return Done()


async def read_members(means: Means, action: ReadMembers) -> Outcome:
    at = means.clock.now()
    scope = Scope(namespace=action.namespace, labels=f"{MANAGED_BY}={BY_US}")
    page = await means.client.list_all(LEASES, scope, deadline=REQUEST_SECONDS)
    return MembersRead(MembersSeen(at, tuple(page.items)))
