"""How it stands with one drain: what its record should say now, and why."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from defib.decide.drains.failing import failed_at
from defib.decide.drains.survey import DrainLook, PodLook, Record
from defib.decide.drains.turns import Held, Turns
from defib.decide.drains.words import how_it_stands, what_comes_next
from defib.decide.rules import INSTANT
from defib.decide.status import merged, whole, whole_or_none
from defib.model.drain_policy import Strategy
from defib.model.health_check import Mode, StatusCondition
from defib.model.moment import read_moment
from defib.model.node_drain import APPROVED_UNTIL, DrainStatus, Phase, PodEntry

FAILED, FORCING = "Failed", "Forcing"
OUT_OF_SIGHT = "OutOfSight"
MESSAGE_MAX, WHY_MAX = 1024, 256
MOST_ENTRIES = 500


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    look: DrainLook
    record: Record | None
    status: DrainStatus  # as it should be
    due: tuple[PodLook, ...] = ()
    moments: tuple[datetime, ...] = ()  # when something changes though nothing happens

    @property
    def claims(self) -> frozenset[str]:
        """Those of which it matters whether several pods may have them at once, also when that was found out already."""
        leaving = (one.pod for one in self.look.pods if one.pod.is_leaving)
        return frozenset(f"{pod.namespace}/{claim}" for pod in leaving for claim in pod.claims)


def standing_of(look: DrainLook, record: Record | None, turns: Turns, hold: Held | None) -> Standing:
    """`hold` is what holds everything back. A drain that has no record yet takes nobody's place."""
    was, now = look.was, turns.now
    if not look.is_seen and not look.unseen and was.phase is not Phase.PAUSED:  # they are about to be
        moments = (look.told_at + INSTANT,) if look.told_at is not None else ()
        return Standing(look=look, record=record, status=_identified(was, look), moments=moments)
    due = tuple(one for one in look.pods if one.step.is_due(now))
    phase = _phase(look, due, now) if record is not None else Phase.WATCHING
    held = (hold or _unseen(look) or turns.hold(look)) if phase is Phase.FORCING else None
    if held is not None:
        phase = Phase.HELD
    has_place = phase is Phase.FORCING and _needs_place(look)
    if has_place:
        turns.take(look.node.name)
    ahead = [one.step.at for one in look.pods if one.step.at is not None and not one.step.is_due(now)]
    fails_at = failed_at(look, now)
    status = msgspec.structs.replace(
        _identified(DrainStatus(), look),
        phase=phase,
        reason=held.reason if held is not None else "",
        message=(held.message if held is not None else how_it_stands(phase, look, due))[:MESSAGE_MAX],
        begun=has_place or (was.begun and phase is Phase.HELD),
        failed=(fails_at is not None and fails_at < now) if look.is_seen else was.failed,
        pods_left=len(look.pods) if look.is_seen else was.pods_left,
        pods=_entries(look, due if phase is Phase.FORCING else (), now) or None,
        next_at=whole_or_none(min(ahead, default=None)) if not due else None,
        next=what_comes_next(phase, look, due)[:MESSAGE_MAX],
    )
    return Standing(
        look=look,
        record=record,
        status=msgspec.structs.replace(status, conditions=_conditions(was, status, now)),
        due=due,
        moments=tuple(moment + INSTANT for moment in (*ahead, *_turning_points(look, fails_at, now))),
    )


def _identified(status: DrainStatus, look: DrainLook) -> DrainStatus:
    """The same, of this node and this drain."""
    return msgspec.structs.replace(
        status,
        node_uid=look.node.uid,
        policy=look.known.item.name,
        source=look.intent.source,
        why=look.intent.why[:MESSAGE_MAX],
        started_at=whole(look.schedule.started_at),
        peer_deadline=whole_or_none(look.intent.deadline),
    )


def _unseen(look: DrainLook) -> Held | None:
    return Held(OUT_OF_SIGHT, look.unseen) if look.unseen else None


def _turning_points(look: DrainLook, fails_at: datetime | None, now: datetime) -> list[datetime]:
    """When it stands otherwise with the drain though nothing happens, beside when steps become due."""
    moments = (fails_at, look.schedule.turns_at(now), _approved_until(look), look.intent.ends_at)
    return [moment for moment in moments if moment is not None and moment >= now]


def _phase(look: DrainLook, due: tuple[PodLook, ...], now: datetime) -> Phase:
    """Before anybody else is asked. Whoever has begun keeps at it between two steps."""
    if not look.is_seen:
        return Phase.FORCING if look.was.begun else Phase.WATCHING
    if not look.pods:
        return Phase.DRAINED
    is_at_it = look.was.begun and any(one.step.rung is not None for one in look.pods)
    if not due and not is_at_it:
        return Phase.WATCHING
    if look.policy.mode is Mode.OBSERVE:
        return Phase.OBSERVED if due else Phase.WATCHING
    until = _approved_until(look)
    if look.policy.mode is Mode.APPROVE and (until is None or until <= now):
        return Phase.APPROVAL if due else Phase.WATCHING
    return Phase.FORCING


def _needs_place(look: DrainLook) -> bool:
    """Whoever can do nothing but wait for budgets, for ever, forces nobody, and is in nobody's way meanwhile."""
    steps = [one.step for one in look.pods if one.step.rung is not None]
    passes = Strategy.PDB_DELETE in look.policy.strategies
    return passes or any(one.refused_since is None for one in steps)


def _approved_until(look: DrainLook) -> datetime | None:
    return read_moment(look.node.annotations.get(APPROVED_UNTIL, ""))


def _entries(look: DrainLook, due: Iterable[PodLook], now: datetime) -> list[PodEntry]:
    """One for each pod, of its last step. Those of pods that are gone tell what was done to them, while there is room.

    What has no room waits until others are gone: what is not written is not done.
    """
    there = {one.pod.uid for one in look.pods}
    entries = {one.uid: one for one in look.was.pods or ()}
    for one in due:
        pod, step, known = one.pod, one.step, entries.get(one.pod.uid)
        if step.rung is None or step.to_read or (known is not None and known.rung is step.rung):
            continue
        entries.pop(pod.uid, None)  # what is new comes last
        entries[pod.uid] = PodEntry(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            rung=step.rung,
            at=whole(now),
            why=step.why[:WHY_MAX],
        )
    gone = [one for one in entries.values() if one.uid not in there] if look.is_seen else []
    too_many = max(len(entries) - MOST_ENTRIES, 0)
    forgotten = {one.uid for one in gone[:too_many]}
    return [one for one in entries.values() if one.uid not in forgotten][:MOST_ENTRIES]


def _conditions(was: DrainStatus, status: DrainStatus, now: datetime) -> list[StatusCondition]:
    failed = StatusCondition(
        type=FAILED,
        status="True" if status.failed else "False",
        reason="DrainTimeout" if status.failed else "InTime",
        message=status.message if status.failed else "",
    )
    forcing = StatusCondition(
        type=FORCING,
        status="True" if status.phase is Phase.FORCING else "False",
        reason=status.reason or status.phase.value,
        message=status.message,
    )
    return merged(was.conditions or [], [failed, forcing], 0, now)
