"""Whether the pods of a node are in sight, and what is to be done with them according to somebody's wish."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from defib.decide.failover.pods import ClaimFacts, sort_pods, unreadable_claims
from defib.decide.failover.todo import Judged
from defib.decide.status import whole_or_none
from defib.model.action import MovePod
from defib.model.cluster import Cluster
from defib.model.failure import Failure
from defib.model.node import Node, Taint
from defib.model.pod import Pod, pods_on
from defib.model.pod_failover import Wish

FIRST_SIGHT = timedelta(seconds=5)  # so long may the first list of a node's pods take before anybody is told


class OutOfSight(msgspec.Struct, frozen=True):
    """`why` is empty while it is too early to tell anybody; then `until` says when it no longer is."""

    why: str = ""
    until: datetime | None = None


def out_of_sight(node: str, cluster: Cluster) -> OutOfSight | None:
    """None when the pods of the node are seen as they are."""
    name = pods_on(node)
    if name not in cluster.others:
        return OutOfSight()
    blind = next((blindness for blindness in cluster.blind if blindness.kind == name), None)
    if blind is not None and cluster.now <= blind.since + FIRST_SIGHT:
        return OutOfSight(until=blind.since + FIRST_SIGHT)
    why = blind.why if blind is not None else cluster.absent.get(name, "")
    return OutOfSight(f"the pods of node {node} are out of sight: {why}") if why else None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one failed node that somebody wants to leave. `who` is told in the log of each deletion."""

    who: str
    node: Node
    wish: Wish
    since: datetime | None  # None: nobody has written it down
    failed_at: datetime  # what was put there later does not mind
    taints: tuple[Taint, ...] = ()  # for which the node counts as failed although it is ready

    def is_for(self, pod: Pod) -> bool:
        """Whoever tolerates all of its taints does not mind them."""
        return not self.taints or not all(pod.tolerates(taint) for taint in self.taints)

    @property
    def basis(self) -> tuple[object, ...]:
        """What the answer depends on, beside pods and claims."""
        return (self.who, self.node.uid, self.wish, self.since, self.failed_at, self.taints)


def judge(task: Task, pods: Mapping[str, Pod], cluster: Cluster, before: Judged | None) -> Judged:
    """`before` spares work, and remembers what was moved earlier on."""
    if (
        before is not None
        and before.pods is pods
        and before.of == task.basis
        and before.modes == _modes(before, cluster)
    ):
        return before
    mine = [pod for pod in pods.values() if task.is_for(pod)]
    facts = ClaimFacts(claims=cluster.claims, unreadable=unreadable_claims(cluster.failures))
    found = sort_pods(mine, task.wish, failed_at=task.failed_at, facts=facts)
    moves = tuple(_move(pod, task) for pod in found.movable)
    is_same_failure = before is not None and before.of[:2] == task.basis[:2] and before.of[3] == task.since
    ever = before.ever if before is not None and is_same_failure else frozenset()
    judged = Judged(pods=pods, of=task.basis, sorted=found, moves=moves, ever=ever)
    return msgspec.structs.replace(judged, modes=_modes(judged, cluster))


def _modes(judged: Judged, cluster: Cluster) -> dict[str, tuple[frozenset[str] | None, bool]]:
    """As they are known now, and whether they could not be read."""
    failed = unreadable_claims(cluster.failures)
    return {claim: (cluster.claims.get(claim), claim in failed) for claim in judged.sorted.claims}


def _move(pod: Pod, task: Task) -> MovePod:
    grace = task.wish.grace_seconds
    if task.taints and grace is None and pod.ends_at_once:
        grace = 1  # or it would be gone before its kubelet, which is alive, has ended it
    return MovePod(
        node=task.node.name,
        node_uid=task.node.uid,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        because=task.who,
        since=task.since,
        grace_seconds=grace,
        taints=tuple(taint.key for taint in task.taints),
    )


def failed_ones(moves: tuple[MovePod, ...], failures: Mapping[str, Failure]) -> list[tuple[MovePod, Failure]]:
    return [(one, failures[one.key]) for one in moves if one.key in failures] if failures else []


def not_ready_since(node: Node) -> datetime | None:
    ready = node.condition("Ready")
    return whole_or_none(ready.last_transition_time) if ready is not None else None
