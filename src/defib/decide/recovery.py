"""What to do about a node that is healthy again, or gone, and still has remediations. No gate holds this back."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import msgspec

from defib.decide.admission import APPROVED_BY, APPROVED_UNTIL
from defib.decide.census import Census
from defib.decide.entries import mark, release, stamp, started, target
from defib.decide.ground import Ground
from defib.decide.rejection import REJECTED
from defib.decide.stuck import NOT_REPLACED, STUCK, leaving, replacing
from defib.decide.unhealthy import NodePlan
from defib.decide.view import View, holder
from defib.model import medik8s
from defib.model.action import Action, ClearNodeAnnotation, EndRemediation
from defib.model.duration import say
from defib.model.health_check import StartedRemediation, UnhealthyNode
from defib.model.moment import read_moment
from defib.model.node import Node
from defib.model.remediation import Remediation
from defib.model.verdict import State, Verdict


def plan_recovering(view: View, node: Node) -> NodePlan:
    """Its remediations go at once, after the delay, or when a person says so."""
    actions: list[Action] = []
    waits: list[datetime | None] = []
    for remediation in view.remediations(node.name):
        due = _due(view, node, remediation)
        if remediation.is_deleting:
            continue
        if due is not None and due <= view.now:
            actions.append(_end(view, node, remediation))
            continue
        waits.append(due)
        if due is not None and _healthy_since(remediation) is None:
            actions.append(mark(remediation, {medik8s.HEALTHY_DELAY: stamp(view.now)}))
    recorded = view.recorded.get(node.name)
    delay = leaving(view.remediations(node.name), view.now)
    reason, message = (STUCK, delay.message) if delay.message else ("Recovering", _message(view, waits))
    entry = UnhealthyNode(
        name=node.name,
        remediations=started(view, node.name) if waits else _leaving(view, node.name),
        conditions_healthy_timestamp=(recorded and recorded.conditions_healthy_timestamp) or view.now,
        healthy_delayed=True if waits else None,
        reason=reason,
        message=message,
        since=recorded.since if recorded else None,
    )
    return NodePlan(
        verdict=_verdict(view, node.name, reason, message),
        actions=tuple(actions),
        entry=entry,
        wake_at=min((moment for moment in (*waits, delay.wake_at) if moment is not None), default=None),
    )


def plan_unreadable(view: View, name: str) -> NodePlan:
    """The node is there, and we cannot tell how it is: nothing may be concluded about it."""
    message = "the node cannot be read, so what was begun for it stays as it is"
    entry = UnhealthyNode(name=name, remediations=started(view, name), reason="NodeUnreadable", message=message)
    verdict = Verdict(
        node=name, check=view.check.name, state=State.REMEDIATING, reason="NodeUnreadable", message=message
    )
    return NodePlan(verdict=verdict, entry=entry)


def plan_gone(view: View, name: str) -> NodePlan:
    """The node does not exist any more: its remediations go too, unless that is what their remediator waits for."""
    found = view.remediations(name)
    keep = [remediation for remediation in found if remediation.waits_for_node_deletion]
    check = view.check
    actions = tuple(
        EndRemediation(check=check.name, node=name, target=target(r), node_is_gone=True, generation=check.generation)
        for r in found
        if r not in keep and not r.is_deleting
    )
    reason, message = "NodeGone", "the node is gone; its remediation is being removed"
    if keep:
        message = f"the node was deleted on purpose; {keep[0]} goes when its remediator has succeeded"
    late = ((STUCK, leaving(found, view.now)), (NOT_REPLACED, replacing(keep, view.now)))
    for why, delay in late:
        if delay.message:
            reason, message = why, f"the node is gone; {delay.message}"
            break
    return NodePlan(
        verdict=_verdict(view, name, reason, message),
        actions=actions,
        entry=UnhealthyNode(name=name, remediations=started(view, name), reason=reason, message=message),
        wake_at=min((delay.wake_at for _, delay in late if delay.wake_at is not None), default=None),
    )


def tidy_up(view: View, censuses: Mapping[str, Census]) -> tuple[Action, ...]:
    """What is left of remediations that are over: our locks, and what people wrote on nodes for us.

    `censuses` are those of all checks: what a person wrote is settled when none of them has anything to do there.
    """
    return (*_free_locks(view), *_settled_words(view, censuses))


def _free_locks(view: View) -> list[Action]:
    locks = view.ground.cluster.locks
    if not locks:
        return []
    needed = {medik8s.lock_of(name) for name in (*view.unhealthy, *view.suspect, *view.owned, *view.starting)}
    return [
        release(lease.name.removeprefix("node-"), lease)
        for lease in locks.values()
        if lease.spec.holder_identity == holder(view.check) and lease.name not in needed
    ]


def orphaned_locks(ground: Ground, checks: Collection[str]) -> list[Action]:
    """Locks of checks that do not exist any more, unless something that they made is still there to be seen."""
    cluster = ground.cluster
    if not cluster.locks:
        return []
    unsure = {*cluster.absent, *(one.kind for one in cluster.blind), *(one.kind for one in cluster.unread)}
    if medik8s.CHECKS in unsure:
        return []  # it may well exist
    prefix = medik8s.holder_of("")
    busy = {medik8s.lock_of(node) for node in ground.by_node}
    return [
        release(lease.name.removeprefix("node-"), lease)
        for lease in cluster.locks.values()
        if (lease.spec.holder_identity or "").startswith(prefix)
        and (lease.spec.holder_identity or "").removeprefix(prefix) not in checks
        and lease.name not in busy
    ]


def _settled_words(view: View, censuses: Mapping[str, Census]) -> list[Action]:
    cleared: list[Action] = []
    recorded = frozenset(view.recorded)
    wanted = (
        (view.census.confirmed, medik8s.CONFIRMED_HEALTHY),
        (recorded, APPROVED_UNTIL),
        (recorded, APPROVED_BY),
        (recorded, REJECTED),
    )
    for names, annotation in wanted if view.census.confirmed or recorded else ():
        for name in sorted(names - view.unhealthy.keys() - view.suspect.keys() - view.owned.keys()):
            node = view.census.nodes.get(name)
            if node is not None and annotation in node.annotations and not _concerns(name, view, censuses):
                value = node.annotations[annotation]
                cleared.append(ClearNodeAnnotation(node=name, node_uid=node.uid, annotation=annotation, value=value))
    return cleared


def _concerns(node: str, view: View, censuses: Mapping[str, Census]) -> bool:
    """Whether any check has it ill, or has begun something for it, or is about to."""
    ground = view.ground
    return (
        any(node in census.troubled for name, census in censuses.items() if name != view.check.name)
        or any(node in owned for owned in ground.by_check.values())
        or any(node in nodes for nodes in ground.starting.values())
    )


def _due(view: View, node: Node, remediation: Remediation) -> datetime | None:
    """When this remediation of a healthy node is to go; None when only a person can say."""
    delay = view.check.healthy_delay
    if not delay or medik8s.CONFIRMED_HEALTHY in node.annotations:
        return view.now
    if delay < timedelta():
        return None
    return (_healthy_since(remediation) or view.now) + delay


def _healthy_since(remediation: Remediation) -> datetime | None:
    """As we have written it down; None when nobody has, or it makes no sense."""
    return read_moment(remediation.annotations.get(medik8s.HEALTHY_DELAY, ""))


def _leaving(view: View, node: str) -> list[StartedRemediation] | None:
    """Those that are on their way out. Which of them had run out of time is settled: the node has come back."""
    there = {remediation.uid for remediation in view.remediations(node)}
    told = [one for one in started(view, node) or () if one.resource.uid in there]
    return [msgspec.structs.replace(one, timed_out=None) for one in told] or None


def _message(view: View, waits: list[datetime | None]) -> str:
    if not waits:
        return "the node is healthy again; its remediation is being removed"
    if None in waits:
        return (
            "the node is healthy again; its remediation stays until a person sets the annotation "
            f"{medik8s.CONFIRMED_HEALTHY} on the node"
        )
    assert view.check.healthy_delay is not None
    return f"the node is healthy again; its remediation goes when that has been so for {say(view.check.healthy_delay)}"


def _end(view: View, node: Node, remediation: Remediation) -> EndRemediation:
    """A node that shows trouble all the same is left to somebody else, so its trouble does not speak against it."""
    check, is_left = view.check, node.name in view.census.troubled
    unless = () if is_left else tuple((condition.type, condition.status) for condition in check.conditions)
    return EndRemediation(
        check=check.name,
        node=remediation.node,
        target=target(remediation),
        unless=unless,
        generation=check.generation,
    )


def _verdict(view: View, node: str, reason: str, message: str) -> Verdict:
    return Verdict(node=node, check=view.check.name, state=State.RECOVERING, reason=reason, message=message)
