"""One drain as it stands: which policy watches it, since when it has been going on, which pods are left, what comes next.

The operator plans by this, and the doctor explains by it, so that they never say different things.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from defib.decide.drains.budgets import Budgets
from defib.decide.drains.compatibility import nodekeeper
from defib.decide.drains.intent import Intent, cordoned_at
from defib.decide.drains.ladder import Case, Step, next_step
from defib.decide.drains.reading import read_policy
from defib.decide.drains.schedule import Schedule, schedule_of
from defib.decide.drains.targets import left_alone, must_leave
from defib.decide.failover.pods import unreadable_claims
from defib.decide.failover.sight import out_of_sight
from defib.decide.ground import is_control_plane
from defib.model.budget import Budget
from defib.model.cluster import Cluster
from defib.model.drain_policy import POLICY, Policy, PolicyStatus, read_policy_status
from defib.model.failure import Failure
from defib.model.meta import Unstructured
from defib.model.moment import is_sensible
from defib.model.node import Node
from defib.model.node_drain import DRAIN, DrainStatus, Phase, PodEntry, read_drain_status
from defib.model.pod import Pod, pods_on

OLD_CORDON = timedelta(minutes=10)  # when a drain is first seen: so long may nobody have looked
TO_EVICT = "evict "  # what the key of an eviction begins with


class Known(msgspec.Struct, frozen=True):
    """A policy as it was read, and as it holds now: where it follows Nodekeeper's configuration, that has its say."""

    item: Unstructured
    written: Policy | tuple[str, ...]
    policy: Policy | tuple[str, ...]
    status: PolicyStatus

    @property
    def wish(self) -> Policy | None:
        """What it asks for, as far as that can be read in it, unless it is being deleted."""
        is_leaving = self.item.metadata.deletion_timestamp is not None
        return self.written if isinstance(self.written, Policy) and not is_leaving else None

    @property
    def served(self) -> Policy | None:
        return self.policy if isinstance(self.policy, Policy) and self.wish is not None else None


class Record(msgspec.Struct, frozen=True):
    """A NodeDrain, as it was read."""

    item: Unstructured
    status: DrainStatus


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    """A node that somebody drains, and the policy that watches it."""

    node: Node
    known: Known
    policy: Policy
    intent: Intent


