"""Pods leave a failed node for a NodeHealthCheck: what to do for each PodFailoverRemediation.

    new ──▶ finalizer ──▶ Processing, with the number of pods found ──▶ pods are deleted ──▶ Succeeded
                                    │ brake, self-doubt: says so and waits
                                    ├ pods are left that need a proof: Succeeded is False, so that the next step begins
                                    └ node gone, or time is up: Succeeded is False

Each pass begins anew from what stands in the cluster. Whatever was begun is written down before the first pod is
deleted. Letting go of a remediation that is being deleted waits for nothing: there is nothing to undo.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from defib.decide.doubt import SELF_DOUBT
from defib.decide.entries import target
from defib.decide.failover.pods import Sorted
from defib.decide.failover.reading import read_wish
from defib.decide.failover.sight import Task, failed_ones, judge, not_ready_since, out_of_sight
from defib.decide.failover.todo import NOTHING, Judged, Todo
from defib.decide.failover.words import count, moved_and_waiting, not_deleted, to_move
from defib.decide.rules import INSTANT, LOOK_AGAIN
from defib.decide.status import merged
from defib.model import medik8s
from defib.model.action import MovePod, ReportRemediation, SetFinalizers, TellEvent
from defib.model.cluster import Cluster
from defib.model.failure import Failure
from defib.model.health_check import StatusCondition
from defib.model.incident import Grade
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.pod import Pod, pods_on
from defib.model.pod_failover import FINALIZER, REMEDIATION, FailoverStatus, Wish, read_failover_status
from defib.model.reasons import EventReason
from defib.model.remediation import read_remediation

PROCESSING = "Processing"
STARTED = EventReason.REMEDIATION_STARTED
FINISHED = EventReason.REMEDIATION_FINISHED
TIMED_OUT = EventReason.REMEDIATION_TIMED_OUT
NODE_NOT_FOUND = EventReason.NODE_NOT_FOUND
NODE_READY = EventReason.NODE_READY
DELETION_FAILED = EventReason.DELETION_FAILED
INVALID = EventReason.INVALID_SPEC
PROOF_NEEDED = EventReason.PROOF_NEEDED  # by which a NodeHealthCheck goes on to its next step at once
WAITING = EventReason.WAITING_FOR_PROOF  # which a person can give

NAME_MAX = 253  # no node has a longer name; whatever somebody wrote, the status can be written

_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(FailoverStatus))


Hold = Callable[[], tuple[str, str]]
"""Why no pod may be deleted now, as a reason and a sentence; both are empty when nothing speaks against it."""


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """One remediation, its node, and what it has written down so far."""

    cluster: Cluster
    item: Unstructured
    node_name: str
    node: Node | None
    status: FailoverStatus
    hold: Hold
    judged: Judged | None

    @property
    def succeeded(self) -> bool:
        condition = self.status.condition(medik8s.SUCCEEDED)
        return condition is not None and condition.status == "True"

    def said(self, reason: str) -> bool:
        condition = self.status.condition(medik8s.SUCCEEDED)
        return condition is not None and condition.reason == reason

    @property
    def is_same_failure(self) -> bool:
        """Whether what is written down is about the node as it is now, and not about an earlier failure of it."""
        assert self.node is not None
        known = (self.status.node_uid, self.status.not_ready_since)
        return known == (self.node.uid, not_ready_since(self.node))

    @property
    def failed_at(self) -> datetime:
        """Since then nobody puts a pod on the node that minds. A time of a node whose clock is ahead is no time."""
        now = self.cluster.now
        since = not_ready_since(self.node) if self.node is not None else None
        moments = (self.item.metadata.creation_timestamp, since)
        return max((moment for moment in moments if moment is not None and moment <= now), default=now)


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the conditions shall say. Without counts, those that were written before stay."""

    processing: bool
    succeeded: str
    reason: str
    message: str
    found: int | None = None
    moved: int | None = None
    waiting: int | None = None
    left: int | None = None


def plan_remediation(item: Unstructured, cluster: Cluster, hold: Hold, before: Todo) -> Todo:
    name = (item.annotations.get(medik8s.NODE_NAME) or item.name)[:NAME_MAX]
    case = _Case(
        cluster=cluster,
        item=item,
        node_name=name,
        node=cluster.nodes.get(name),
        status=read_failover_status(item),
        hold=hold,
        judged=before.judged.get(item.uid),
    )
    return _plan_one(case)


