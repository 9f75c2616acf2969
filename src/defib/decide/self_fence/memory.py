"""What an agent keeps of its talk with the API server. Times are of its own monotonic clock."""

import math
from collections import Counter

import msgspec

from defib.decide.self_fence.verdict import Peer, Reason, Round, Sight, Verdict, judge
from defib.model.self_fence import Pace

NEVER = -math.inf


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """`steady_since`: from then on, it could not have told anybody that it is cut off.

    `renews`: what is asked now is a renewal, and not a read. `renewed` is the newest renewal that was answered and came right
    after a request that was: by it others hear us.
    """

    sequence: int = 0
    answered: int = 0
    renews: bool = True
    renewed: int = -1
    own_at: float = NEVER
    word_at: float = NEVER
    steady_since: float = math.inf
    is_ordered: bool = False

    def is_cut_off(self, now: float, pace: Pace) -> bool:
        return now >= self.own_at + pace.fresh_seconds

    def steady_seconds(self, now: float) -> float:
        return max(0.0, now - self.steady_since)


def ask_again(memory: Memory) -> Memory:
    """A read tells us as much as a renewal and costs the API server less, but nobody hears us by it.

    So every second request is one, and after a lost answer none is until a renewal shows that we are well. Whoever has read an
    order has nothing more to read: it renews, so that a watchdog that does not fire is noticed.
    """
    may_read = memory.renewed == memory.sequence and not memory.is_ordered
    return msgspec.structs.replace(memory, sequence=memory.sequence + 1, renews=not may_read)


def was_answered(memory: Memory, pace: Pace, *, asked_at: float, now: float, has_order: bool) -> Memory:
    """The API server answered what was asked last."""
    was_steady = not memory.is_cut_off(now, pace)
    is_heard = memory.renews and memory.answered == memory.sequence - 1
    return msgspec.structs.replace(
        memory,
        answered=memory.sequence,
        renewed=memory.sequence if is_heard else memory.renewed,
        own_at=asked_at,
        word_at=max(memory.word_at, asked_at),
        steady_since=memory.steady_since if was_steady else asked_at,
        is_ordered=memory.is_ordered or has_order,
    )


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Who we are, and who else is known: nobody can be, before the first list.

    `former` is whom we knew before, until we know that the operator knows of the new ones: it may go by either.
    """

    me: Peer
    peers: tuple[Peer, ...] | None = None
    former: tuple[Peer, ...] | None = None

    def known(self) -> dict[str, int]:
        """As it is reported: how many agents of each domain."""
        return dict(Counter(peer.domain for peer in (self.me, *(self.peers or ()))))


def list_anew(place: Place, peers: tuple[Peer, ...]) -> Place:
    return Place(me=place.me, peers=peers, former=place.peers if place.former is None else place.former)


def was_told(place: Place) -> Place:
    """A renewal was answered, so whoever reads our report reads of the newest list."""
    return Place(me=place.me, peers=place.peers)


def conclude(memory: Memory, pace: Pace, now: float, place: Place, asked: Round | None) -> tuple[Verdict, Memory]:
    """The verdict of this moment, and what is kept of it."""
    sight = Sight(
        now=now,
        own_at=memory.own_at,
        word_at=memory.word_at,
        is_ordered=memory.is_ordered,
        me=place.me,
        peers=place.peers or (),
        former=place.former,
        round=asked,
    )
    verdict = judge(sight, pace)
    is_ordered = memory.is_ordered or verdict.reason is Reason.RELAYED_ORDER
    return verdict, msgspec.structs.replace(memory, word_at=verdict.word_at, is_ordered=is_ordered)
