"""From when on nobody else can still believe that they lead, by what the members of a group were seen to tell. Pure.

Each member tells, with every renewal, whether it has the lock or still acts by it, and a number that grows. Whoever gets
the lock waits until each of the others has said that it does no longer, or was seen silent for a whole lease; and where
something may have escaped us, for a whole lease from then on, or until we see somebody act who has waited for that.
"""

import math
from collections.abc import Mapping

import msgspec


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a member tells of itself."""

    name: str
    holds: bool  # it has the lock, or has a mandate still
    acts: bool  # it has a mandate: before it got that, all others were over
    renewals: int
    is_leaving: bool = False


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What one renewal found: whether the lock is ours, and what the others told after we had it."""

    owns: bool
    hold: int  # which of our holds on the lock it is: a number stands for one from when we got it until we lost it
    is_newcomer: bool  # the store knew nothing of us: either we have just come, or it has forgotten
    others: Mapping[str, Told]


class Rival(msgspec.Struct, frozen=True):
    """Another one that told that it holds the lock, and since when we have heard nothing new of it."""

    name: str
    renewals: int
    since: float


class Rivals(msgspec.Struct, frozen=True, kw_only=True):
    lease_seconds: float
    looked: float  # when the last answer came
    not_before: float  # until then somebody may lead of whom nothing was seen
    holding: Mapping[str, Rival] = {}  # by the member's id
    alone_in: int = 0  # the hold of ours during which all others were seen to be over

    @property
    def are_over(self) -> float:
        """From then on, whoever has the lock is the only one who acts by it."""
        silences = (rival.since + self.lease_seconds for rival in self.holding.values())
        return max(self.not_before, *silences) if self.holding else self.not_before


def unknown(lease_seconds: float, monotonic: float) -> Rivals:
    """We have just come, or the store has forgotten us and perhaps others: who led until now cannot be seen."""
    return Rivals(lease_seconds=lease_seconds, looked=monotonic, not_before=monotonic + lease_seconds)


def saw(rivals: Rivals, look: Look, monotonic: float) -> Rivals:
    """What is known after one more look at the others, whose answer came at this time."""
    if look.is_newcomer:
        rivals = unknown(rivals.lease_seconds, monotonic)
    not_before = _not_before(rivals, look.others, monotonic)
    holding = {
        id_: _seen(rivals.holding.get(id_), one, monotonic) for id_, one in sorted(look.others.items()) if one.holds
    }
    known = msgspec.structs.replace(rivals, looked=monotonic, not_before=not_before, holding=holding)
    is_alone = look.owns and monotonic >= known.are_over
    return msgspec.structs.replace(known, alone_in=look.hold) if is_alone else known


def may_act(rivals: Rivals, look: Look) -> bool:
    """While we hold the lock nobody else can get it, so having been alone with it once is enough."""
    return look.owns and look.hold == rivals.alone_in


def _not_before(rivals: Rivals, told: Mapping[str, Told], monotonic: float) -> float:
    if any(one.acts and _is_news(rivals.holding.get(id_), one) for id_, one in told.items()):
        return -math.inf
    was_away = monotonic - rivals.looked > rivals.lease_seconds  # somebody may have come, led and gone unseen
    vanished = [rival for id_, rival in rivals.holding.items() if id_ not in told]
    if was_away or not all(_was_over(rival, rivals) for rival in vanished):
        return monotonic + rivals.lease_seconds
    return rivals.not_before


def _seen(before: Rival | None, told: Told, monotonic: float) -> Rival:
    if before is not None and before.renewals == told.renewals:
        return before
    return Rival(told.name, told.renewals, monotonic)


def _is_news(before: Rival | None, told: Told) -> bool:
    """Whether it was told since our last look; what is read for the first time may be old."""
    return before is not None and before.renewals != told.renewals


def _was_over(rival: Rival, rivals: Rivals) -> bool:
    """Whether it had been silent for a whole lease when it was last seen. One that vanishes earlier may still act."""
    return rivals.looked - rival.since >= rivals.lease_seconds
