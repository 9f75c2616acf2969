"""Two replicas and one lock, by the real steps of `coordinate.election`: every order of requests, answers and ticks.

Time goes in ticks, and anything may happen between two of them, or nothing: a replica that does nothing for many ticks
is frozen. The clocks of the two go at their own pace, but never get further apart than `Way.apart`. A request may be lost
before it arrives, its answer may be lost after it was done, and what was given up may arrive late. A replica may end in
order, or be killed, and comes back with nothing remembered. How often such things happen in one history is limited.
A stranger may delete the lock, once, when both have seen it: whoever has not takes what looks like a first start, and no
lease can prevent that.

All times in a state are counted from the clock of the replica that knows them, and what is older than it could matter is
as old as it can matter. What is written is told apart by a number; of a number that nobody can meet again nothing is kept.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import NamedTuple

import msgspec

from defib.coordinate import election
from defib.coordinate.election import (
    Candidate,
    Look,
    Record,
    Sight,
    Step,
    StepDown,
    Take,
    Terms,
    Wait,
    Written,
    failed,
    lost,
    stepped_down,
    trying,
    wrote,
)
from defib.model.mandate import Mandate
from tests.models.explore import Model, Move

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TERMS = Terms(lease_seconds=3.0, renew_seconds=2.0, retry_seconds=1.0)

change = msgspec.structs.replace


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How replicas elect. Whatever differs from the default is a mistake that somebody could make."""

    terms: Terms = TERMS
    apart: int = 1  # ticks by which one clock may get ahead of the other
    names: tuple[str, str] = ("a", "b")
    is_deleted: bool = False  # whether a stranger deletes the lock
    troubles: int = 2  # how often, all in all, an answer is not heard, or a replica ends
    next_step: Callable[[Candidate, Sight, float, datetime], Step] = election.next_step
    saw: Callable[[Sight, Record | None, str | None, float], Sight] = election.saw
    wrote: Callable[[Candidate, Sight, Written], Sight] = wrote
    holds: Callable[[float, float], bool] = lambda ours_until, clock: Mandate("", ours_until).holds(clock)
    compares: bool = True  # the server writes only onto the version that was seen


class Asked(NamedTuple):
    """A request of a replica: to read, or to take. `answer` is None until it has been done."""

    take: Take | None
    began: float
    answer: "Answer | None" = None


class Answer(NamedTuple):
    record: Record | None
    is_written: bool = False


class Replica(NamedTuple):
    sight: Sight = Sight()
    asked: Asked | None = None
    late: Take | None = None  # it was given up, and may arrive all the same


class World(NamedTuple):
    record: Record | None = None
    replicas: tuple[Replica, Replica] = (Replica(), Replica())
    ahead: int = 0  # the clock of the second, counted from that of the first
    may_vanish: bool = False  # somebody may still delete the lock
    troubles: int = 0  # so many more are to come


def model(way: Way) -> Model[World]:
    return Model(
        begins=(World(may_vanish=way.is_deleted, troubles=way.troubles),),
        moves=_Moves(way),
        wrong=_Mandates(way).wrong,
        is_good=_Mandates(way).is_led,
    )


class _Mandates(msgspec.Struct, frozen=True):
    way: Way

    def of(self, world: World) -> list[str]:
        untils = [(name, one.sight.ours_until) for name, one in zip("ab", world.replicas, strict=True)]
        return [name for name, until in untils if until is not None and self.way.holds(until, 0.0)]

    def wrong(self, world: World) -> str:
        return "two replicas hold a mandate" if len(self.of(world)) > 1 else ""

    def is_led(self, world: World) -> bool:
        return bool(self.of(world))


def version_of(record: Record | None) -> str | None:
    """Each write has its own time, so that says which one it is."""
    return None if record is None or record.renewed is None else f"{(record.renewed - EPOCH) // SECOND}"


