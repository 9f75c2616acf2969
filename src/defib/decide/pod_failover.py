"""Pods that can run twice leave a failed node at once: what to do for each PodFailoverRemediation.

    new ──▶ finalizer ──▶ Processing, with the number of pods found ──▶ pods are deleted ──▶ Succeeded
                                    │ brake, self-doubt: says so and waits
                                    └ node gone, or time is up: Succeeded is False

Each pass begins anew from what stands in the cluster. Whatever was begun is written down before the first pod is
deleted. Letting go of a remediation that is being deleted waits for nothing: there is nothing to undo.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache

import msgspec

from defib.decide.doubt import brake_reason, doubts_about
from defib.decide.entries import target
from defib.decide.movable import Sorted, sort_pods
from defib.decide.rules import INSTANT, LOOK_AGAIN, Rules
from defib.decide.status import merged, whole_or_none
from defib.model import medik8s
from defib.model.action import Action, Failure, MovePod, ReportRemediation, SetFinalizers
from defib.model.cluster import Cluster, Served
from defib.model.health_check import StatusCondition
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.pod import Pod, pods_on
from defib.model.pod_failover import FINALIZER, REMEDIATION, FailoverStatus, read_failover_status
from defib.model.remediation import read_remediation

PROCESSING = "Processing"
STARTED = "RemediationStarted"
FINISHED = "RemediationFinished"
TIMED_OUT = "RemediationTimedOut"
NODE_NOT_FOUND = "NodeNotFound"
NODE_READY = "NodeReady"
BRAKE = "Brake"
SELF_DOUBT = "SelfDoubt"
DELETION_FAILED = "DeletionFailed"

NAME_MAX = 253  # no node has a longer name; whatever somebody wrote, the status can be written
FIRST_SIGHT = timedelta(seconds=5)  # so long may the first list of a node's pods take before anybody is told

_FIELDS = tuple(field.encode_name for field in msgspec.structs.fields(FailoverStatus))


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a node as they were sorted; good for as long as they and the failure stay the same."""

    pods: Mapping[str, Pod]
    node_uid: str
    failed_at: datetime
    sorted: Sorted
    moves: tuple[MovePod, ...]


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """What to do, of which nodes the pods must be in sight, and when to look again even if nothing changes."""

    actions: tuple[Action, ...] = ()
    nodes: frozenset[str] = frozenset()
    wake_at: datetime | None = None
    judged: Mapping[str, Judged] = {}


NOTHING = Failover()


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """One remediation, its node, and what it has written down so far."""

    cluster: Cluster
    item: Unstructured
    node_name: str
    node: Node | None
    status: FailoverStatus
    hold: Callable[[], tuple[str, str]]
    judged: Judged | None

    @property
    def succeeded(self) -> bool:
        condition = self.status.condition(medik8s.SUCCEEDED)
        return condition is not None and condition.status == "True"

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
    left: int | None = None


def not_ready_since(node: Node) -> datetime | None:
    ready = node.condition("Ready")
    return whole_or_none(ready.last_transition_time) if ready is not None else None


def plan_failover(cluster: Cluster, rules: Rules, before: Failover = NOTHING) -> Failover:
    """`before` spares work and changes nothing: pods that have not changed since are not sorted again."""
    served = cluster.kinds.get(REMEDIATION)
    if not isinstance(served, Served):
        return NOTHING
    needed = frozenset({"nodes", "heartbeats", "configmaps", served.collection})

    @cache
    def hold() -> tuple[str, str]:
        """Why no pod may be deleted now, as a reason and a sentence. The same for all, and dear: asked for once."""
        if why := brake_reason(cluster, rules):
            return BRAKE, f"the brake is on: {why}"
        why = doubts_about(needed, cluster)
        return (SELF_DOUBT, f"we do not trust our own sight: {why}") if why else ("", "")

    plans = [
        _plan_one(_case(item, cluster, hold, before))
        for item in sorted(cluster.every(REMEDIATION), key=lambda one: one.key)
    ]
    return Failover(
        actions=tuple(action for plan in plans for action in plan.actions),
        nodes=frozenset(node for plan in plans for node in plan.nodes),
        wake_at=min((plan.wake_at for plan in plans if plan.wake_at is not None), default=None),
        judged={node: judged for plan in plans for node, judged in plan.judged.items()},
    )


def _case(item: Unstructured, cluster: Cluster, hold: Callable[[], tuple[str, str]], before: Failover) -> _Case:
    name = (item.annotations.get(medik8s.NODE_NAME) or item.name)[:NAME_MAX]
    return _Case(
        cluster=cluster,
        item=item,
        node_name=name,
        node=cluster.nodes.get(name),
        status=read_failover_status(item),
        hold=hold,
        judged=before.judged.get(name),
    )


def _plan_one(case: _Case) -> Failover:
    if case.item.metadata.deletion_timestamp is not None:
        return _let_go(case)
    if _is_done(case):
        return NOTHING
    if medik8s.TIMED_OUT in case.item.annotations:
        message = "its time was up before all pods had left; nothing more is done"
        return _report(case, _Said(processing=False, succeeded="False", reason=TIMED_OUT, message=message))
    if any(blindness.kind == "nodes" for blindness in case.cluster.blind):
        return NOTHING  # nobody knows whether the node is there, or how it is
    return _plan_for(case, case.node)


def _plan_for(case: _Case, node: Node | None) -> Failover:
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


