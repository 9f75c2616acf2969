"""The lock on a node: a Lease that everybody who works on nodes honours, ours as well as upstream's."""

from datetime import datetime, timedelta

import msgspec

from defib.model.moment import is_sensible
from defib.model.node import Lease

SKEW_MAX = timedelta(minutes=5)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the lock of this node for so long. `known` is the lock as we last saw it."""

    node: str
    node_uid: str
    holder: str
    length: timedelta
    known: Lease | None = None


def ends_at(lease: Lease) -> datetime | None:
    """When it ends by itself; None when it is not a lock that anybody can hold."""
    spec = lease.spec
    if spec.renew_time is None or spec.lease_duration_seconds is None or not spec.holder_identity:
        return None
    if not is_sensible(spec.renew_time):
        return None
    return spec.renew_time + length_of(spec.lease_duration_seconds)


def length_of(seconds: int) -> timedelta:
    """Whatever somebody wrote, one that stays in the calendar."""
    return timedelta(seconds=min(max(seconds, 0), 10**8))


def is_held(lease: Lease | None, now: datetime) -> bool:
    """Whether somebody holds it. Clocks differ a little; a renewal from the far future is no renewal."""
    if lease is None:
        return False
    ends = ends_at(lease)
    renewed = lease.spec.renew_time
    return ends is not None and renewed is not None and renewed <= now + SKEW_MAX and now <= ends


def held_by_another(lease: Lease | None, holder: str, now: datetime) -> str:
    """Who holds it, if it is held and not by us; else empty."""
    if lease is None or not is_held(lease, now):
        return ""
    owner = lease.spec.holder_identity or ""
    return "" if owner == holder else owner
