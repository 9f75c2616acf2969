"""A cluster that exists only in memory: what would be done to it is done to it as the API server would.

Nothing fails here by itself, and nobody else works on it: no remediator that is not ours, no scheduler, no machine.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from defib.model import medik8s
from defib.model.action import (
    Action,
    ClearNodeAnnotation,
    EndRemediation,
    HoldLock,
    MarkRemediation,
    MovePod,
    ReadClaim,
    ReleaseLock,
    ReportRemediation,
    SetFinalizers,
    StartRemediation,
    Target,
    WriteStatus,
)
from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.lock import Claim, held_by_another
from defib.model.meta import Meta, OwnerReference, Unstructured
from defib.model.node import Lease, LeaseSpec
from defib.model.pod import pods_on

# A claim of which nobody knows better belongs to one pod at a time: whoever is careful assumes that.
EXCLUSIVE = frozenset({"ReadWriteOnce"})

change = msgspec.structs.replace


class Stage:
    """One round of deeds at one instant. Maps of the cluster are copied before they are changed: others rely on them."""

    def __init__(self, cluster: Cluster, lock_namespace: str, version: int) -> None:
        self._cluster = cluster
        self._lock_namespace = lock_namespace
        self._others: dict[str, dict[str, Any]] = {}
        self._locks: dict[str, Lease] | None = None
        self._nodes: dict[str, Any] | None = None
        self._claims = dict(cluster.claims)
        self.version = version

    @property
    def now(self) -> datetime:
        return self._cluster.now

    def carry_out(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """Those that have changed something. What machines and other people do about the rest, nobody can know."""
        return tuple(action for action in actions if self._do(action))

    def after(self) -> Cluster:
        return change(
            self._cluster,
            nodes=self._cluster.nodes if self._nodes is None else self._nodes,
            locks=self._cluster.locks if self._locks is None else self._locks,
            others={**self._cluster.others, **self._others} if self._others else self._cluster.others,
            claims=self._claims if len(self._claims) != len(self._cluster.claims) else self._cluster.claims,
        )

    def _do(self, action: Action) -> bool:
        match action:
            case StartRemediation():
                return self._start(action)
            case EndRemediation(target=target):
                return self._end(target)
            case MarkRemediation(target=target):
                return self._annotate(target, action.annotations)
            case WriteStatus():
                return self._write(medik8s.CHECKS, action.check, action.uid, action.status)
            case _:
                return self._do_less(action)

    def _do_less(self, action: Action) -> bool:
        match action:
            case SetFinalizers():
                return self._finalize(action)
            case ReportRemediation(target=target):
                return self._write(self._shelf_of(target.kind), _key(target), target.uid, action.status)
            case HoldLock(claim=claim):
                return self._hold(claim)
            case ReleaseLock():
                return self._held().pop(f"{action.namespace}/{action.name}", None) is not None
            case _:
                return self._do_least(action)

    def _do_least(self, action: Action) -> bool:
        match action:
            case MovePod():
                return self._move(action)
            case ReadClaim():
                return self._claims.setdefault(f"{action.namespace}/{action.name}", EXCLUSIVE) is EXCLUSIVE
            case ClearNodeAnnotation():
                return self._clear(action)
            case _:
                return False

    # Where things are

    def _shelf(self, name: str) -> dict[str, Any]:
        if name not in self._others:
            self._others[name] = dict(self._cluster.others.get(name, {}))
        return self._others[name]

    def _shelf_of(self, kind: KindRef) -> str:
        """Empty where the cluster has no such kind."""
        served = self._cluster.kinds.get(kind)
        return served.collection if isinstance(served, Served) else ""

    def _held(self) -> dict[str, Lease]:
        if self._locks is None:
            self._locks = dict(self._cluster.locks)
        return self._locks

    def _item(self, shelf: str, key: str, uid: str) -> Any:
        item = self._shelf(shelf).get(key) if shelf else None
        return item if item is not None and item.uid == uid else None

    def _next(self) -> str:
        self.version += 1
        return f"what-if-{self.version}"

    # What is done

    def _start(self, action: StartRemediation) -> bool:
        shelf = self._shelf_of(action.kind)
        meta = action.body["metadata"]
        key = f"{action.namespace}/{meta['name']}" if action.namespace else str(meta["name"])
        if not shelf or key in self._shelf(shelf) or not self._hold(action.claim):
            return False
        self._shelf(shelf)[key] = Unstructured(
            api_version=action.kind.api_version,
            kind=action.kind.name,
            spec=action.body.get("spec"),
            metadata=Meta(
                name=meta["name"],
                namespace=action.namespace,
                uid=self._next(),
                resource_version=self._next(),
                creation_timestamp=self.now.replace(microsecond=0),
                annotations=meta.get("annotations"),
                labels=meta.get("labels"),
                owner_references=msgspec.convert(meta.get("ownerReferences") or [], list[OwnerReference]),
            ),
        )
        return True

    def _end(self, target: Target) -> bool:
        shelf, key = self._shelf_of(target.kind), _key(target)
        item = self._item(shelf, key, target.uid)
        if item is None or item.metadata.deletion_timestamp is not None:
            return False
        if item.metadata.finalizers:
            self._shelf(shelf)[key] = change(item, metadata=change(item.metadata, deletion_timestamp=self.now))
        else:
            del self._shelf(shelf)[key]
        return True

    def _annotate(self, target: Target, annotations: Mapping[str, str | None]) -> bool:
        shelf, key = self._shelf_of(target.kind), _key(target)
        item = self._item(shelf, key, target.uid)
        if item is None:
            return False
        merged = {name: value for name, value in {**item.annotations, **annotations}.items() if value is not None}
        meta = change(item.metadata, annotations=merged, resource_version=self._next())
        self._shelf(shelf)[key] = change(item, metadata=meta)
        return bool(merged != item.annotations)

    def _finalize(self, action: SetFinalizers) -> bool:
        shelf, key = self._shelf_of(action.target.kind), _key(action.target)
        item = self._item(shelf, key, action.target.uid)
        if item is None:
            return False
        if item.metadata.deletion_timestamp is not None and not action.finalizers:
            del self._shelf(shelf)[key]
            return True
        meta = change(item.metadata, finalizers=list(action.finalizers), resource_version=self._next())
        self._shelf(shelf)[key] = change(item, metadata=meta)
        return True

    def _write(self, shelf: str, key: str, uid: str, status: Mapping[str, Any]) -> bool:
        item = self._item(shelf, key, uid)
        if item is None or isinstance(item.status, msgspec.Struct):
            return False
        merged = {name: value for name, value in {**(item.status or {}), **status}.items() if value is not None}
        as_read = msgspec.json.decode(msgspec.json.encode(merged))
        meta = change(item.metadata, resource_version=self._next())
        self._shelf(shelf)[key] = change(item, status=as_read, metadata=meta)
        return True

    def _hold(self, claim: Claim) -> bool:
        name = medik8s.lock_of(claim.node)
        key = f"{self._lock_namespace}/{name}"
        if held_by_another(self._held().get(key), claim.holder, self.now):
            return False
        meta = Meta(name=name, namespace=self._lock_namespace, uid=f"of-{name}", resource_version=self._next())
        spec = LeaseSpec(
            holder_identity=claim.holder,
            lease_duration_seconds=int(claim.length.total_seconds()),
            acquire_time=self.now,
            renew_time=self.now,
        )
        self._held()[key] = Lease(metadata=meta, spec=spec)
        return True

    def _move(self, action: MovePod) -> bool:
        """Its kubelet is dead: asked nicely, it stays for ever and is called terminating."""
        shelf, key = pods_on(action.node), f"{action.namespace}/{action.name}"
        pod = self._item(shelf, key, action.uid)
        if pod is None or pod.is_leaving:
            return False
        if action.grace_seconds == 0:
            del self._shelf(shelf)[key]
        else:
            self._shelf(shelf)[key] = change(pod, metadata=change(pod.metadata, deletion_timestamp=self.now))
        return True

    def _clear(self, action: ClearNodeAnnotation) -> bool:
        node = self._cluster.nodes.get(action.node)
        if node is None or action.annotation not in node.annotations:
            return False
        kept = {key: value for key, value in node.annotations.items() if key != action.annotation}
        nodes = dict(self._cluster.nodes) if self._nodes is None else self._nodes
        self._nodes = {**nodes, action.node: change(node, metadata=change(node.metadata, annotations=kept))}
        return True


def _key(target: Target) -> str:
    return f"{target.namespace}/{target.name}" if target.namespace else target.name
