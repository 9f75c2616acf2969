"""What becomes of the pods of one failed node, according to all policies that select some of them."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.decide.doubt import SELF_DOUBT
from defib.decide.failover.failing import Failure
from defib.decide.failover.pods import Sorted
from defib.decide.failover.policy_status import MESSAGE_MAX, Known
from defib.decide.failover.sight import Task, failed_ones, judge
from defib.decide.failover.todo import Judged
from defib.decide.failover.turns import Held, Turns
from defib.decide.failover.words import count, moved_and_waiting, not_deleted, to_move
from defib.model.action import Action
from defib.model.cluster import Cluster
from defib.model.failover_policy import POLICY, FailedNode, Policy, State
from defib.model.node import NOT_READY_TAINTS, Node, Taint
from defib.model.pod import Pod, pods_on
from defib.model.pod_failover import Wish

CLAIMS_WITHIN = timedelta(seconds=2)
# So long Kubernetes may take to keep new pods away from a node that it has just called not ready; it takes milliseconds.
CLOSED_WITHIN = timedelta(seconds=1)
_BEGUN = (State.MOVING, State.FAILING)

Trigger = tuple[Any, ...]
"""What makes a node count as failed for a policy: the same for all policies that say the same about nodes."""


def trigger_of(policy: Policy) -> Trigger:
    return (policy.nodes, policy.dwell, policy.taints)


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all nodes of a pass."""

    cluster: Cluster
    turns: Turns
    hold: Held | None  # why no pod of any node may be deleted
    by_namespace: Mapping[str, list[Known]]  # policies that are served, each list by name
    judged: Mapping[str, Judged]
    seen: Mapping[str, datetime]  # when each node was first seen to have failed
    written: Mapping[str, set[str]]  # the namespaces of policies in which something stands about a node

    def held(self, node: Node) -> Held | None:
        return self.hold or self.turns.hold(node)

    def open_until(self, node: Node) -> datetime | None:
        """Until when pods stay because the scheduler, which has not heard of the failure, may send others back to the
        node; None when none need stay.

        Taints of other kinds do not count: the pods that run there tolerate them. Nor does the one that drives pods
        out: nearly all of them tolerate it for some minutes.
        """
        is_tainted = any(one.effect == "NoSchedule" for one in node.taints_among(NOT_READY_TAINTS))
        if node.ready == "True" or node.spec.unschedulable or is_tainted:
            return None
        until = self.seen[node.name] + CLOSED_WITHIN
        return until if self.cluster.now < until else None


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A node, and how it has failed for whom, where the time to wait is over."""

    node: Node
    due: Mapping[Trigger, Failure]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a look at the pods of a node: what to do, and the entries, by the key of their policy."""

    actions: tuple[Action, ...] = ()
    judged: Mapping[str, Judged] = {}
    entries: Mapping[str, FailedNode] = {}
    is_unsure: bool = False  # something must be found out first
    later: datetime | None = None  # when pods leave at the latest that stay only until the scheduler knows
    pods: Mapping[str, Pod] = {}  # all of the node, and which of them are whose, while nobody wants anything else
    shares: Mapping[str, Mapping[str, Pod]] = {}


def plan_node(failed: Failed, this: Pass, before: Look | None) -> Look:
    """Its pods are in sight. `before` is of the same failure and the same wishes."""
    pods = this.cluster.all_of(pods_on(failed.node.name), Pod)
    shares = before.shares if before is not None and before.pods is pods else _shares(pods, failed.node, this)
    cases = list(_cases(failed, shares, this))
    entries = {case.known.item.key: entry for case in cases if (entry := _entry(case)) is not None}
    return Look(
        actions=tuple(action for case in cases for action in _actions(case, entries.get(case.known.item.key))),
        judged={case.name: _remembered(case, entries.get(case.known.item.key)) for case in cases},
        entries=entries,
        is_unsure=any(case.pods.unsure for case in cases),
        later=this.open_until(failed.node) if any(case.pods.movable for case in cases) else None,
        pods=pods,
        shares=shares,
    )


