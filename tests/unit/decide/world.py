"""A small world to decide about, pass by pass: what was decided is done to it as the API server would, and time goes on.

Nothing here is asynchronous and nothing fails by itself. A test breaks it where it wants to: by carrying out a part of
a plan, by forgetting the plan before, or by changing what is there.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from defib.decide.plan import NOTHING, Plan, decide
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import (
    Action,
    ClearNodeAnnotation,
    EndRemediation,
    HoldLock,
    MarkRemediation,
    ReleaseLock,
    StartRemediation,
    Target,
    TellEvent,
    WriteStatus,
)
from defib.model.cluster import Cluster, Served
from defib.model.config_map import ConfigMap
from defib.model.health_check import CheckStatus, KindRef, NodeHealthCheck
from defib.model.lock import Claim, held_by_another
from defib.model.meta import Meta, OwnerReference, Resource, Unstructured
from defib.model.node import Condition, Lease, LeaseSpec, Node
from tests.builders import T0
from tests.unit.decide.checks import KINDS, a_template

FINALIZER = "test.defib.dev/at-work"
PASSES_MAX = 10  # at one instant: what is not settled by then never is

change = msgspec.structs.replace


class World:
    """`finalizers`: remediations that are deleted stay until `leave` lets them go."""

    def __init__(
        self,
        checks: Iterable[NodeHealthCheck] | NodeHealthCheck,
        nodes: Iterable[Node],
        *,
        templates: Iterable[Unstructured] | None = None,
        rules: Rules | None = None,
        finalizers: bool = False,
    ) -> None:
        listed = [checks] if isinstance(checks, NodeHealthCheck) else checks
        self.now = T0
        self.rules = rules or Rules()
        self.finalizers = finalizers
        self.checks = {check.name: check for check in listed}
        self.nodes = {node.name: node for node in nodes}
        known = [a_template("foo"), a_template("bar")] if templates is None else list(templates)
        self.others: dict[str, dict[str, Resource]] = {
            "footemplates": {item.key: item for item in known},
            "bartemplates": {item.key: item for item in known},
            "foos": {},
            "bars": {},
            "configmaps": {},
        }
        self.kinds = dict(KINDS)
        self.locks: dict[str, Lease] = {}
        self.extra: dict[str, Any] = {}  # further fields of the Cluster: blind, doubts, heartbeats, …
        self.underway: list[Action] = []
        self.before: Plan = NOTHING
        self.events: list[TellEvent] = []
        self.creations: list[StartRemediation] = []
        self._version = 100

    def __repr__(self) -> str:
        """For whoever reads which world broke a property."""
        checks = {name: check.spec for name, check in self.checks.items()}
        nodes = {
            name: (node.ready, node.labels, [str(one.last_transition_time) for one in node.status.conditions or ()])
            for name, node in self.nodes.items()
        }
        return f"World(checks={checks}, nodes={nodes}, finalizers={self.finalizers})"

    # Looking and deciding

    def look(self) -> Cluster:
        return Cluster(
            now=self.now,
            nodes=dict(self.nodes),
            others={**{name: dict(items) for name, items in self.others.items()}, medik8s.CHECKS: dict(self.checks)},
            kinds=self.kinds,
            locks=dict(self.locks),
            underway=tuple(self.underway),
            **self.extra,
        )

    def decide(self) -> Plan:
        self.before = decide(self.look(), self.rules, self.before)
        return self.before

    def step(self, only: Callable[[Action], bool] = lambda _: True) -> Plan:
        """One pass, of which only these actions are carried out."""
        plan = self.decide()
        for action in plan.actions:
            if only(action):
                self.carry_out(action)
        return plan

    def settle(self) -> Plan:
        """Passes at one instant until there is nothing left to do; the last of them."""
        for _ in range(PASSES_MAX):
            plan = self.step()
            if not plan.actions:
                return plan
        raise AssertionError(f"this never settles: {[action.key for action in plan.actions]}")

    def forget(self) -> None:
        """Another replica goes on, or this one after a crash."""
        self.before = NOTHING
        self.underway = []

    def wait(self, length: timedelta) -> Plan:
        """Time passes; the operator wakes whenever it asked to, and at the end."""
        end = self.now + length
        while True:
            wake = self.settle().wake_at
            if wake is None or wake > end:
                self.now = end
                return self.settle()
            self.now = max(wake, self.now + timedelta(milliseconds=1))

    # What others do

    def put(self, *nodes: Node) -> None:
        self.nodes |= {node.name: node for node in nodes}

    def turn(self, node: str, ready: str, kind: str = "Ready") -> None:
        """Its condition changes now."""
        old = self.nodes[node]
        fresh = Condition(type=kind, status=ready, last_transition_time=self.now)
        others = [one for one in old.status.conditions or () if one.type != kind]
        self.nodes[node] = change(old, status=change(old.status, conditions=[*others, fresh]))

    def annotate(self, node: str, key: str, value: str) -> None:
        old = self.nodes[node]
        self.nodes[node] = change(old, metadata=change(old.metadata, annotations=old.annotations | {key: value}))

    def label(self, node: str, labels: Mapping[str, str]) -> None:
        old = self.nodes[node]
        self.nodes[node] = change(old, metadata=change(old.metadata, labels=dict(labels)))

    def spec(self, check: str, **fields: Any) -> None:
        """Somebody edits a check; None takes a field away."""
        old = self.checks[check]
        merged = {key: value for key, value in {**old.spec, **fields}.items() if value is not None}
        meta = change(old.metadata, generation=old.metadata.generation + 1, resource_version=self._next())
        self.checks[check] = change(old, spec=merged, metadata=meta)

    def report(self, name: str, conditions: Mapping[str, str], collection: str = "foos") -> None:
        """A remediator says how it goes."""
        key, old = self._find(collection, name)
        told = [{"type": kind, "status": value} for kind, value in conditions.items()]
        self.others[collection][key] = change(old, status={"conditions": told})

    def leave(self) -> None:
        """Remediators let go of what is being deleted."""
        for collection in ("foos", "bars"):
            items = self.others[collection]
            self.others[collection] = {
                key: item for key, item in items.items() if item.metadata.deletion_timestamp is None
            }

    def config(self, name: str, data: dict[str, str] | None) -> None:
        items, key = self.others["configmaps"], f"defib-system/{name}"
        items.pop(key, None)
        if data is not None:
            items[key] = ConfigMap(metadata=Meta(name=name, namespace="defib-system"), data=data)

    def drop(self, name: str, collection: str = "foos") -> None:
        """Somebody deletes an object, and it is gone."""
        key, _ = self._find(collection, name)
        del self.others[collection][key]

    # What can be seen

    def remediations(self, collection: str = "foos") -> dict[str, Unstructured]:
        items = self.others[collection].values()
        return {item.name: item for item in items if isinstance(item, Unstructured)}

    def in_flight(self, check: str = "workers") -> set[str]:
        """Nodes that have a remediation of this check."""
        owned = [
            item
            for collection in ("foos", "bars")
            for item in self.remediations(collection).values()
            if any(owner.name == check for owner in item.metadata.owner_references or ())
        ]
        return {item.annotations.get(medik8s.NODE_NAME, item.name) for item in owned}

    def status(self, check: str = "workers") -> CheckStatus:
        return msgspec.convert(self.checks[check].status or {}, CheckStatus)

    def told(self, check: str = "workers") -> list[str]:
        """The reasons of all events so far."""
        return [event.reason for event in self.events if event.check == check]

    # What the executor and the API server do

    def carry_out(self, action: Action) -> None:  # noqa: C901  a case for each
        match action:
            case StartRemediation():
                self._start(action)
            case EndRemediation(target=target):
                self._end(target)
            case MarkRemediation(target=target):
                self._mark(target, action.annotations)
            case HoldLock(claim=claim):
                self._hold(claim)
            case ReleaseLock():
                self._release(action)
            case ClearNodeAnnotation():
                self._clear(action)
            case WriteStatus():
                self._write(action)
            case TellEvent():
                self.events.append(action)

    def _start(self, action: StartRemediation) -> None:
        node = self.nodes.get(action.node)
        meta = action.body["metadata"]
        items = self.others[self._collection(action.kind)]
        key = f"{action.namespace}/{meta['name']}"
        shown = node.condition(action.because.type) if node is not None else None
        if node is None or node.uid != action.node_uid or shown is None or shown.status != action.because.status:
            return
        if not self._hold(action.claim) or key in items:
            return
        self.creations.append(action)
        items[key] = Unstructured(
            api_version=action.kind.api_version,
            kind=action.kind.name,
            spec=action.body.get("spec"),
            metadata=Meta(
                name=meta["name"],
                namespace=action.namespace,
                uid=f"uid-{self._next()}",
                resource_version=self._next(),
                creation_timestamp=self.now.replace(microsecond=0),
                annotations=meta["annotations"],
                labels=meta["labels"],
                owner_references=msgspec.convert(meta["ownerReferences"], list[OwnerReference]),
                finalizers=[FINALIZER] if self.finalizers else None,
            ),
        )

    def _end(self, target: Target) -> None:
        items, key = self.others[self._collection(target.kind)], f"{target.namespace}/{target.name}"
        item = items.get(key)
        if item is None or item.uid != target.uid:
            return
        if item.metadata.finalizers:
            items[key] = change(item, metadata=change(item.metadata, deletion_timestamp=self.now))
        else:
            del items[key]

    def _mark(self, target: Target, annotations: Mapping[str, str | None]) -> None:
        items, key = self.others[self._collection(target.kind)], f"{target.namespace}/{target.name}"
        item = items.get(key)
        if item is None or item.uid != target.uid:
            return
        merged = {name: value for name, value in {**item.annotations, **annotations}.items() if value is not None}
        items[key] = change(item, metadata=change(item.metadata, annotations=merged, resource_version=self._next()))

    def _hold(self, claim: Claim) -> bool:
        name = medik8s.lock_of(claim.node)
        key = f"{self.rules.lock_namespace}/{name}"
        if held_by_another(self.locks.get(key), claim.holder, self.now):
            return False
        self.locks[key] = Lease(
            metadata=Meta(
                name=name, namespace=self.rules.lock_namespace, uid=f"uid-of-{name}", resource_version=self._next()
            ),
            spec=LeaseSpec(
                holder_identity=claim.holder,
                lease_duration_seconds=int(claim.length.total_seconds()),
                acquire_time=self.now,
                renew_time=self.now,
            ),
        )
        return True

    def _release(self, action: ReleaseLock) -> None:
        key = f"{action.namespace}/{action.name}"
        lease = self.locks.get(key)
        if lease is not None and (lease.uid, lease.metadata.resource_version) == (action.uid, action.version):
            del self.locks[key]

    def _clear(self, action: ClearNodeAnnotation) -> None:
        old = self.nodes.get(action.node)
        if old is None or old.uid != action.node_uid or old.annotations.get(action.annotation) != action.value:
            return
        kept = {key: value for key, value in old.annotations.items() if key != action.annotation}
        self.nodes[action.node] = change(old, metadata=change(old.metadata, annotations=kept))

    def _write(self, action: WriteStatus) -> None:
        item = self.checks.get(action.check)
        if item is None or item.metadata.resource_version != action.version:
            return
        merged = {**(item.status or {}), **action.status}
        kept = {key: value for key, value in merged.items() if value is not None}
        meta = change(item.metadata, resource_version=self._next())
        self.checks[action.check] = change(item, status=msgspec.json.decode(msgspec.json.encode(kept)), metadata=meta)
        self.events += action.tells

    def _collection(self, kind: KindRef) -> str:
        served = self.kinds[kind]
        assert isinstance(served, Served)
        return served.collection

    def _find(self, collection: str, name: str) -> tuple[str, Any]:
        return next((key, item) for key, item in self.others[collection].items() if item.name == name)

    def _next(self) -> str:
        self._version += 1
        return str(self._version)
