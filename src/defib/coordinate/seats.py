"""Which buckets this replica should take, and which it should give away, from what it has seen of all replicas. Pure.

Each replica thinks for itself and may see others than its neighbours do. That costs time and never safety: a bucket
changes hands by its own lock alone, and only after its holder has let it go or has been silent for a lease.
"""

from collections.abc import Mapping

import msgspec

from defib.coordinate.election import Candidate, Record, Sight, saw
from defib.coordinate.shards import preferences

BUCKETS = 32  # the same for all replicas of all versions: else they would not agree on what a bucket holds


class Member(msgspec.Struct, frozen=True):
    """A replica as its own Lease shows it, and since when we have known it."""

    sight: Sight
    first_seen: float

    def is_live(self, monotonic: float) -> bool:
        record, since = self.sight.record, self.sight.since
        return (
            record is not None
            and since is not None
            and bool(record.holder)
            and monotonic < since + record.lease_seconds
        )


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Who should have which bucket, as we see it."""

    members: tuple[str, ...] = ()
    wanted: Mapping[int, str] = {}
    settled: frozenset[str] = frozenset()  # only to them something is handed over: they have been here for a lease


def met(members: Mapping[str, Member], name: str, record: Record, version: str, monotonic: float) -> Member:
    """A member's Lease was read."""
    known = members.get(name) or Member(Sight(), monotonic)
    return msgspec.structs.replace(known, sight=saw(known.sight, record, version, monotonic))


def outlook(me: Candidate, members: Mapping[str, Member], monotonic: float, *, is_member: bool) -> Outlook:
    """`is_member`: whether our own Lease says so. Whoever others cannot see must not count itself either."""
    live = {
        one.sight.record.holder: one.first_seen
        for one in members.values()
        if one.is_live(monotonic) and one.sight.record is not None and one.sight.record.holder != me.name
    }
    names = tuple(sorted((*live, me.name) if is_member else live))
    settled = frozenset(name for name, seen in live.items() if monotonic >= seen + me.terms.lease_seconds)
    return Outlook(members=names, wanted=preferences(BUCKETS, names), settled=settled)


class Seat(msgspec.Struct, frozen=True):
    """A bucket as we know it, and since when nobody has had it."""

    sight: Sight = Sight()
    idle_since: float | None = None


def looked_at(seat: Seat, monotonic: float) -> Seat:
    """Whether somebody has it can change by time alone."""
    sight = seat.sight
    if sight.since is None:
        return seat
    if is_held(sight, monotonic):
        return msgspec.structs.replace(seat, idle_since=None)
    return seat if seat.idle_since is not None else msgspec.structs.replace(seat, idle_since=monotonic)


def is_held(sight: Sight, monotonic: float) -> bool:
    """By anybody, as far as we can see."""
    record = sight.record
    if record is None or not record.holder or sight.since is None:
        return False
    return monotonic < sight.since + record.lease_seconds


def should_take(me: Candidate, seen: Outlook, bucket: int, seat: Seat, monotonic: float) -> bool:
    """It is ours by preference; or nobody has wanted it for a whole lease, whoever should."""
    if me.name not in seen.members:
        return False
    if seen.wanted.get(bucket) == me.name:
        return True
    return seat.idle_since is not None and monotonic >= seat.idle_since + me.terms.lease_seconds


def should_give(me: Candidate, seen: Outlook, bucket: int) -> bool:
    """It is another's by preference, who has been here for a while: not every blink moves buckets about."""
    wanted = seen.wanted.get(bucket, me.name)
    return wanted != me.name and wanted in seen.settled
