"""What another duration, the fast path or another budget would have done over the spells that were written down.

An act is regretted when the node came back by itself soon after it. Often that cannot be told: the node was remediated, went
away, or is still ill. Then the spell is cut short there, and what it would have come to counts as not known, never as good.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

import msgspec

from defib.model.health_check import SPELLS_OPEN_MAX, FastPath, Spell
from defib.model.pulse import Pulse
from defib.model.target import HEARTBEAT, MISSED

SOON = timedelta(minutes=5)  # a remediation takes about as long: who was back before that was remediated in vain
TOUCH = timedelta(seconds=2)  # times are whole seconds
AT_ONCE = timedelta()
# With the usual rhythm of heartbeats, so long after the last one.
SUSPECTED_AFTER = timedelta(seconds=Pulse(0.0).due(FastPath().missed))


class Stretch(msgspec.Struct, frozen=True):
    """One condition with one status, without a break: what a duration is counted on."""

    type: str
    status: str
    began: datetime
    until: datetime


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """A node was ill, by one condition after the other, until it was well or nobody can tell any more.

    `known_until`: so long it was left to itself. `came_back`: it was left to itself until it was well.
    """

    node: str
    began: datetime
    until: datetime
    stretches: tuple[Stretch, ...]
    known_until: datetime
    came_back: bool
    goes_on: bool = False
    silent_since: datetime | None = None


def outages_of(spells: Iterable[Spell], now: datetime) -> tuple[Outage, ...]:
    """Spells of one node that touch are one outage. In the order of time."""
    joined: dict[str, list[list[Spell]]] = {}
    for spell in sorted(spells, key=lambda one: (one.began, one.ended or now)):
        of_node = joined.setdefault(spell.node, [])
        if of_node and spell.began <= max(one.ended or now for one in of_node[-1]) + TOUCH:
            of_node[-1].append(spell)
        else:
            of_node.append([spell])
    found = (_outage(parts, now) for of_node in joined.values() for parts in of_node)
    return tuple(sorted(found, key=lambda one: (one.began, one.node)))


def _outage(parts: list[Spell], now: datetime) -> Outage:
    began, last = parts[0].began, max(parts, key=lambda one: one.ended or now)
    until = last.ended or now
    touched = min((one.remediated for one in parts if one.remediated is not None), default=None)
    return Outage(
        node=last.node,
        began=began,
        until=until,
        stretches=tuple(Stretch(one.type, one.status, one.began, one.ended or now) for one in parts),
        known_until=until if touched is None else min(max(began, touched), until),
        came_back=touched is None and last.healed,
        goes_on=any(one.ended is None for one in parts),
        silent_since=min((one.silent_since for one in parts if one.silent_since is not None), default=None),
    )


def as_silences(outages: Iterable[Outage]) -> tuple[Outage, ...]:
    """As a fast path would have met those that fell silent: the earliest that it could have been sure, if it ever was."""
    return tuple(
        msgspec.structs.replace(one, stretches=(Stretch(HEARTBEAT, MISSED, at, one.until),))
        for one in outages
        if one.silent_since is not None and (at := one.silent_since + SUSPECTED_AFTER) <= one.until
    )


class Crowd:
    """How many nodes were ill at any moment, by whichever condition."""

    def __init__(self, outages: Sequence[Outage]) -> None:
        self._began = sorted(one.began for one in outages)
        self._ended = sorted(one.until for one in outages if not one.goes_on)

    def at(self, moment: datetime) -> int:
        return bisect_right(self._began, moment) - bisect_left(self._ended, moment)

    def right_after(self, moment: datetime) -> int:
        return bisect_right(self._began, moment) - bisect_right(self._ended, moment)

    @property
    def most(self) -> int:
        return max((self.at(moment) for moment in self._began), default=0)

    def fewer_between(self, start: datetime, stop: datetime) -> list[datetime]:
        """The moments after which one of them is no longer ill."""
        return self._ended[bisect_left(self._ended, start) : bisect_left(self._ended, stop)]


class Budget(msgspec.Struct, frozen=True):
    """Nothing new is begun while more nodes than that are ill."""

    crowd: Crowd
    most_ill: int

    def first_allowed(self, start: datetime, stop: datetime) -> datetime | None:
        # Where as many are written down as can be, there may have been any number.
        most = min(self.most_ill, SPELLS_OPEN_MAX - 1)
        if self.crowd.at(start) <= most:
            return start
        later = self.crowd.fewer_between(start, stop)
        return next((moment for moment in later if self.crowd.right_after(moment) <= most), None)


Wait = Callable[[Stretch], timedelta | None]
"""How long a condition must last before it is acted on; None: for ever."""


def always(length: timedelta) -> Wait:
    return lambda _: length


class Fate(Enum):
    """What an alternative comes to for one outage: acted on, and then; or not."""

    CAME_BACK = auto()  # soon, and by itself: it need not have been
    STAYED = auto()  # ill, for longer than soon
    NOT_KNOWN = auto()
    HELD = auto()  # due, and the budget never let it
    UNSURE = auto()  # cut short before it was due
    OVER = auto()  # before it was due


ACTED = (Fate.CAME_BACK, Fate.STAYED, Fate.NOT_KNOWN)


class Tally(msgspec.Struct, frozen=True):
    """`sooner`: by how much those that did not come back soon would have been acted on before they were, or were well."""

    fates: Mapping[Fate, int]
    sooner: timedelta

    @property
    def acted(self) -> int:
        return sum(self.fates[fate] for fate in ACTED)


def tally(outages: Iterable[Outage], wait: Wait, budget: Budget) -> Tally:
    fates, sooner = Counter[Fate](), timedelta()
    for one in outages:
        acted_at = _acted_at(one, wait, budget)
        fate = _not_acted_on(one, wait) if acted_at is None else _acted_on(one, acted_at)
        fates[fate] += 1
        if acted_at is not None and fate is not Fate.CAME_BACK:
            sooner += one.known_until - acted_at
    return Tally(fates, sooner)


def _acted_on(one: Outage, at: datetime) -> Fate:
    if one.came_back and one.until <= at + SOON:
        return Fate.CAME_BACK
    return Fate.STAYED if one.known_until >= at + SOON else Fate.NOT_KNOWN


def _not_acted_on(one: Outage, wait: Wait) -> Fate:
    if any(True for _ in _due(one, wait)):
        return Fate.HELD
    return Fate.OVER if one.came_back else Fate.UNSURE


def _acted_at(one: Outage, wait: Wait, budget: Budget) -> datetime | None:
    found = (budget.first_allowed(start, stop) for start, stop in _due(one, wait))
    return min((moment for moment in found if moment is not None), default=None)


def _due(one: Outage, wait: Wait) -> Iterator[tuple[datetime, datetime]]:
    """From when to when it counts as unhealthy, as far as it was left to itself."""
    for stretch in one.stretches:
        length = wait(stretch)
        stop = min(stretch.until, one.known_until)
        if length is not None and stretch.began + length <= stop:
            yield stretch.began + length, stop