def _plan_one(case: _Case) -> Todo:
    if case.item.metadata.deletion_timestamp is not None:
        return _let_go(case)
    if _is_done(case):
        return NOTHING
    if medik8s.TIMED_OUT in case.item.annotations:
        if case.said(PROOF_NEEDED):
            return NOTHING  # that is why it was given up, and says more
        message = "its time was up before all pods had left; nothing more is done"
        return _report(case, _Said(processing=False, succeeded="False", reason=TIMED_OUT, message=message))
    if any(blindness.kind == "nodes" for blindness in case.cluster.blind):
        return NOTHING  # nobody knows whether the node is there, or how it is
    return _plan_for(case, case.node)


def _plan_for(case: _Case, node: Node | None) -> Todo:
    if node is None or case.status.node_uid not in ("", node.uid):
        message = f"node {case.node_name} is gone; Kubernetes removes its pods"
        return _report(case, _Said(processing=False, succeeded="False", reason=NODE_NOT_FOUND, message=message))
    if node.ready == "True":
        message = f"node {node.name} is ready, so its pods stay"
        return _report(case, _Said(processing=False, succeeded="Unknown", reason=NODE_READY, message=message))
    plan = _hold_on(case) if FINALIZER not in _finalizers(case) else _looking(case, node) or _moving(case, node)
    return msgspec.structs.replace(plan, nodes=frozenset({node.name}))


def _is_done(case: _Case) -> bool:
    """It has done what it can, unless the node has come back and failed once more."""
    return case.succeeded and (case.node is None or case.node.ready == "True" or case.is_same_failure)


def _finalizers(case: _Case) -> tuple[str, ...]:
    return tuple(case.item.metadata.finalizers or ())


def _let_go(case: _Case) -> Todo:
    others = tuple(one for one in _finalizers(case) if one != FINALIZER)
    return Todo(actions=(_set_finalizers(case, others),)) if FINALIZER in _finalizers(case) else NOTHING


def _hold_on(case: _Case) -> Todo:
    """Until somebody wants to end it, it must not vanish under our hands. Its pods come into sight meanwhile."""
    return Todo(actions=(_set_finalizers(case, (*_finalizers(case), FINALIZER)),))


def _set_finalizers(case: _Case, finalizers: tuple[str, ...]) -> SetFinalizers:
    return SetFinalizers(
        target=target(read_remediation(case.item, REMEDIATION)),
        version=case.item.metadata.resource_version,
        finalizers=finalizers,
        node=case.node_name,
    )


def _looking(case: _Case, node: Node) -> Todo | None:
    """While its pods are not in sight, or something holds everything back; None when we can go on."""
    unseen = out_of_sight(node.name, case.cluster)
    if unseen is not None and not unseen.why:
        return Todo(wake_at=unseen.until + INSTANT) if unseen.until is not None else NOTHING
    reason, message = case.hold()
    if unseen is not None and not reason:
        reason, message = SELF_DOUBT, unseen.why
    if not reason:
        return None
    plan = _report(case, _Said(processing=True, succeeded="Unknown", reason=reason, message=message))
    return msgspec.structs.replace(plan, wake_at=case.cluster.now + LOOK_AGAIN) if reason == SELF_DOUBT else plan


def _moving(case: _Case, node: Node) -> Todo:
    wish = read_wish(case.item.spec)
    if not isinstance(wish, Wish):
        return _report(case, _Said(processing=False, succeeded="False", reason=INVALID, message="; ".join(wish)))
    task = Task(
        who=f"{REMEDIATION.name} {case.item.key}",
        node=node,
        wish=wish,
        since=not_ready_since(node) or case.failed_at,
        failed_at=case.failed_at,
    )
    judged = judge(task, case.cluster.all_of(pods_on(node.name), Pod), case.cluster, case.judged)
    pods = judged.sorted
    plan = NOTHING if pods.unsure else _moved(case, judged, wish)
    return msgspec.structs.replace(
        plan, actions=(*plan.actions, *pods.unread), judged={case.item.uid: judged}, claims=pods.claims
    )