def plan_unseen(failed: Failed, this: Pass, why: str) -> Look:
    """Nobody can say which pods it has, so all who would move some are told."""
    entries = {}
    for known in (one for served in this.by_namespace.values() for one in served):
        failure = _failure_for(known, failed)
        if failure is None:
            continue
        there = known.entry(failed.node.name)
        if there is None or not is_about(there, failed.node, failure):
            there = FailedNode(
                name=failed.node.name, uid=failed.node.uid, not_ready_since=failure.since, state=State.HELD
            )
        entries[known.item.key] = msgspec.structs.replace(there, state=State.HELD, reason=SELF_DOUBT, message=why)
    return Look(entries=entries, is_unsure=True)


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """One policy and one node."""

    this: Pass
    known: Known
    node: Node
    wish: Wish
    failure: Failure
    judged: Judged

    @property
    def name(self) -> str:
        return _name(self.known, self.node)

    @property
    def pods(self) -> Sorted:
        return self.judged.sorted

    @property
    def ever(self) -> frozenset[str]:
        return self.judged.ever | {pod.uid for pod in self.pods.movable}

    @property
    def must_wait(self) -> bool:
        """A claim is read within milliseconds, and then all pods are counted at once. One that hangs holds nobody up."""
        return bool(self.pods.unsure) and self.this.cluster.now < self.this.seen[self.node.name] + CLAIMS_WITHIN

    @property
    def there(self) -> FailedNode | None:
        """What stands written about this very failure."""
        entry = self.known.entry(self.node.name)
        return entry if entry is not None and is_about(entry, self.node, self.failure) else None


def is_about(entry: FailedNode, node: Node, failure: Failure) -> bool:
    return (entry.uid, entry.not_ready_since) == (node.uid, failure.since)


def _name(known: Known, node: Node) -> str:
    return f"{known.item.uid} {node.name}"


def _failure_for(known: Known, failed: Failed) -> Failure | None:
    assert isinstance(known.policy, Policy), "only those that make sense are served"
    return failed.due.get(trigger_of(known.policy))


def _cases(failed: Failed, shares: Mapping[str, Mapping[str, Pod]], this: Pass) -> Iterator[_Case]:
    """Where the last pod has left, it still counts what was moved: the node keeps its place by that."""
    node = failed.node
    namespaces = {key.partition("/")[0] for key in shares} | this.written.get(node.name, set())
    for known in (one for namespace in sorted(namespaces) for one in this.by_namespace.get(namespace, ())):
        failure, pods = _failure_for(known, failed), shares.get(known.item.key, {})
        if failure is None or not isinstance(known.policy, Policy) or not (pods or known.entry(node.name)):
            continue
        wish = _for_taint(known.policy.wish) if failure.taints else known.policy.wish
        at = failure.at
        task = Task(
            who=f"{POLICY.name} {known.item.key}",
            node=node,
            wish=wish,
            since=at if not failure.taints else _added(failure.taints),
            # A taint keeps others away by itself: whatever is there and minds was there before.
            failed_at=at if not failure.taints else this.cluster.now,
            taints=failure.taints,
        )
        before = this.judged.get(_name(known, node))
        mine = before.pods if before is not None and before.pods == pods else pods
        judged = judge(task, mine, this.cluster, before)
        yield _Case(this=this, known=known, node=node, wish=wish, failure=failure, judged=judged)


def _added(taints: tuple[Taint, ...]) -> datetime | None:
    return min((taint.time_added for taint in taints if taint.time_added is not None), default=None)


def _shares(pods: Mapping[str, Pod], node: Node, this: Pass) -> dict[str, dict[str, Pod]]:
    """By policy. Of several that select a pod, the first by name has it, even while it still waits.

    Pods of one controller have the same labels, so each selector is asked once for all of them.
    """
    left: dict[str, dict[frozenset[tuple[str, str]], dict[str, Pod]]] = {}
    for key, pod in pods.items():
        left.setdefault(pod.namespace, {}).setdefault(frozenset(pod.labels.items()), {})[key] = pod
    shares: dict[str, dict[str, Pod]] = {}
    for namespace, groups in left.items():
        for known in this.by_namespace.get(namespace, ()):
            assert isinstance(known.policy, Policy), "only those that make sense are served"
            if not known.policy.nodes.selects(node.labels):
                continue
            taken = [labels for labels in groups if known.policy.wish.selector.selects(dict(labels))]
            if taken:
                shares[known.item.key] = {key: pod for labels in taken for key, pod in groups.pop(labels).items()}
    return shares