class _Moves(msgspec.Struct, frozen=True):
    way: Way

    def __call__(self, world: World) -> Iterator[Move[World]]:
        for place, name in enumerate(("a", "b")):
            for move in self._of_one(world, place):
                yield Move(f"{name} {move.name}", _tidy(move.to), move.is_trouble)
        yield from self._ticks(world)
        both = all((one.sight.record or one.sight.vanished) is not None for one in world.replicas)
        if world.may_vanish and both and world.record is not None:
            yield Move("somebody deletes the lock", _tidy(world._replace(record=None, may_vanish=False)), True)

    def _ticks(self, world: World) -> Iterator[Move[World]]:
        for name, steps in (("a tick", (1, 1)), ("a tick of a", (1, 0)), ("a tick of b", (0, 1))):
            ahead = world.ahead + steps[1] - steps[0]
            if 0 <= ahead <= self.way.apart:
                older = tuple(
                    _older(one, self.way.terms) if step else one
                    for one, step in zip(world.replicas, steps, strict=True)
                )
                first, second = older
                yield Move(name, world._replace(replicas=(first, second), ahead=ahead))

    def _of_one(self, world: World, place: int) -> Iterator[Move[World]]:
        one = world.replicas[place]
        if one.asked is None:
            yield from self._thinks(world, place, one)
        elif one.asked.answer is None:
            yield Move("is heard", self._arrived(world, place, one.asked))
        else:
            yield Move("hears", _with(world, place, self._learned(one, one.asked, place)))
        if one.late is not None:
            yield Move("is heard late", self._written(_with(world, place, one._replace(late=None)), one.late)[0], True)
        if world.troubles:
            yield from self._troubles(world._replace(troubles=world.troubles - 1), place, one)

    def _troubles(self, world: World, place: int, one: Replica) -> Iterator[Move[World]]:
        if one.asked is not None:
            yield Move("gives up", _with(world, place, _given_up(one, one.asked)), True)
        if world.may_vanish == self.way.is_deleted and one.sight != Sight():
            yield Move("is killed", _with(world, place, Replica(late=one.late or _on_its_way(one))), True)
            yield from self._ends(world, place, one)

    def _ends(self, world: World, place: int, one: Replica) -> Iterator[Move[World]]:
        until, record = one.sight.ours_until, one.sight.record
        if until is not None and record is not None and one.asked is None and self.way.holds(until, 0.0):
            release = Take(election.released(record, _next_moment(world)), one.sight.version)
            yield Move("releases", _with(world, place, Replica(late=release)), True)

    def _thinks(self, world: World, place: int, one: Replica) -> Iterator[Move[World]]:
        me = Candidate(self.way.names[place], self.way.terms)
        match self.way.next_step(me, one.sight, 0.0, _next_moment(world)):
            case Wait():
                return
            case StepDown():
                yield Move("steps down", _with(world, place, one._replace(sight=stepped_down(one.sight))))
            case Look():
                # How long the question is on its way does not matter: it could have been asked later. The answer's way does.
                yield Move("looks", _with(world, place, one._replace(asked=Asked(None, 0.0, Answer(world.record)))))
            case Take() as take:
                asked = one._replace(sight=trying(one.sight, take), asked=Asked(take, 0.0))
                yield Move("takes", _with(world, place, asked))

    def _arrived(self, world: World, place: int, asked: Asked) -> World:
        assert asked.take is not None, "what is read is answered at once"
        world, is_written = self._written(world, asked.take)
        one = world.replicas[place]
        return _with(world, place, one._replace(asked=asked._replace(answer=Answer(None, is_written))))

    def _written(self, world: World, take: Take) -> tuple[World, bool]:
        """As a server does it: only if the version is still the one that was seen."""
        if take.version != version_of(world.record) and self.way.compares:
            return world, False
        return world._replace(record=take.record), True

    def _learned(self, one: Replica, asked: Asked, place: int) -> Replica:
        me, answer = Candidate(self.way.names[place], self.way.terms), asked.answer
        assert answer is not None
        if asked.take is None:
            sight = self.way.saw(one.sight, answer.record, version_of(answer.record), 0.0)
        elif not answer.is_written:
            sight = lost(one.sight, asked.take, 0.0)
        else:
            version = version_of(asked.take.record)
            assert version is not None
            sight = self.way.wrote(me, one.sight, Written(asked.take.record, version, asked.began, 0.0))
        return one._replace(sight=sight, asked=None)


def _with(world: World, place: int, one: Replica) -> World:
    first, second = world.replicas
    return world._replace(replicas=(one, second) if place == 0 else (first, one))


def _given_up(one: Replica, asked: Asked) -> Replica:
    late = asked.take if asked.take is not None and asked.answer is None else one.late
    return one._replace(sight=failed(one.sight, asked.began), asked=None, late=late)


def _on_its_way(one: Replica) -> Take | None:
    return one.asked.take if one.asked is not None and one.asked.answer is None else None


# Time, and what of it can matter.


