"""Histories made by hand, to try the checkers on: a small cluster, and a check with nodes that somebody acts on."""

from datetime import timedelta
from itertools import count
from typing import Any

import msgspec

from defib.kube.transport import Request
from defib.model import medik8s
from defib.model.incident import INCIDENTS
from defib.simulate.store import ADDED, DELETED, MODIFIED, Change, Version, key_of
from defib.simulate.virtual_time import START
from tests.simulation.checkers import judge
from tests.simulation.history import Asked, Entry, Happened, Switched, Written
from tests.simulation.shape import HOME
from tests.simulation.world import LEASES, REMEDIATIONS

CHECK, LEADER = "all", "r0-0"
PROOF = {"grade": "A"}
POWER, PODS, SELF = REMEDIATIONS

Object = dict[str, Any]


class Tale:
    """Everything is told at its moment, in order; whoever is not named is no replica."""

    def __init__(self, nodes: int = 5, spec: Object | None = None, members: int = 0) -> None:
        self.entries: list[Entry] = []
        self.at = 0.0
        self._stored: dict[tuple[str, str], Version] = {}
        self._numbers = count(1)
        self.put(medik8s.CHECKS, {"metadata": {"name": CHECK}, "spec": check_spec(spec or {})})
        for number in range(1, nodes + 1):
            roles = {"node-role.kubernetes.io/control-plane": ""} if number <= members else {}
            self.put("nodes", node(f"n{number}", labels={"zone": "ab"[number % 2], **roles}))

    def after(self, seconds: float) -> "Tale":
        """With somebody who leads all the time."""
        ends = self.at + seconds
        while self.at + 10 < ends:
            self.at += 10
            self.put(LEASES, lease(HOME, "defib-leader", LEADER, self.at, 15))
        self.at = ends
        return self

    def put(self, resource: str, item: Object, by: str = "") -> Object:
        before = self._stored.get((resource, key_of(item)))
        uid = before.object["metadata"]["uid"] if before else f"uid-{next(self._numbers)}"
        stored = {**item, "metadata": {"uid": uid, **item["metadata"]}}
        now = self._stored[resource, key_of(item)] = Version(stored, next(self._numbers))
        self.entries.append(Written(self.at, Change(resource, MODIFIED if before else ADDED, before, now), by))
        return stored

    def drop(self, resource: str, key: str, by: str = "") -> None:
        before = self._stored.pop((resource, key))
        now = Version(before.object, next(self._numbers))
        self.entries.append(Written(self.at, Change(resource, DELETED, before, now), by))

    def there(self, resource: str, key: str) -> Object:
        return self._stored[resource, key].object

    def asks(self, method: str, path: str, body: Object | None = None, **more: Any) -> None:
        request = Request(method=method, path=path, body=msgspec.json.encode(body) if body is not None else b"")
        given = {"replica": LEADER, "holder": LEADER} | more
        self.entries.append(Asked(at=self.at, request=request, **given))

    def switches(self, name: str, power: str, holder: str = LEADER, blind_seconds: float = 0.0) -> None:
        self.entries.append(Switched(self.at, LEADER, name, power, holder, blind_seconds))

    def happens(self, what: str) -> None:
        self.entries.append(Happened(self.at, what))

    # What is often told

    def falls_ill(self, name: str) -> None:
        known = self.there("nodes", name)
        self.put("nodes", {**known, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})

    def recovers(self, name: str) -> None:
        known = self.there("nodes", name)
        self.put("nodes", {**known, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    def locks(self, name: str, holder: str = medik8s.holder_of(CHECK), seconds: int = 600) -> None:
        self.put(LEASES, lease(medik8s.LOCK_NAMESPACE, f"node-{name}", holder, self.at, seconds))

    def begins(self, name: str, resource: str = POWER, owner: str = CHECK) -> str:
        """A remediation of a node; its key."""
        owners = [{"kind": medik8s.CHECK_KIND, "name": owner, "uid": "x"}] if owner else []
        meta = {"name": f"{name}-{next(self._numbers)}", "namespace": HOME, "annotations": {medik8s.NODE_NAME: name}}
        spec = {"power": {"driver": "hollow"}}
        return key_of(self.put(resource, {"metadata": meta | {"ownerReferences": owners}, "spec": spec}))

    def is_in(self, name: str, phase: str, **status: Any) -> None:
        """The incident of a node; its cause is the latest remediation, if there is one."""
        causes = [version.object["metadata"]["uid"] for (kind, _), version in self._stored.items() if kind == POWER]
        spec = {"node": name, "cause": {"uid": causes[-1] if causes else ""}}
        self.put(INCIDENTS, {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase, **status}})

    def broken(self) -> list[str]:
        """The invariants that were, each once."""
        return sorted({finding.invariant for finding in judge(self.entries, self.at)})


def check_spec(more: Object) -> Object:
    template = {"apiVersion": "defib.dev/v1alpha1", "kind": "PowerCycleRemediationTemplate", "name": "t"}
    conditions = [{"type": "Ready", "status": status, "duration": "10s"} for status in ("Unknown", "False")]
    usual: Object = {
        "selector": {},
        "unhealthyConditions": conditions,
        "remediationTemplate": {**template, "namespace": HOME},
        "maxUnhealthy": "100%",
    }
    return usual | more


def node(name: str, ready: str = "True", labels: Object | None = None, **spec: Any) -> Object:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}


def lease(namespace: str, name: str, holder: str, at: float, seconds: int) -> Object:
    renewed = f"{START + timedelta(seconds=at):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def database(name: str, on: str) -> Object:
    meta = {"name": name, "namespace": "shop", "uid": "u", "labels": {"app": "db"}}
    return {"metadata": meta | {"ownerReferences": [{"kind": "StatefulSet", "name": "db"}]}, "spec": {"nodeName": on}}


def fenced(**status: Any) -> Tale:
    """A node that is out, with a database on it."""
    tale = Tale()
    tale.put("pods", database("db-0", "n1"))
    tale.falls_ill("n1")
    tale.locks("n1")
    tale.begins("n1")
    tale.is_in("n1", "FreeingWorkloads", **status)
    return tale
