"""Which buckets this replica should take, and which it should give away, from what it has seen of all replicas. Pure.

Each replica thinks for itself and may see others than its neighbours do. That costs time and never safety: a bucket
changes hands by its own lock alone, and only after its holder has let it go or has been silent for a lease.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from defib.coordinate.election import Candidate, Record, Sight, Step, next_step, saw
from defib.coordinate.shards import preferences

BUCKETS = 32  # the same for all replicas of all versions: else they would not agree on what a bucket holds


class Member(msgspec.Struct, frozen=True):
    """A replica as its own Lease shows it, and since when it has been there without a break, as far as we know."""

    sight: Sight
    since: float

    def is_live(self, monotonic: float) -> bool:
        return is_held(self.sight, monotonic)

    @property
    def name(self) -> str:
        return self.sight.record.holder if self.sight.record is not None else ""


def is_held(sight: Sight, monotonic: float) -> bool:
    """By anybody, as far as we can see."""
    record = sight.record
    if record is None or not record.holder or sight.since is None:
        return False
    return monotonic < sight.since + record.lease_seconds


def met(known: Member | None, record: Record, version: str, monotonic: float) -> Member:
    """A member's Lease was read. One that was silent for too long has come anew."""
    if known is None or not known.is_live(monotonic):
        known = Member(known.sight if known is not None else Sight(), monotonic)
    return msgspec.structs.replace(known, sight=saw(known.sight, record, version, monotonic))


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """Who should have which bucket, as we see it."""

    members: tuple[str, ...] = ()
    wanted: Mapping[int, str] = {}
    settled: frozenset[str] = frozenset()  # only to them something is handed over: they have been here for a lease


def outlook(
    me: Candidate, members: Mapping[str, Member], monotonic: float, *, is_member: bool, buckets: int = BUCKETS
) -> Outlook:
    """`is_member`: whether our own Lease says so. Whoever others cannot see must not count itself either."""
    live = {one.name: one.since for one in members.values() if one.is_live(monotonic) and one.name != me.name}
    names = tuple(sorted((*live, me.name) if is_member else live))
    settled = frozenset(name for name, since in live.items() if monotonic >= since + me.terms.lease_seconds)
    return Outlook(members=names, wanted=preferences(buckets, names), settled=settled)


class Seat(msgspec.Struct, frozen=True):
    """A bucket as we know it."""

    number: int
    sight: Sight = Sight()
    idle_since: float | None = None  # since when nobody has had it; None: somebody has, or nobody has looked yet
    neglected: str = ""  # who should have it, and has left it idle for a whole lease
    is_leaving: bool = False  # it is ours, and another should have it: nothing new is begun, and then it is let go

    @property
    def is_ours(self) -> bool:
        return self.sight.ours_until is not None


def looked_at(me: Candidate, seen: Outlook, seat: Seat, monotonic: float) -> Seat:
    """Whether somebody has it, and who should, can change by time alone."""
    idle_since = seat.idle_since
    if is_held(seat.sight, monotonic):
        idle_since = None
    elif idle_since is None and seat.sight.since is not None:
        idle_since = monotonic
    wanted = seen.wanted.get(seat.number, "")
    is_idle = idle_since is not None and monotonic >= idle_since + me.terms.lease_seconds
    now = Seat(
        number=seat.number,
        sight=seat.sight,
        idle_since=idle_since,
        neglected=wanted if is_idle or seat.neglected == wanted else "",
        # Only to one who has been here for a while, and would take it: not every blink moves buckets about.
        is_leaving=seat.is_ours and wanted != me.name and wanted in seen.settled and wanted != seat.neglected,
    )
    return seat if now == seat else now


def step_for(me: Candidate, seen: Outlook, seat: Seat, monotonic: float, now: datetime) -> Step:
    """What to do about its lock, as one would about any lock; but not everybody wants each of them."""
    is_willing = me.name in seen.members and (seen.wanted[seat.number] == me.name or bool(seat.neglected))
    return next_step(me if is_willing else msgspec.structs.replace(me, is_willing=False), seat.sight, monotonic, now)
