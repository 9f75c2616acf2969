"""Who leads: from what was seen of a lock, and when, to what to do about it now. Pure: all times are given.

    unknown ──▶ Look ──▶ held by another ──▶ Wait, until nobody has touched it for as long as it lasts
                  │                                     │
                  └── free, or nobody's ────────────────┴──▶ Take ──▶ ours ──▶ Take again, every few seconds
                                                                        │ not for too long, or somebody else has it
                                                                        └──▶ StepDown

Safe without anybody's wall clock: whoever wants the lock waits on their own monotonic clock until they have seen it
unchanged for a whole lease, and whoever has it stops earlier than that, counted from when they began to renew it.
"""

import math
from datetime import datetime

import msgspec


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """`lease`: so long others must wait. `renew`: after so long without a renewal we stop. `retry`: how often we try."""

    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0


ATTEMPTS_MAX = 8
JITTER = 1.2  # a try may come so much later than planned


def problems_of(terms: Terms) -> tuple[str, ...]:
    """Why nobody could lead safely, or at all, on these terms; one sentence each."""
    found = [
        f"{name} must be more than 0"
        for name, seconds in (
            ("the lease", terms.lease_seconds),
            ("the renew deadline", terms.renew_seconds),
            ("the retry period", terms.retry_seconds),
        )
        if seconds <= 0
    ]
    if terms.lease_seconds <= terms.renew_seconds:
        found.append("the lease must be longer than the renew deadline: else another leads before this one has stopped")
    if terms.renew_seconds <= JITTER * terms.retry_seconds:
        found.append(
            f"the renew deadline must be more than {JITTER:g} times the retry period: else nobody could keep it"
        )
    return tuple(found)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the lock. Its times are for people: nobody decides by them."""

    holder: str = ""
    lease_seconds: float = 0.0
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0


FREE = Record()


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What one candidate knows. `record` and `version` are None where there is no such lock yet."""

    record: Record | None = None
    version: str | None = None
    since: float | None = None  # since when it has been seen unchanged; None: it was never seen
    tried: float | None = None  # when the last request ended
    is_stale: bool = False  # a write did not work, or nobody knows whether it did: it must be read first
    attempts: tuple[Record, ...] = ()  # what we wrote, or may have: by this we know our own hand, not by a name
    not_before: float = -math.inf  # somebody had it and it vanished: until then they may believe that they still do
    renewed: float = 0.0  # when the last renewal began that worked
    ours_until: float | None = None  # while we lead: when we must have stopped


class Look(msgspec.Struct, frozen=True):
    """Read the lock."""


class Take(msgspec.Struct, frozen=True):
    """Write this record, if the lock is still the version that was seen."""

    record: Record
    version: str | None


class Wait(msgspec.Struct, frozen=True):
    until: float


class StepDown(msgspec.Struct, frozen=True):
    why: str


Step = Look | Take | Wait | StepDown


class Candidate(msgspec.Struct, frozen=True):
    """Who we are, on which terms, and whether we want to lead."""

    name: str
    terms: Terms = Terms()
    is_willing: bool = True


def next_step(me: Candidate, sight: Sight, monotonic: float, now: datetime) -> Step:
    """`now` is only written down, for people."""
    if sight.ours_until is not None:
        return _keep(me, sight, sight.ours_until, monotonic, now)
    if sight.since is None or sight.is_stale or not me.is_willing:
        return _look(me, sight, monotonic)
    if is_free(sight, monotonic):
        return Take(taken_by(me, sight.record, now), sight.version)
    return _look(me, sight, monotonic)


def _keep(me: Candidate, sight: Sight, ours_until: float, monotonic: float, now: datetime) -> Step:
    if sight.record is None or sight.record.holder != me.name:
        by = sight.record.holder if sight.record is not None else ""
        return StepDown(f"{by} has taken the lock" if by else "the lock was taken away from us")
    if monotonic >= ours_until:
        return StepDown(f"the lock could not be renewed for {me.terms.renew_seconds:g} s")
    if sight.is_stale:
        step = _look(me, sight, monotonic)
        return Wait(min(step.until, ours_until)) if isinstance(step, Wait) else step
    due = sight.renewed + me.terms.retry_seconds
    return Take(taken_by(me, sight.record, now), sight.version) if monotonic >= due else Wait(min(due, ours_until))