def _moved(case: _Case, judged: Judged, wish: Wish) -> Todo:
    pods, moves = judged.sorted, judged.moves
    known = case.status.found if case.is_same_failure else None
    found = len(moves) if known is None else known
    if not moves:
        return _report(case, _finished(pods, found, wish))
    report = _report(case, _working(pods, found, failed_ones(moves, case.cluster.failures)))
    is_written = known is not None and _is_working(case)  # first it is written down, then it is done
    return Todo(actions=(*report.actions, *moves)) if is_written else report


def _is_working(case: _Case) -> bool:
    condition = case.status.condition(PROCESSING)
    return condition is not None and condition.status == "True" and condition.reason in (STARTED, DELETION_FAILED)


def _working(pods: Sorted, found: int, failures: list[tuple[MovePod, Failure]]) -> _Said:
    reason, message = STARTED, to_move(pods)
    if failures:
        reason = DELETION_FAILED
        message = not_deleted(failures)
    return _Said(
        processing=True,
        succeeded="Unknown",
        reason=reason,
        message=message,
        found=found,
        moved=max(found - len(pods.movable), 0),
        waiting=len(pods.waiting),
        left=pods.left,
    )


def _finished(pods: Sorted, found: int, wish: Wish) -> _Said:
    """What waits for a proof that nobody here can give has failed as far as this goes: the next step may begin."""
    said = _Said(
        processing=False,
        succeeded="True",
        reason=FINISHED,
        message=f"{count(found)} moved{pods.rest}",
        found=found,
        moved=found,
        waiting=len(pods.waiting),
        left=pods.left,
    )
    if not pods.waiting:
        return said
    by_person = Grade.PERSON in wish.accepts
    message = moved_and_waiting(found, pods, wish)
    return msgspec.structs.replace(
        said,
        processing=by_person,
        succeeded="Unknown" if by_person else "False",
        reason=WAITING if by_person else PROOF_NEEDED,
        message=message,
    )


def _report(case: _Case, said: _Said) -> Todo:
    """Progress alone is no news: a write for every pod that leaves would cost more than moving them."""
    before, now = case.status, case.cluster.now
    conditions = [
        StatusCondition(type=PROCESSING, status=str(said.processing), reason=said.reason, message=said.message),
        StatusCondition(type=medik8s.SUCCEEDED, status=said.succeeded, reason=said.reason, message=said.message),
    ]
    after = msgspec.structs.replace(_about(case), node=case.node_name)
    if said.found is not None:
        after = msgspec.structs.replace(after, found=said.found, moved=said.moved, waiting=said.waiting, left=said.left)
    is_told = all(_says(before, condition) for condition in conditions)
    if is_told and _failure(before) == _failure(after) and (before.found is None) == (after.found is None):
        return NOTHING
    generation = case.item.metadata.generation
    after = msgspec.structs.replace(after, conditions=merged(before.conditions or [], conditions, generation, now))
    told = msgspec.to_builtins(after)
    return Todo(
        actions=(
            ReportRemediation(
                target=target(read_remediation(case.item, REMEDIATION)),
                version=case.item.metadata.resource_version,
                status={name: told.get(name) for name in _FIELDS},
                tells=() if is_told else (_news(case, said),),
                node=case.node_name,
            ),
        )
    )


def _news(case: _Case, said: _Said) -> TellEvent:
    """In the same words as the status."""
    return TellEvent(
        check=case.item.name,
        namespace=case.item.namespace,
        uid=case.item.uid,
        kind=REMEDIATION,
        is_warning=said.succeeded != "True" and said.reason not in (STARTED, NODE_READY),
        reason=said.reason,
        message=f"node {case.node_name}: {said.message}",
        at=case.cluster.now,
        node=case.node_name,
    )


def _about(case: _Case) -> FailoverStatus:
    """What was written down so far, or a fresh page when the node has failed anew."""
    node = case.node
    if node is None or node.ready == "True" or case.is_same_failure or case.status.node_uid not in ("", node.uid):
        return case.status
    return FailoverStatus(node_uid=node.uid, not_ready_since=not_ready_since(node))


def _failure(status: FailoverStatus) -> tuple[str, str, datetime | None]:
    return status.node, status.node_uid, status.not_ready_since


def _says(status: FailoverStatus, wanted: StatusCondition) -> bool:
    told = status.condition(wanted.type)
    return told is not None and (told.status, told.reason) == (wanted.status, wanted.reason)
