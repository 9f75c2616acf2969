"""What is seen of checks, policies, remediations and locks, followed by watches and noted in the log book."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NoReturn

import msgspec

from defib.clock import Clock
from defib.hollow.follow import Follow
from defib.kube.client import Client, Scope
from defib.kube.kinds import LEASES, NODE_INCIDENTS
from defib.model import medik8s
from defib.model.incident import NodeIncident
from defib.model.meta import Unstructured
from defib.model.node import Lease
from testbed.scenario.failover_sight import policy_words
from testbed.scenario.remediation_manifests import CHECKS, POLICIES, remediations_of
from testbed.scenario.story import Remediator

Note = Callable[[str, list[str], bool], None]


class Remedy(msgspec.Struct, frozen=True):
    """A remediation, and who is to carry it out."""

    remediator: Remediator
    item: Unstructured

    @property
    def node(self) -> str:
        return self.item.annotations.get(medik8s.NODE_NAME) or self.item.name

    @property
    def template(self) -> str:
        return self.item.annotations.get(medik8s.TEMPLATE_NAME, "")

    @property
    def is_ending(self) -> bool:
        return self.item.metadata.deletion_timestamp is not None

    @property
    def conditions(self) -> list[dict[str, Any]]:
        return (self.item.status or {}).get("conditions") or []


class RemediationSight:
    """`note` takes what changed, its words before and after, and whether it is gone now."""

    def __init__(self, client: Client, clock: Clock, namespace: str, note: Note) -> None:
        self._client = client
        self._clock = clock
        self._note = note
        self._here = Scope(namespace=namespace)
        self._checks = Follow(client, clock, CHECKS, self._check_changed)
        self._locks = Follow(client, clock, LEASES, self._lock_changed, Scope(namespace=medik8s.LOCK_NAMESPACE))
        self._incidents = Follow(client, clock, NODE_INCIDENTS, self._incident_changed)
        self._policies = Follow(client, clock, POLICIES, self._policy_changed, self._here)
        self._remediations: dict[Remediator, Follow[Unstructured]] = {}
        self._tasks: dict[Remediator, asyncio.Task[NoReturn]] = {}
        self._ever: defaultdict[str, set[str]] = defaultdict(set)
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._checks.run(), name="story sight")
            group.create_task(self._locks.run(), name="story sight")

    def follow_all(self) -> None:
        """The kinds are there now."""
        assert self._group, "they are followed while the story runs"
        self._group.create_task(self._incidents.run(), name="story sight")
        self._group.create_task(self._policies.run(), name="story sight")
        for remediator in Remediator:
            self.follow(remediator)

    def follow(self, remediator: Remediator) -> None:
        """From the moment on at which its kind is there."""
        assert self._group, "it is followed while the story runs"
        self.forget(remediator)

        def changed(before: Unstructured | None, after: Unstructured | None) -> None:
            self._remedy_changed(*(Remedy(remediator, one) if one else None for one in (before, after)))

        followed = Follow(self._client, self._clock, remediations_of(remediator), changed, self._here)
        self._remediations[remediator] = followed
        self._tasks[remediator] = self._group.create_task(followed.run(), name="story sight")

    def forget(self, remediator: Remediator) -> None:
        """Its kind is gone, and with it whatever was of it."""
        if task := self._tasks.pop(remediator, None):
            task.cancel()
        self._remediations.pop(remediator, None)

    def check(self, name: str) -> Unstructured | None:
        return self._checks.items.get(name)

    def checks(self) -> list[Unstructured]:
        return list(self._checks.items.values())

    def policy(self, name: str) -> Unstructured | None:
        return next((one for one in self.policies() if one.name == name), None)

    def policies(self) -> list[Unstructured]:
        return list(self._policies.items.values())

    def remedies(self, node: str = "") -> list[Remedy]:
        """All of them, or those of one node."""
        known = [
            Remedy(remediator, item)
            for remediator, followed in self._remediations.items()
            for item in followed.items.values()
        ]
        return [remedy for remedy in known if not node or remedy.node == node]

    def so_far(self, node: str) -> int:
        """How many there were, with those that are gone."""
        return len(self._ever[node])

    def incident(self, node: str) -> NodeIncident | None:
        return self._incidents.items.get(node)

    def incidents(self) -> list[NodeIncident]:
        return list(self._incidents.items.values())

    def power_changed(self, node: str, on: bool) -> None:
        """Of a machine, which the API server does not know."""
        self._note(f"machine {node}", ["off" if on else "on", "on" if on else "off"], False)

    def lock(self, node: str) -> Lease | None:
        return self._locks.items.get(f"{medik8s.LOCK_NAMESPACE}/{medik8s.lock_of(node)}")

    def holder(self, node: str) -> str:
        """Who holds the lock of a node; empty when nobody does, or the time of whoever did is over."""
        lock = self.lock(node)
        if lock is None or lock.spec.renew_time is None:
            return ""
        ends = lock.spec.renew_time + timedelta(seconds=lock.spec.lease_duration_seconds or 0)
        return (lock.spec.holder_identity or "") if ends >= self._clock.now() else ""

    def _check_changed(self, before: Unstructured | None, after: Unstructured | None) -> None:
        self._changed(f"check {_name(before, after)}", [check_words(one) for one in (before, after) if one], after)

    def _policy_changed(self, before: Unstructured | None, after: Unstructured | None) -> None:
        self._changed(f"policy {_name(before, after)}", [policy_words(one) for one in (before, after) if one], after)

    def _lock_changed(self, before: Lease | None, after: Lease | None) -> None:
        words = [f"held by {one.spec.holder_identity}" for one in (before, after) if one]
        self._changed(f"lock {_name(before, after)}", words, after)

    def _incident_changed(self, before: NodeIncident | None, after: NodeIncident | None) -> None:
        words = [incident_words(one) for one in (before, after) if one]
        self._changed(f"incident {_name(before, after)}", words, after)

    def _remedy_changed(self, before: Remedy | None, after: Remedy | None) -> None:
        known = after or before
        assert known
        self._ever[known.node].add(known.item.uid)
        words = [remedy_words(one) for one in (before, after) if one]
        self._changed(f"remediation of {known.node}", words, after)

    def _changed(self, subject: str, words: list[str], after: object) -> None:
        self._note(subject, words, after is None)


Named = Unstructured | Lease | NodeIncident


def _name(before: Named | None, after: Named | None) -> str:
    known = after or before
    assert known
    return known.name


def remedy_words(remedy: Remedy) -> str:
    said = [f"{one['type']} {one['status']}" for one in remedy.conditions]
    if medik8s.TIMED_OUT in remedy.item.annotations:
        said.append("timed out")
    if medik8s.HEALTHY_DELAY in remedy.item.annotations:
        said.append("delayed")
    state = "ending" if remedy.is_ending else "wanted"
    return f"by {remedy.template or remedy.remediator.value} {state}" + "".join(f", {one}" for one in said)


def incident_words(incident: NodeIncident) -> str:
    status = incident.status
    proof = f", proof {status.proof.grade}" if status.proof else ""
    said = f": {status.reason}: {status.message}" if status.reason else ""
    return f"{status.phase} {status.outcome}".strip() + f", attempt {status.attempt}{proof}{said}"


def check_words(check: Unstructured) -> str:
    status = check.status or {}
    nodes = [f"{one['name']} {one.get('reason', '')}".strip() for one in status.get("unhealthyNodes") or ()]
    true = [one["type"] for one in status.get("conditions") or () if one["status"] == "True"]
    counts = f"{status.get('healthyNodes', '?')} of {status.get('observedNodes', '?')} healthy"
    listed = f", lists {', '.join(nodes)}" if nodes else ""
    return f"{status.get('phase') or 'new'}, {counts}{listed}" + (f" ({', '.join(true)})" if true else "")


def check_texts(check: Unstructured) -> list[str]:
    """Everything that its status says in words."""
    status = check.status or {}
    told = [*(status.get("conditions") or ()), *(status.get("unhealthyNodes") or ())]
    return [status.get("reason") or "", *(one.get("message") or "" for one in told)]