def _for_taint(wish: Wish) -> Wish:
    """The kubelet is alive: it ends every pod in order, so none must be forced, and none runs twice."""
    grace = None if wish.is_forced else wish.grace_seconds
    return msgspec.structs.replace(wish, grace_seconds=grace, accepts=frozenset())


def _entry(case: _Case) -> FailedNode | None:
    """As it should stand in the status of the policy; None where it has nothing to do with this node."""
    pods, there = case.pods, case.there
    if case.must_wait:
        return there
    if pods.movable:
        held = case.this.held(case.node)
        return _held(case, held) if held is not None else _moving(case)
    if pods.unsure or (there is None and not pods.waiting and not pods.left):
        return there
    moved = _moved_so_far(case)
    state = State.WAITING if pods.waiting else State.MOVED
    return _written(case, state, found=moved, moved=moved, message=moved_and_waiting(moved, pods, case.wish))


def _remembered(case: _Case, entry: FailedNode | None) -> Judged:
    """Only what we have begun to move counts as moved when it is gone."""
    ever = case.ever if entry is not None and entry.state in _BEGUN else frozenset[str]()
    return case.judged if ever == case.judged.ever else msgspec.structs.replace(case.judged, ever=ever)


def _moved_so_far(case: _Case) -> int:
    """When none is left to be moved. What was held and has gone by itself was not moved; what waited and is gone was,
    by whoever had the proof.
    """
    there = case.there
    if there is None:
        return 0
    if there.state in _BEGUN:
        return max(there.found, len(case.ever))
    return there.moved + (max(there.waiting - len(case.pods.waiting), 0) if there.state is State.WAITING else 0)


def _held(case: _Case, held: Held) -> FailedNode:
    there, left = case.there, len(case.pods.movable)
    moved = max(there.found - left, 0) if there is not None and there.state in _BEGUN else (there.moved if there else 0)
    verb = "waits" if left == 1 else "wait"
    message = f"{count(left)} {verb}: {held.message}"
    entry = _written(case, State.HELD, found=moved + left, moved=moved, message=message)
    return msgspec.structs.replace(entry, reason=held.reason)


def _moving(case: _Case) -> FailedNode:
    case.this.turns.take(case.node)
    pods, there = case.pods, case.there
    moved = there.moved if there is not None else 0
    found = max(moved + len(pods.movable), len(case.ever))
    if there is not None and there.state in _BEGUN:
        found = max(found, there.found)
    if failures := failed_ones(case.judged.moves, case.this.cluster.failures):
        return _written(case, State.FAILING, found=found, moved=moved, message=not_deleted(failures))
    return _written(case, State.MOVING, found=found, moved=moved, message=to_move(pods))


def _written(case: _Case, state: State, *, found: int, moved: int, message: str) -> FailedNode:
    return FailedNode(
        name=case.node.name,
        uid=case.node.uid,
        not_ready_since=case.failure.since,
        taint=case.failure.taints[0].key if case.failure.taints else "",
        state=state,
        found=found,
        moved=moved,
        waiting=len(case.pods.waiting),
        kept=case.pods.left,
        begun=state in _BEGUN or _keeps_place(case),
        message=message[:MESSAGE_MAX],
    )


def _keeps_place(case: _Case) -> bool:
    """A node that is not ready in another way than before still counts as out, for as long as it has not been ready."""
    earlier = case.known.entry(case.node.name)
    return earlier is not None and earlier.uid == case.node.uid and earlier.begun


def _actions(case: _Case, entry: FailedNode | None) -> tuple[Action, ...]:
    """First it is written down, then it is done."""
    there, unread = case.there, case.pods.unread
    is_begun = there is not None and there.state in _BEGUN and entry is not None and entry.state in _BEGUN
    must_wait = case.must_wait or case.this.open_until(case.node) is not None
    return (*unread, *case.judged.moves) if is_begun and not must_wait else unread
