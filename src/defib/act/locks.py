"""Taking, renewing and giving back the lock of a node. Every write is a compare-and-swap, so two never hold one."""

import math
from datetime import UTC, datetime
from typing import Any

import msgspec

from defib.act.means import REQUEST_SECONDS, Means
from defib.act.outcome import Held
from defib.kube.client import Deletion, Merge
from defib.kube.errors import Conflict, KubeError, NotFound, ServerFailed, Unreachable
from defib.kube.kinds import LEASES, NAMESPACES, Ref
from defib.model import medik8s
from defib.model.lock import Claim, held_by_another, is_held
from defib.model.node import Lease

TRIES = 3  # losing a race once is ordinary; twice means that somebody fights for it


class Locked(msgspec.Struct, frozen=True):
    """We hold it. `is_new`: nobody had it before, so taking it back leaves no trace."""

    lease: Lease
    is_new: bool


async def take_lock(means: Means, claim: Claim) -> Locked | Held:
    """Create, renew or take over, starting from what we know of it; a lost race is judged again by a live look."""
    known = claim.known
    if held_by_another(known, claim.holder, means.clock.now()):
        known = await means.live(_ref(means, claim))
    tries = 0
    while True:
        if by := held_by_another(known, claim.holder, means.clock.now()):
            return Held(by)
        try:
            locked = await (_create(means, claim) if known is None else _take_over(means, claim, known))
        except (Conflict, NotFound, ServerFailed, Unreachable):
            tries += 1
            if tries == TRIES:
                raise
        else:
            means.note(LEASES, locked.lease)
            return locked
        known = await means.live(_ref(means, claim))


async def give_back(means: Means, locked: Locked) -> KubeError | None:
    """Undo a lock that we took for nothing. If that fails, it ends by itself, so it is told and no more."""
    meta = locked.lease.metadata
    try:
        how = Deletion(uid=meta.uid, version=meta.resource_version)
        await means.client.delete(LEASES.of(locked.lease), how, deadline=REQUEST_SECONDS)
    except KubeError as error:
        return error
    return None


def _ref(means: Means, claim: Claim) -> Ref[Lease]:
    return LEASES.at(medik8s.lock_of(claim.node), means.lock_namespace)


async def _create(means: Means, claim: Claim) -> Locked:
    now = means.clock.now()
    body = {
        "metadata": {"name": medik8s.lock_of(claim.node), "ownerReferences": [_owner(claim)]},
        "spec": _held_from(claim, now) | {"acquireTime": _stamp(now), "leaseTransitions": 0},
    }
    namespace = means.lock_namespace
    try:
        lease = await means.client.create(LEASES, body, namespace=namespace, deadline=REQUEST_SECONDS)
    except NotFound:  # for a new lock that can only mean its namespace
        await means.client.create(NAMESPACES, {"metadata": {"name": namespace}}, deadline=REQUEST_SECONDS)
        lease = await means.client.create(LEASES, body, namespace=namespace, deadline=REQUEST_SECONDS)
    return Locked(lease, is_new=True)


async def _take_over(means: Means, claim: Claim, known: Lease) -> Locked:
    now = means.clock.now()
    spec = _held_from(claim, now)
    if known.spec.holder_identity != claim.holder:
        spec |= {"acquireTime": _stamp(now), "leaseTransitions": (known.spec.lease_transitions or 0) + 1}
    elif not is_held(known, now):
        spec |= {"acquireTime": _stamp(now)}
    patch = {"metadata": _same(known) | _owned(known, claim), "spec": spec}
    lease = await means.client.patch(LEASES.of(known), Merge(patch), deadline=REQUEST_SECONDS)
    return Locked(lease, is_new=False)


def _held_from(claim: Claim, now: datetime) -> dict[str, Any]:
    seconds = max(math.ceil(claim.length.total_seconds()), 1)
    return {"holderIdentity": claim.holder, "leaseDurationSeconds": seconds, "renewTime": _stamp(now)}


def _same(known: Lease) -> dict[str, Any]:
    return {"uid": known.uid, "resourceVersion": known.metadata.resource_version}


def _owned(known: Lease, claim: Claim) -> dict[str, Any]:
    """A lock that only belongs to an earlier node of that name would be collected while we hold it."""
    owners = known.metadata.owner_references or []
    if any(owner.uid == claim.node_uid for owner in owners):
        return {}
    return {"ownerReferences": [*msgspec.to_builtins(owners), _owner(claim)]}


def _owner(claim: Claim) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Node", "name": claim.node, "uid": claim.node_uid}


def _stamp(now: datetime) -> str:
    """Leases want microseconds, also when they are zero."""
    return f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
