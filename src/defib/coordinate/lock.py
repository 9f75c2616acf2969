"""Where it stands who leads: a Lease, or on clusters without Leases an annotation, written by compare-and-swap alone."""

import math
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from defib.coordinate.election import Record
from defib.kube.client import Client, Merge
from defib.kube.errors import UNREADABLE, NotFound
from defib.kube.kinds import LEASES, Kind, unstructured
from defib.model.meta import Unstructured
from defib.model.moment import read_moment
from defib.model.node import Lease, LeaseSpec

# The record of Kubernetes' first leader elections, as a text in an annotation.
RECORD = "control-plane.alpha.kubernetes.io/leader"
ENDPOINTS: Kind[Unstructured] = unstructured("", "v1", "endpoints", "Endpoints", namespaced=True)
SECONDS_MAX = 10**8
TRANSITIONS_MAX = 2**31 - 2  # one more still fits into what a Lease can hold
UNKNOWN = Record(holder="somebody unknown")
MARK = {"app.kubernetes.io/managed-by": "defib"}
MARKED = ",".join(f"{label}={value}" for label, value in MARK.items())


class Found(msgspec.Struct, frozen=True):
    """What stands there, and its version; both None where there is no such lock yet.

    An object without a record has a version alone.
    """

    record: Record | None = None
    version: str | None = None


class Lock(Protocol):
    """Both raise KubeError. `write` raises Conflict when it is no longer the version that is named."""

    def read(self, seconds: float) -> Awaitable[Found]: ...

    def write(self, record: Record, version: str | None, seconds: float) -> Awaitable[str]:
        """The new version. Without one, the lock is made."""
        ...


class LeaseLock:
    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def read(self, seconds: float) -> Found:
        try:
            lease = await self._client.get(LEASES.at(self._name, self._namespace), deadline=seconds)
        except NotFound:
            return Found()
        return found_in(lease)

    async def write(self, record: Record, version: str | None, seconds: float) -> str:
        spec = spec_of(record)
        if version is None:
            body = {"metadata": {"name": self._name, "labels": MARK}, "spec": spec}
            made = await self._client.create(LEASES, body, namespace=self._namespace, deadline=seconds)
            return made.metadata.resource_version
        patch = Merge({"metadata": {"resourceVersion": version, "labels": MARK}, "spec": spec})
        lease = await self._client.patch(LEASES.at(self._name, self._namespace), patch, deadline=seconds)
        return lease.metadata.resource_version


def found_in(lease: Lease) -> Found:
    return Found(_read_spec(lease.spec), lease.metadata.resource_version)


def _read_spec(spec: LeaseSpec) -> Record:
    return Record(
        holder=spec.holder_identity or "",
        lease_seconds=_seconds(spec.lease_duration_seconds),
        acquired=spec.acquire_time,
        renewed=spec.renew_time,
        transitions=_transitions(spec.lease_transitions),
    )


def _seconds(given: int | None) -> float:
    return float(min(max(given or 0, 0), SECONDS_MAX))


def _transitions(given: int | None) -> int:
    """A stranger's number must not keep everybody from writing the next one."""
    return min(max(given or 0, 0), TRANSITIONS_MAX)


def spec_of(record: Record) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": max(math.ceil(record.lease_seconds), 1),
        "acquireTime": _micro(record.acquired),
        "renewTime": _micro(record.renewed),
        "leaseTransitions": record.transitions,
    }


def _micro(moment: datetime | None) -> str | None:
    """Leases want microseconds, also when they are zero."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}" if moment is not None else None


class EndpointsLock:
    """The same in an annotation of an Endpoints object, as the leader-elector sidecar keeps it."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def read(self, seconds: float) -> Found:
        try:
            item = await self._client.get(ENDPOINTS.at(self._name, self._namespace), deadline=seconds)
        except NotFound:
            return Found()
        text = item.annotations.get(RECORD, "")
        return Found(read_annotation(text) if text else None, item.metadata.resource_version)

    async def write(self, record: Record, version: str | None, seconds: float) -> str:
        marked = {RECORD: annotation_of(record)}
        if version is None:
            body = {"metadata": {"name": self._name, "labels": MARK, "annotations": marked}}
            made = await self._client.create(ENDPOINTS, body, namespace=self._namespace, deadline=seconds)
            return made.metadata.resource_version
        patch = Merge({"metadata": {"resourceVersion": version, "annotations": marked}})
        item = await self._client.patch(ENDPOINTS.at(self._name, self._namespace), patch, deadline=seconds)
        return item.metadata.resource_version


class _Annotation(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    leader_transitions: int = 0


def read_annotation(text: str) -> Record:
    """Whoever wrote what makes no sense may believe that they lead: it is taken when a lease has gone by."""
    try:
        known = msgspec.json.decode(text, type=_Annotation)
    except UNREADABLE:
        return UNKNOWN
    return Record(
        holder=known.holder_identity,
        lease_seconds=_seconds(known.lease_duration_seconds),
        acquired=read_moment(known.acquire_time or ""),
        renewed=read_moment(known.renew_time or ""),
        transitions=_transitions(known.leader_transitions),
    )


def annotation_of(record: Record) -> str:
    known = _Annotation(
        holder_identity=record.holder,
        lease_duration_seconds=max(math.ceil(record.lease_seconds), 1),
        acquire_time=_whole(record.acquired),
        renew_time=_whole(record.renewed),
        leader_transitions=record.transitions,
    )
    return msgspec.json.encode(known).decode()


def _whole(moment: datetime | None) -> str | None:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" if moment is not None else None
