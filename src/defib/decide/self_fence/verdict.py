"""Whether an agent feeds its watchdog: a table whose first row that fits decides. All times are of its own monotonic clock.

A word (of the API server, or relayed by peers) lets the node live for `Pace.patience_seconds` from the moment when the
question for it began, and never longer. So whatever hangs, feeding ends by itself, and an order that was written after
that moment is obeyed at the latest then.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import msgspec

from defib.model.self_fence import Pace


class Says(StrEnum):
    """What a peer answers when it is asked about us. One that does not answer says nothing."""

    NO_ORDER = "the API server answers, and has no order for this boot"
    ORDER = "the API server answers, and has an order for this boot"
    CUT_OFF = "the API server does not answer"


class Peer(msgspec.Struct, frozen=True):
    node: str
    domain: str


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """All peers were asked once. `began_at` is when the oldest of the answers began to be true."""

    began_at: float
    words: Mapping[str, Says]  # by node


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """All that an agent goes by. `word_at`: when the question began whose answer was the last to let it live.

    The operator may count by the list that is new or by the former one, so that what most say must be so by both.
    """

    now: float
    own_at: float  # when the question began that the API server itself last answered
    word_at: float
    is_ordered: bool  # by an answer to us, now or earlier: an order is not taken back from a boot that has read it
    me: Peer
    peers: tuple[Peer, ...] = ()
    former: tuple[Peer, ...] | None = None
    round: Round | None = None


class Reason(StrEnum):
    ORDERED = "the API server has an order for this boot"
    ANSWERED = "the API server answers, and has no order for this boot"
    RELAYED_ORDER = "most domains say that the API server has an order for this boot"
    RELAYED = "cut off from the API server, but most domains say that it has no order for this boot"
    NOBODY_REACHES = "most domains cannot reach the API server either, so nobody can count this node as dead"
    WAITING = "cut off from the API server; the last word is still good while peers are asked"
    SILENCE = "no word for too long: the others may count this node as dead"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`until`: feeding is allowed before this moment, without a new verdict. `word_at` is for the next sight.

    Peers are asked again when their last word is as old as one of the API server may get: on a bad day all ask all.
    """

    reason: Reason
    feed: bool
    ask: bool
    until: float
    word_at: float


class Tally(msgspec.Struct, frozen=True):
    """What most domains say, and whether anybody tells of an order."""

    most: frozenset[Says]
    has_any_order: bool

    def most_say(self, what: Says) -> bool:
        return what in self.most


NOBODY_ASKED = Tally(frozenset(), has_any_order=False)


def tally(sight: Sight) -> Tally:
    """We are an agent of our domain too, and cut off: else nobody would be asked."""
    if sight.round is None:
        return NOBODY_ASKED
    words = {**sight.round.words, sight.me.node: Says.CUT_OFF}
    most = most_of((sight.me, *sight.peers), words)
    if sight.former is not None:
        most &= most_of((sight.me, *sight.former), words)
    return Tally(most, Says.ORDER in words.values())


def most_of(peers: Iterable[Peer], words: Mapping[str, Says]) -> frozenset[Says]:
    """What more than half of the domains say. A domain says what more than half of all its known agents say."""
    members: dict[str, list[Says | None]] = {}
    for peer in peers:
        members.setdefault(peer.domain, []).append(words.get(peer.node))
    says: dict[Says, int] = {}
    for said in members.values():
        for what in Says:
            if 2 * said.count(what) > len(said):
                says[what] = says.get(what, 0) + 1
    return frozenset(what for what, domains in says.items() if 2 * domains > len(members))


class _Row(msgspec.Struct, frozen=True):
    reason: Reason
    fits: Callable[[Sight, Pace, Tally], bool]
    feed: bool
    began_at: Callable[[Sight], float]  # when the question began by whose answer we live
    ask: bool


def _own(sight: Sight) -> float:
    return sight.own_at


def _last(sight: Sight) -> float:
    return sight.word_at


def _relayed(sight: Sight) -> float:
    return max(sight.word_at, sight.round.began_at if sight.round else sight.word_at)


# An order that only few relay leaves us in doubt: neither do we live by the others' word, nor die by theirs, but wait.
ROWS = (
    _Row(Reason.ORDERED, lambda s, _, __: s.is_ordered, feed=False, began_at=_last, ask=False),
    _Row(Reason.ANSWERED, lambda s, p, _: s.now < s.own_at + p.fresh_seconds, feed=True, began_at=_own, ask=False),
    _Row(Reason.RELAYED_ORDER, lambda _, __, t: t.most_say(Says.ORDER), feed=False, began_at=_last, ask=False),
    _Row(
        Reason.RELAYED,
        lambda _, __, t: t.most_say(Says.NO_ORDER) and not t.has_any_order,
        feed=True,
        began_at=_relayed,
        ask=True,
    ),
    _Row(
        Reason.NOBODY_REACHES,
        lambda _, __, t: t.most_say(Says.CUT_OFF) and not t.has_any_order,
        feed=True,
        began_at=_relayed,
        ask=True,
    ),
    _Row(
        Reason.WAITING,
        lambda s, p, _: s.now < s.word_at + p.patience_seconds,
        feed=True,
        began_at=_last,
        ask=True,
    ),
    _Row(Reason.SILENCE, lambda *_: True, feed=False, began_at=_last, ask=True),
)


def judge(sight: Sight, pace: Pace) -> Verdict:
    """What the first row that fits says. A word that is too old by now lets nobody live, whatever it was."""
    counted = tally(sight)
    row = next(row for row in ROWS if row.fits(sight, pace, counted))
    word_at = max(sight.word_at, row.began_at(sight))
    until = word_at + pace.patience_seconds
    if row.feed and sight.now >= until:
        return Verdict(reason=Reason.SILENCE, feed=False, ask=True, until=sight.now, word_at=word_at)
    return Verdict(
        reason=row.reason,
        feed=row.feed,
        ask=row.ask and sight.now >= word_at + pace.fresh_seconds,
        until=until if row.feed else sight.now,
        word_at=word_at,
    )