class PodLook(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that the drain has to see off, and what comes next for it."""

    pod: Pod
    step: Step
    budgets: tuple[Budget, ...] = ()
    is_protected: bool = False  # also by budgets that nobody sees
    is_left_alone: bool = False


class DrainLook(msgspec.Struct, frozen=True, kw_only=True):
    """Where its pods are not in sight, `pods` are none, and `unseen` says why not, once it is time to tell anybody."""

    node: Node
    known: Known
    policy: Policy
    intent: Intent
    schedule: Schedule
    pods: tuple[PodLook, ...] = ()
    unseen: str = ""
    is_seen: bool = True
    told_at: datetime | None = None  # from when on somebody is told that they are not in sight
    was: DrainStatus = DrainStatus()  # what was written about this very drain


def known_policies(cluster: Cluster, before: Mapping[str, Known]) -> dict[str, Known]:
    """By name, in their order. `before` spares work."""
    return {
        item.name: _known(item, cluster, before.get(item.name)) for item in sorted(cluster.every(POLICY), key=_name)
    }


def _name(item: Unstructured) -> str:
    return item.name


def _known(item: Unstructured, cluster: Cluster, before: Known | None) -> Known:
    is_same = before is not None and before.item.spec == item.spec
    written = before.written if before is not None and is_same else read_policy(item.spec)
    policy = nodekeeper(written, cluster) if isinstance(written, Policy) and written.is_nodekeepers else written
    if before is not None and before.item is item and before.policy == policy:
        return before
    return Known(item, written, policy, read_policy_status(item))


def known_records(cluster: Cluster, before: Mapping[str, Record]) -> dict[str, Record]:
    """By node."""
    found = {}
    for item in sorted(cluster.every(DRAIN), key=_name):
        was = before.get(item.name)
        found[item.name] = was if was is not None and was.item is item else Record(item, read_drain_status(item))
    return found


def policy_for(node: Node, known: Mapping[str, Known]) -> tuple[Known, Policy] | None:
    """The first by name that selects it. While that cannot be served, no other one has its nodes: they may force more."""
    for one in known.values():
        if (wish := one.wish) is not None and selects(wish, node):
            return (one, one.served) if one.served is not None else None
    return None


def selects(policy: Policy, node: Node) -> bool:
    return policy.nodes.selects(node.labels) and (policy.with_control_plane or not is_control_plane(node))


def started_at(node: Node, intent: Intent, record: Record | None, now: datetime) -> datetime:
    """What we have written down; else what the drainer says, or the cordon; else since we know. Never later than now.

    A node may have been cordoned long before anybody drains it. Then the cordon says nothing, and nobody is to be forced
    at first sight.
    """
    written = record.status.started_at if record is not None and record.status.node_uid == node.uid else None
    made = (record.item.metadata.creation_timestamp if record is not None else None) or now
    cordoned = cordoned_at(node)
    is_old = cordoned is not None and cordoned + OLD_CORDON < made
    said = (written, intent.started_at, None if is_old else cordoned, made)
    return min(next((one for one in said if one is not None and is_sensible(one)), now), now)


def about_this_drain(record: Record | None, drained: Drained, pods: Collection[Pod], now: datetime) -> Record | None:
    """The record, unless it is about another node, or about an earlier drain that ended while nobody looked."""
    if record is None or not record.status.node_uid:
        return record
    status, node, cordoned = record.status, drained.node, cordoned_at(drained.node)
    if status.node_uid != node.uid:
        return None
    if status.paused_at is not None:
        back_at = cordoned if cordoned is not None and cordoned > status.paused_at else now
        return record if back_at <= status.paused_at + drained.policy.times.flap_window else None
    is_over = status.phase is Phase.DRAINED and pods and cordoned and status.started_at and status.started_at < cordoned
    return None if is_over else record


class Sights(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all nodes of a pass."""

    cluster: Cluster
    budgets: Budgets
    evictions: Mapping[str, Failure]  # that failed, by the UID of the pod
    unreadable: frozenset[str]  # claims


def sights_of(cluster: Cluster, budgets: Budgets) -> Sights:
    failed = {key.removeprefix(TO_EVICT): one for key, one in cluster.failures.items() if key.startswith(TO_EVICT)}
    return Sights(cluster=cluster, budgets=budgets, evictions=failed, unreadable=unreadable_claims(cluster.failures))


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A look, and what it was made of: good until something of that changes, or a moment is over that matters."""

    look: DrainLook
    made_of: tuple[object, ...]
    pods: Mapping[str, Pod]
    claims: frozenset[str]  # of these
    namespaces: frozenset[str]  # of these too
    budgets: Budgets
    protecting: Mapping[str, tuple[Budget, ...]]  # of these, by the UID of the pod
    good_until: datetime | None


def look_again(drained: Drained, record: Record | None, sights: Sights, before: Remembered | None) -> Remembered:
    """`before` spares work: with thousands of pods, most passes find nothing new about most of them."""
    cluster = sights.cluster
    pods = cluster.all_of(pods_on(drained.node.name), Pod)
    failed = {uid: sights.evictions[uid] for uid in sights.evictions.keys() & {pod.uid for pod in pods.values()}}
    claims = {key: cluster.claims.get(key) for key in _claims(pods, before)}
    unreadable = sights.unreadable & claims.keys()
    entries = record.status if record is not None else None
    blind = out_of_sight(drained.node.name, cluster)
    made_of = (drained, entries, pods, failed, claims, unreadable, blind, sights.budgets.unseen)
    is_good = (
        before is not None
        and before.made_of == made_of
        and (before.good_until is None or cluster.now <= before.good_until)
    )
    if before is not None and is_good and _are_same(before, sights.budgets):
        return before
    protecting = {pod.uid: sights.budgets.of(pod) for pod in pods.values()}
    if before is not None and is_good and before.protecting == protecting:  # others have changed
        return msgspec.structs.replace(before, budgets=sights.budgets)
    look = look_at(drained, record, sights)
    return Remembered(
        look=look,
        made_of=made_of,
        pods=pods,
        claims=frozenset(claims),
        namespaces=frozenset(pod.namespace for pod in pods.values()),
        budgets=sights.budgets,
        protecting=protecting,
        good_until=_good_until(look, cluster.now),
    )


def _are_same(before: Remembered, budgets: Budgets) -> bool:
    """Of the namespaces of its pods. With those of others it need not be looked at again, nor be made anew."""
    was, now = before.budgets.by_label, budgets.by_label
    return before.budgets is budgets or all(was.get(one) is now.get(one) for one in before.namespaces)


def _good_until(look: DrainLook, now: datetime) -> datetime | None:
    """As long as nobody has written down when the drain began, or that it goes on, each moment may say otherwise."""
    is_written = look.was.started_at == look.schedule.started_at and look.was.paused_at is None
    return look.schedule.turns_at(now) if is_written else now


def _claims(pods: Mapping[str, Pod], before: Remembered | None) -> Iterable[str]:
    if before is not None and before.pods is pods:
        return before.claims
    return [f"{pod.namespace}/{claim}" for pod in pods.values() for claim in pod.claims]


def look_at(drained: Drained, record: Record | None, sights: Sights) -> DrainLook:
    node, policy, cluster = drained.node, drained.policy, sights.cluster
    unseen = out_of_sight(node.name, cluster)
    leaving = must_leave(cluster.all_of(pods_on(node.name), Pod).values()) if unseen is None else ()
    same = about_this_drain(record, drained, leaving, cluster.now)
    schedule = schedule_of(policy, drained.intent, started_at(node, drained.intent, same, cluster.now))
    was = same.status if same is not None else DrainStatus()
    entries = {one.uid: one for one in was.pods or ()}
    return DrainLook(
        node=node,
        known=drained.known,
        policy=policy,
        intent=drained.intent,
        schedule=schedule,
        pods=tuple(_pod_look(pod, drained, schedule, entries.get(pod.uid), sights) for pod in leaving),
        unseen=unseen.why if unseen is not None else "",
        is_seen=unseen is None,
        told_at=unseen.until if unseen is not None else None,
        was=was,
    )


def _pod_look(pod: Pod, drained: Drained, schedule: Schedule, entry: PodEntry | None, sights: Sights) -> PodLook:
    protecting = sights.budgets.of(pod)
    case = Case(
        pod=pod,
        node=drained.node,
        policy=drained.policy,
        schedule=schedule,
        budgets=protecting,
        knows_budgets=not sights.budgets.unseen,
        claims=sights.cluster.claims,
        unreadable=sights.unreadable,
        entry=entry,
        eviction=sights.evictions.get(pod.uid),
        now=sights.cluster.now,
    )
    return PodLook(
        pod=pod,
        budgets=protecting,
        is_protected=case.is_protected,
        is_left_alone=bool(left_alone(pod, drained.policy)),
        step=next_step(case),
    )