def _look(me: Candidate, sight: Sight, monotonic: float) -> Step:
    """Now and then; and at the very moment when the lock becomes free, if nobody touches it, it can be taken."""
    if sight.tried is None:
        return Look()
    due = sight.tried + me.terms.retry_seconds
    if monotonic >= due:
        return Look()
    if sight.since is None or sight.is_stale or not me.is_willing:
        return Wait(due)
    frees = sight.since + sight.record.lease_seconds if sight.record is not None else sight.not_before
    return Wait(min(due, frees))


def is_free(sight: Sight, monotonic: float) -> bool:
    """Whether it may be taken: nobody has it, we wrote it ourselves, or nobody has touched it for as long as it lasts.

    A name alone proves nothing: two replicas that were given the same one must not both lead.
    """
    record = sight.record
    if record is None:
        return monotonic >= sight.not_before
    if not record.holder or is_by_our_hand(record, sight):
        return True
    return sight.since is not None and monotonic >= sight.since + record.lease_seconds


def is_by_our_hand(record: Record, sight: Sight) -> bool:
    """Where a lock keeps whole seconds only, this is never so, and we wait like everybody else."""
    return any(
        (record.holder, record.renewed, record.transitions) == (one.holder, one.renewed, one.transitions)
        for one in sight.attempts
    )


def taken_by(me: Candidate, before: Record | None, now: datetime) -> Record:
    is_ours = before is not None and before.holder == me.name
    return Record(
        holder=me.name,
        lease_seconds=me.terms.lease_seconds,
        acquired=before.acquired if before is not None and is_ours else now,
        renewed=now,
        transitions=0 if before is None else before.transitions + (not is_ours),
    )


def released(before: Record, now: datetime) -> Record:
    """Whoever sees this may take it at once."""
    return msgspec.structs.replace(before, holder="", lease_seconds=1.0, acquired=now, renewed=now)


# What becomes of what is known.


def saw(sight: Sight, record: Record | None, version: str | None, monotonic: float) -> Sight:
    """The lock was read. It counts as seen from when the answer came, if it is another one than before."""
    is_same = sight.since is not None and sight.version == version
    since = sight.since if is_same else monotonic
    not_before = sight.not_before
    before = sight.record
    if record is None and before is not None and before.holder and not is_by_our_hand(before, sight):
        not_before = monotonic + before.lease_seconds
    return msgspec.structs.replace(
        sight, record=record, version=version, since=since, tried=monotonic, is_stale=False, not_before=not_before
    )


class Written(msgspec.Struct, frozen=True):
    """A write that worked: what, as which version, when it was begun, and when the answer came."""

    record: Record
    version: str
    began: float
    ended: float


def wrote(me: Candidate, sight: Sight, written: Written) -> Sight:
    """It is ours, counted from when the write was begun: later than that it was written, and others count from then."""
    return msgspec.structs.replace(
        sight,
        record=written.record,
        version=written.version,
        attempts=(written.record,),
        since=written.ended,
        tried=written.ended,
        renewed=written.began,
        ours_until=written.began + me.terms.renew_seconds,
        is_stale=False,
    )


def failed(sight: Sight, monotonic: float) -> Sight:
    """A request did not work, or nobody knows whether it did."""
    return msgspec.structs.replace(sight, tried=monotonic, is_stale=True)


def trying(sight: Sight, take: Take) -> Sight:
    """It is about to be written; if no answer comes, it may have been all the same."""
    return msgspec.structs.replace(sight, attempts=(*sight.attempts, take.record)[-ATTEMPTS_MAX:])


def lost(sight: Sight, take: Take, monotonic: float) -> Sight:
    """It was another version by then: this one, at least, was not written."""
    attempts = tuple(one for one in sight.attempts if one is not take.record)
    return msgspec.structs.replace(sight, tried=monotonic, is_stale=True, attempts=attempts)


def stepped_down(sight: Sight) -> Sight:
    """What is known of the lock stays known."""
    return msgspec.structs.replace(sight, ours_until=None)