def _older(one: Replica, terms: Terms) -> Replica:
    sight, asked, retry = one.sight, one.asked, terms.retry_seconds
    sight = change(
        sight,
        since=_back(sight.since, terms.lease_seconds) if _is_waited_for(sight) else sight.since,
        tried=sight.tried if _is_taken_at_once(sight) else _back(sight.tried, retry),
        renewed=max(sight.renewed - 1.0, -retry) if sight.ours_until is not None else 0.0,
        ours_until=_back(sight.ours_until, 0.0),
    )
    if asked is not None:
        asked = asked._replace(began=max(asked.began - 1.0, -retry if asked.take is None else -terms.renew_seconds))
    return one._replace(sight=sight, asked=asked)


def _is_waited_for(sight: Sight) -> bool:
    """What is free, or by our own hand, may be taken at once: since when it has been so does not matter."""
    record = sight.record
    if record is None:
        return sight.vanished is not None
    return bool(record.holder) and not election.is_by_our_hand(record, sight)


def _back(moment: float | None, most: float) -> float | None:
    return None if moment is None else max(moment - 1.0, -most)


def _is_taken_at_once(sight: Sight) -> bool:
    """Then nobody asks when we looked."""
    is_known = sight.since is not None and not sight.is_stale
    return is_known and sight.ours_until is None and not _is_waited_for(sight)


# Which write is which.

_Numbers = dict[datetime, datetime]


def _records(world: World) -> Iterator[Record | None]:
    """All that somebody may still meet."""
    yield world.record
    for one in world.replicas:
        yield from _met_by(one)


def _met_by(one: Replica) -> Iterator[Record | None]:
    yield one.sight.record
    yield one.late.record if one.late is not None else None
    if one.asked is not None:
        yield one.asked.take.record if one.asked.take is not None else None
        yield one.asked.answer.record if one.asked.answer is not None else None


def _next_moment(world: World) -> datetime:
    """Later than all that was written and can still be met."""
    known = [record.renewed for record in _records(world) if record is not None and record.renewed is not None]
    return max(known, default=EPOCH) + SECOND


def _tidy(world: World) -> World:
    """The same world, with the writes numbered anew, from one."""
    numbers: _Numbers = {}
    for record in _records(world):
        if record is not None and record.renewed is not None and record.renewed not in numbers:
            numbers[record.renewed] = EPOCH + (len(numbers) + 1) * SECOND
    first, second = (_tidied(one, world, numbers) for one in world.replicas)
    return world._replace(record=_renumbered(world.record, numbers), replicas=(first, second))


def _tidied(one: Replica, world: World, numbers: _Numbers) -> Replica:
    """What we tried counts only if we may still meet it: else it never came true. What vanished counts by its length."""
    sight, asked, late = one.sight, one.asked, one.late
    met = {record.renewed for record in (world.record, *_met_by(one)) if record is not None}
    vanished = sight.vanished
    record = _renumbered(sight.record, numbers)
    sight = change(
        sight,
        record=record,
        version=version_of(record),
        since=sight.since if sight.since is None or _is_waited_for(sight) else 0.0,
        tried=0.0 if _is_taken_at_once(sight) else sight.tried,
        vanished=_record("", vanished.lease_seconds, None) if vanished is not None else None,
        attempts=tuple(filter(None, (_renumbered(one, numbers) for one in sight.attempts if one.renewed in met))),
        renewed=sight.renewed if sight.ours_until is not None else 0.0,
    )
    if asked is not None:
        answer = asked.answer
        if answer is not None:
            answer = answer._replace(record=_renumbered(answer.record, numbers))
        asked = Asked(_retaken(asked.take, numbers), asked.began, answer)
    # Versions never come again, so what was made for an old one can never be written.
    may_come = late is not None and late.version is None and world.may_vanish
    is_old = late is not None and late.version != version_of(world.record) and not may_come
    return Replica(sight, asked, None if is_old else _retaken(late, numbers))


@cache
def _record(holder: str, lease_seconds: float, renewed: datetime | None) -> Record:
    """The same object for the same write: by that a replica knows which of its tries was lost."""
    return Record(holder=holder, lease_seconds=lease_seconds, renewed=renewed)


def _renumbered(record: Record | None, numbers: _Numbers) -> Record | None:
    if record is None or record.renewed is None:
        return record
    return _record(record.holder, record.lease_seconds, numbers[record.renewed])


def _retaken(take: Take | None, numbers: _Numbers) -> Take | None:
    """Made for a version that nobody can meet again, it can never be written: that is number 0."""
    if take is None:
        return None
    record, version = _renumbered(take.record, numbers), take.version
    assert record is not None
    if version is not None:
        new = numbers.get(EPOCH + int(version) * SECOND, EPOCH)
        version = f"{(new - EPOCH) // SECOND}"
    return Take(record, version)
