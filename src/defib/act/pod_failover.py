"""What our own remediator does: hold on to a remediation, delete pods of a node that is really not ready, report."""

from typing import Any

import structlog

from defib.act.accounts import signed
from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import ClaimRead, Done, Failed, Outcome, Stale, Withheld
from defib.kube.client import Deletion, Merge
from defib.kube.errors import Conflict, NotFound
from defib.kube.kinds import CLAIMS, NODE_INCIDENTS, NODES, PODS, Ref
from defib.model.action import MovePod, ReadClaim, ReportRemediation, SetFinalizers, Target
from defib.model.incident import INCIDENT
from defib.model.mandate import Mandate
from defib.model.node import Node

log = structlog.get_logger("act")


async def set_finalizers(means: Means, action: SetFinalizers) -> Outcome:
    meta = _as_judged(action) | {"finalizers": action.finalizers}
    return await _merge(means, action.target, Merge({"metadata": meta}))


async def report_remediation(means: Means, action: ReportRemediation, mandate: Mandate) -> Outcome:
    status = signed(action.status, mandate) if action.target.kind == INCIDENT else action.status
    patch = {"metadata": _as_judged(action), "status": status}
    return await _merge(means, action.target, Merge(patch), subresource="status")


def _as_judged(action: SetFinalizers | ReportRemediation) -> dict[str, object]:
    return {"uid": action.target.uid, "resourceVersion": action.version}


async def _merge(means: Means, target: Target, patch: Merge, *, subresource: str = "") -> Outcome:
    ref = await _where(means, target)
    if ref is None:
        return Stale(f"{target.kind} has another scope now")
    try:
        item = await means.client.patch(ref, patch, subresource=subresource, deadline=REQUEST_SECONDS)
    except NotFound:
        return Stale(f"{target} is gone")
    except Conflict:
        return Stale(f"{target} is newer than what was judged")
    if item.metadata.deletion_timestamp is None:  # without its last finalizer it is gone, whatever this answer shows
        means.note(ref.kind, item)
    return Done(item)


async def _where(means: Means, target: Target) -> Ref[Any] | None:
    """As it is followed, so that what comes back is noted: an incident as one of ours, all others as they are found."""
    if target.kind == INCIDENT:
        return NODE_INCIDENTS.at(target.name)
    return await means.address(target.kind, target.name, target.namespace)


async def move_pod(means: Means, action: MovePod, mandate: Mandate) -> Outcome:
    """Unless it is forced, an ordinary deletion: a kubelet that is alive after all ends the pod in order."""
    node = await means.live_for_many(NODES.at(action.node))
    if why := why_it_stays(node, action):
        return Stale(why)
    if why := means.forbids_start(mandate):
        return Withheld(why)
    ref = PODS.at(action.name, action.namespace)
    how = Deletion(uid=action.uid, grace_seconds=action.grace_seconds)
    try:
        await means.client.delete(ref, how, deadline=REQUEST_SECONDS)
    except (NotFound, Conflict):  # it is gone; a namesake is not our business
        return Done()
    log.info(
        "pod leaves its failed node",
        pod=f"{action.namespace}/{action.name}",
        node=action.node,
        because=action.because,
        forced=action.grace_seconds == 0,
    )
    return Done()


def why_it_stays(node: Node | None, action: MovePod) -> str:
    """What has changed since this was decided; empty when nothing has."""
    if node is None:
        return f"node {action.node} is gone"
    if node.uid != action.node_uid:
        return f"node {action.node} is another one now"
    if not action.taints:
        return f"node {action.node} is ready again" if node.ready == "True" else ""
    if node.ready != "True":
        return f"node {action.node} is not ready any more, which is another matter"
    if action.grace_seconds == 0:
        return f"node {action.node} is alive, and nothing is forced there"
    return "" if node.taints_among(action.taints) else f"node {action.node} has lost its taint"


async def read_claim(means: Means, action: ReadClaim) -> Outcome:
    claim = await means.live(CLAIMS.at(action.name, action.namespace))
    if claim is None:  # it may be made any moment, so this is nothing to be remembered
        return Failed(f"there is no PersistentVolumeClaim {action.namespace}/{action.name}")
    modes = (claim.spec or {}).get("accessModes")
    return ClaimRead(frozenset(mode for mode in modes or () if isinstance(mode, str)))
