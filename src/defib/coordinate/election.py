"""Who leads: from what was seen of a lock, and when, to what to do about it now. Pure: all times are given.

    unknown ──▶ Look ──▶ held by another ──▶ Wait, until nobody has touched it for as long as it lasts
                  │                                     │
                  └── free, or nobody's ────────────────┴──▶ Take ──▶ ours ──▶ Take again, every few seconds
                                                                        │ not for too long, or somebody else has it
                                                                        └──▶ StepDown

Safe without anybody's wall clock: whoever wants the lock waits on their own monotonic clock until they have seen it
unchanged for a whole lease, and whoever has it stops earlier than that, counted from when they began to renew it.
What no lease can prevent: somebody deletes the lock while its holder is cut off, and a replica that starts just then
has never seen it. It takes what looks like a first start at once.
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
LONGEST_SECONDS = 3600.0  # no replica is given a longer lease: one that stands there for longer is a stranger's joke


def problems_of(terms: Terms) -> tuple[str, ...]:
    """Why nobody could lead safely, or at all, on these terms; a line each, with the settings that are concerned."""
    lease, renew, retry = terms.lease_seconds, terms.renew_seconds, terms.retry_seconds
    named = {"--lease-duration": lease, "--renew-deadline": renew, "--retry-period": retry}
    found = [f"{flag}: {seconds:g}s must be more than 0" for flag, seconds in named.items() if seconds <= 0]
    if lease <= renew:
        found.append(
            f"--lease-duration: {lease:g}s must be more than --renew-deadline, {renew:g}s: else another one leads before "
            "this one has stopped; raise it, or lower --renew-deadline"
        )
    if renew <= JITTER * retry:
        found.append(
            f"--renew-deadline: {renew:g}s must be more than {JITTER:g} times --retry-period, {retry:g}s: else one missed "
            "renewal would end everything; raise it, or lower --retry-period"
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
    tried: float | None = None  # from when we count to the next request: the last one began then, or told us something
    is_stale: bool = False  # a write did not work, or nobody knows whether it did: it must be read first
    attempts: tuple[Record, ...] = ()  # what we wrote, or may have: by this we know our own hand, not by a name
    vanished: Record | None = None  # what stood there when it was deleted: somebody may believe that they still have it
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
    if monotonic >= _frees(me, sight, sight.since):
        return Take(taken_by(me, sight.record, now), sight.version)
    return _look(me, sight, monotonic)


def _keep(me: Candidate, sight: Sight, ours_until: float, monotonic: float, now: datetime) -> Step:
    if sight.record is None or not _is_like_ours(sight.record, sight):
        return StepDown(_why_lost(me, sight.record))
    if monotonic >= ours_until:
        return StepDown(f"the lock could not be renewed for {me.terms.renew_seconds:g} s")
    if sight.is_stale:
        step = _look(me, sight, monotonic)
        return Wait(min(step.until, ours_until)) if isinstance(step, Wait) else step
    due = sight.renewed + me.terms.retry_seconds
    return Take(taken_by(me, sight.record, now), sight.version) if monotonic >= due else Wait(min(due, ours_until))


def _why_lost(me: Candidate, record: Record | None) -> str:
    if record is None or not record.holder:
        return "the lock was taken away from us"
    is_twin = record.holder == me.name
    return "somebody else writes the lock in our name" if is_twin else f"{record.holder} has taken the lock"


def _look(me: Candidate, sight: Sight, monotonic: float) -> Step:
    """At least once in a retry period; and at the very moment when the lock becomes free it can be taken."""
    if sight.tried is None:
        return Look()
    due = sight.tried + me.terms.retry_seconds
    if monotonic >= due:
        return Look()
    if sight.since is None or sight.is_stale or not me.is_willing:
        return Wait(due)
    return Wait(min(due, _frees(me, sight, sight.since)))


def _frees(me: Candidate, sight: Sight, since: float) -> float:
    """From when on it may be taken: nobody has it, we wrote it ourselves, or nobody has touched it for a lease.

    A name alone proves nothing: two replicas that were given the same one must not both lead.
    """
    record = sight.record
    if record is None:
        return since + _lasts(me, sight.vanished) if sight.vanished is not None else -math.inf
    if not record.holder or is_by_our_hand(record, sight):
        return -math.inf
    return since + _lasts(me, record)


def _lasts(me: Candidate, record: Record) -> float:
    """As long as it says, and as ours does at least: a stranger who writes a shorter one has not stopped the leader."""
    return max(min(record.lease_seconds, LONGEST_SECONDS), me.terms.lease_seconds)


def is_by_our_hand(record: Record | None, sight: Sight) -> bool:
    """Where a lock keeps whole seconds only, this is never so, and we wait like everybody else."""
    return record is not None and any(
        (record.holder, record.renewed, record.transitions) == (one.holder, one.renewed, one.transitions)
        for one in sight.attempts
    )


def _is_like_ours(record: Record, sight: Sight) -> bool:
    """The same to the second. That is enough to keep what nobody else could have taken in order."""
    return any(
        (record.holder, _whole(record.renewed), record.transitions)
        == (one.holder, _whole(one.renewed), one.transitions)
        for one in sight.attempts
    )


def _whole(moment: datetime | None) -> datetime | None:
    return moment.replace(microsecond=0) if moment is not None else None


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


def handed_back(sight: Sight, now: datetime) -> Take | None:
    """What to write so that another one may have it at once; nothing where, as far as we see, another one has it."""
    record = sight.record
    return Take(released(record, now), sight.version) if record is not None and is_by_our_hand(record, sight) else None


# What becomes of what is known.


def saw(sight: Sight, record: Record | None, version: str | None, monotonic: float) -> Sight:
    """The lock was read. It counts as seen from when the answer came, if it is another one than before."""
    if sight.since is not None and sight.version == version:
        return msgspec.structs.replace(sight, tried=monotonic, is_stale=False)
    return msgspec.structs.replace(
        sight,
        record=record,
        version=version,
        since=monotonic,
        tried=monotonic,
        is_stale=False,
        vanished=_vanished(sight, monotonic) if record is None else None,
        # A version that is not by our hand is newer than all that we tried to change: none of that can come true now.
        attempts=sight.attempts if record is None or _is_like_ours(record, sight) else (),
    )


def _vanished(sight: Sight, monotonic: float) -> Record | None:
    """Whatever we saw there last, another one may have taken it since; but nobody could while it was ours."""
    is_ours = sight.ours_until is not None and monotonic < sight.ours_until
    return None if is_ours else sight.record if sight.record is not None else sight.vanished


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


def failed(sight: Sight, began: float) -> Sight:
    """A request did not work, or nobody knows whether it did. One that hung has cost time enough: no pause follows it."""
    return msgspec.structs.replace(sight, tried=began, is_stale=True)


def trying(sight: Sight, take: Take) -> Sight:
    """It is about to be written; if no answer comes, it may have been all the same. The first stays: it was, if any was."""
    first, *others = *sight.attempts, take.record
    return msgspec.structs.replace(sight, attempts=(first, *others[1 - ATTEMPTS_MAX :]))


def lost(sight: Sight, take: Take, monotonic: float) -> Sight:
    """It was another version by then, or gone: this one, at least, was not written.

    Somebody may have deleted it, and another one has taken what looks like a first start to them. So a leader does not
    wait before it looks; but from look to look it does, as always.
    """
    attempts = tuple(one for one in sight.attempts if one is not take.record)
    tried = monotonic if sight.ours_until is None else sight.tried
    return msgspec.structs.replace(sight, tried=tried, is_stale=True, attempts=attempts)


def stepped_down(sight: Sight) -> Sight:
    """What is known of the lock stays known."""
    return msgspec.structs.replace(sight, ours_until=None)
