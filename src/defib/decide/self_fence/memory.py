"""What an agent keeps of its talk with the API server. Times are of its own monotonic clock."""

import math
from collections import Counter

import msgspec

from defib.decide.self_fence.verdict import Peer, Reason, Round, Sight, Verdict, judge
from defib.model.self_fence import Pace

NEVER = -math.inf


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """`own_at` is when the question began that the API server last answered, `word_at` that by whose answer we live."""

    requests: int = 0
    own_at: float = NEVER
    word_at: float = NEVER
    is_ordered: bool = False

    @property
    def was_ever_answered(self) -> bool:
        return self.own_at > NEVER


def ask_again(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, requests=memory.requests + 1)


def was_answered(memory: Memory, *, asked_at: float, has_order: bool) -> Memory:
    """The API server answered what was asked last."""
    return msgspec.structs.replace(
        memory,
        own_at=asked_at,
        word_at=max(memory.word_at, asked_at),
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