def _let_go(case: _Case) -> Failover:
    others = tuple(one for one in _finalizers(case) if one != FINALIZER)
    return Failover(actions=(_set_finalizers(case, others),)) if FINALIZER in _finalizers(case) else NOTHING


def _hold_on(case: _Case) -> Failover:
    """Until somebody wants to end it, it must not vanish under our hands. Its pods come into sight meanwhile."""
    return Failover(actions=(_set_finalizers(case, (*_finalizers(case), FINALIZER)),))


def _set_finalizers(case: _Case, finalizers: tuple[str, ...]) -> SetFinalizers:
    return SetFinalizers(
        target=target(read_remediation(case.item, REMEDIATION)),
        version=case.item.metadata.resource_version,
        finalizers=finalizers,
    )


def _looking(case: _Case, node: Node) -> Failover | None:
    """While its pods are not in sight, or something holds everything back; None when we can go on."""
    name, cluster = pods_on(node.name), case.cluster
    blind = next((blindness for blindness in cluster.blind if blindness.kind == name), None)
    if name not in cluster.others:
        return NOTHING
    if blind is not None and cluster.now <= blind.since + FIRST_SIGHT:
        return Failover(wake_at=blind.since + FIRST_SIGHT + INSTANT)
    reason, message = case.hold()
    unseen = blind.why if blind is not None else cluster.absent.get(name, "")
    if unseen and not reason:
        reason, message = SELF_DOUBT, f"the pods of node {node.name} are out of sight: {unseen}"
    if not reason:
        return None
    plan = _report(case, _Said(processing=True, succeeded="Unknown", reason=reason, message=message))
    return msgspec.structs.replace(plan, wake_at=cluster.now + LOOK_AGAIN) if reason == SELF_DOUBT else plan


def _moving(case: _Case, node: Node) -> Failover:
    judged = _judge(case, node)
    pods, moves = judged.sorted, judged.moves
    known = case.status.found if case.is_same_failure else None
    found = len(moves) if known is None else known
    if not moves:
        return _report(case, _finished(pods, found))
    report = _report(case, _working(pods, found, _failed(case, moves)))
    actions = report.actions
    if known is not None and _is_working(case):  # first it is written down, then it is done
        actions = (*actions, *moves)
    return Failover(actions=actions, judged={node.name: judged})


def _judge(case: _Case, node: Node) -> Judged:
    pods = case.cluster.all_of(pods_on(node.name), Pod)
    known, failed_at = case.judged, case.failed_at
    if known is not None and known.pods is pods and (known.node_uid, known.failed_at) == (node.uid, failed_at):
        return known
    found = sort_pods(pods.values(), failed_at=failed_at)
    moves = tuple(_move_pod(pod, node) for pod in found.movable)
    return Judged(pods=pods, node_uid=node.uid, failed_at=failed_at, sorted=found, moves=moves)


def _failed(case: _Case, moves: tuple[MovePod, ...]) -> list[tuple[MovePod, Failure]]:
    known = case.cluster.failures
    return [(one, known[one.key]) for one in moves if one.key in known] if known else []


def _is_working(case: _Case) -> bool:
    condition = case.status.condition(PROCESSING)
    return condition is not None and condition.status == "True" and condition.reason in (STARTED, DELETION_FAILED)


def _move_pod(pod: Pod, node: Node) -> MovePod:
    return MovePod(node=node.name, node_uid=node.uid, namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _working(pods: Sorted, found: int, failures: list[tuple[MovePod, Failure]]) -> _Said:
    reason, message = STARTED, f"{_count(len(pods.movable))} to be moved{_and_left(pods)}"
    if failures:
        move, failure = failures[0]
        reason = DELETION_FAILED
        message = f"{_count(len(failures))} could not be deleted, such as {move.namespace}/{move.name}: {failure.why}"
    return _Said(
        processing=True,
        succeeded="Unknown",
        reason=reason,
        message=message,
        found=found,
        moved=max(found - len(pods.movable), 0),
        left=pods.left,
    )


def _finished(pods: Sorted, found: int) -> _Said:
    message = f"{_count(found)} moved{_and_left(pods)}"
    return _Said(
        processing=False, succeeded="True", reason=FINISHED, message=message, found=found, moved=found, left=pods.left
    )


def _count(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


def _and_left(pods: Sorted) -> str:
    return f"; {pods.left} left in place: {pods.why_left}" if pods.left else ""


def _report(case: _Case, said: _Said) -> Failover:
    """Progress alone is no news: a write for every pod that leaves would cost more than moving them."""
    before, now = case.status, case.cluster.now
    conditions = [
        StatusCondition(type=PROCESSING, status=str(said.processing), reason=said.reason, message=said.message),
        StatusCondition(type=medik8s.SUCCEEDED, status=said.succeeded, reason=said.reason, message=said.message),
    ]
    after = msgspec.structs.replace(_about(case), node=case.node_name)
    if said.found is not None:
        after = msgspec.structs.replace(after, found=said.found, moved=said.moved, left=said.left)
    is_told = all(_says(before, condition) for condition in conditions)
    if is_told and _failure(before) == _failure(after) and (before.found is None) == (after.found is None):
        return NOTHING
    generation = case.item.metadata.generation
    after = msgspec.structs.replace(after, conditions=merged(before.conditions or [], conditions, generation, now))
    told = msgspec.to_builtins(after)
    return Failover(
        actions=(
            ReportRemediation(
                target=target(read_remediation(case.item, REMEDIATION)),
                version=case.item.metadata.resource_version,
                status={name: told.get(name) for name in _FIELDS},
            ),
        )
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
