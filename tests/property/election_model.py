"""Replicas that want one lock, in a world of delays, pauses, partitions and clocks that run at different rates.

Nothing here sleeps: events are taken from a heap, in the order of a time that no replica can see. What is checked is
the promise of an election: at no moment do two replicas hold a mandate, and when all is well again, one of them leads.
A mandate can begin, or be moved on, only when an answer is heard; so it is compared at each such moment with those of
all others, on their own clocks, and no overlap falls between two looks.

One thing is left out, exactly: `haste`. Whoever finds no lock takes it at once if it has never seen it, since a first
start must not wait for a lease. If the lock was deleted by a stranger, its holder may not have heard of that. Overlaps
across a creation by a replica that had not seen the lock before it are counted apart, and are the only ones that are.
A stranger who empties the holder's name, or puts back an old text of a holder's, forges a release: nobody here does.
"""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

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
    released,
    stepped_down,
    trying,
    wrote,
)
from tests.property.agenda import Agenda, Event

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
TROUBLE_SECONDS = 90.0
REQUEST_SECONDS = 5.0  # after so long, on its own clock, a replica gives a request up
LONGEST_DELAY = 8.0
SLOWEST, FASTEST = 0.9, 1.25
TERMS = Terms()


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How replicas elect. Whatever differs from the default is a mistake that somebody could make."""

    terms: Terms = TERMS
    rates: tuple[float, float] = (SLOWEST, FASTEST)
    next_step: Callable[[Candidate, Sight, float, datetime], Step] = election.next_step
    saw: Callable[[Sight, Record | None, str | None, float], Sight] = election.saw


class Seen(msgspec.Struct, frozen=True):
    """An answer of the server. `version` is None where there is no lock; `life` counts how often it was created."""

    record: Record | None
    version: str | None
    life: int
    is_written: bool = False


class World(Agenda):
    """The lock, as its server has it, the time that nobody can see, and who lives in it."""

    def __init__(self, chance: Random, way: Way) -> None:
        super().__init__()
        self.chance = chance
        self.way = way
        self.record: Record | None = None
        self.is_troubled = True
        self.overlaps: list[str] = []
        self.excused: list[str] = []
        self.terms_begun = 0
        self.replicas: list[Replica] = []
        self._version = 0
        self._hasty = [False]  # by life of the lock: whether its creator had not seen the life before

    def delay(self) -> float:
        slow = self.is_troubled and self.chance.random() < 0.2
        return self.chance.random() * (LONGEST_DELAY if slow else 0.05)

    def is_lost(self) -> bool:
        return self.is_troubled and self.chance.random() < 0.1

    # What its server does.

    @property
    def version(self) -> str | None:
        return str(self._version) if self.record is not None else None

    @property
    def life(self) -> int:
        return len(self._hasty) - 1

    def look(self) -> Seen:
        return Seen(self.record, self.version, self.life)

    def write(self, record: Record, version: str | None, by: "Replica | None") -> Seen:
        """Only if the version is still the one that was seen. A stranger names the one that is there."""
        if version != self.version:
            return self.look()
        if version is None:
            self._hasty.append(by is not None and by.seen_life < self.life)
        self.record, self._version = record, self._version + 1
        return Seen(record, self.version, self.life, is_written=True)

    def delete(self) -> None:
        self.record = None

    # What nobody in it can see.

    def check(self, one: "Replica", moment: float) -> None:
        for other in self.replicas:
            if other is not one and other.may_act(moment):
                early, late = sorted((one.led_life, other.led_life))
                excuse = any(self._hasty[early + 1 : late + 1])
                told = f"{moment:.3f}: {one.me.name} while {other.me.name} still may, lives {early} and {late}"
                (self.excused if excuse else self.overlaps).append(told)

    def leaders(self, moment: float) -> list["Replica"]:
        return [replica for replica in self.replicas if replica.may_act(moment)]


class Replica:
    """One process. A paused one does nothing, and does not know that it was paused; a dead one nothing ever again."""

    def __init__(self, name: str, world: World) -> None:
        self.me = Candidate(name, world.way.terms)
        self.sight = Sight()
        self.rate = world.chance.uniform(*world.way.rates)
        self.offset = world.chance.uniform(-1e5, 1e5)  # of the monotonic clock
        self.skew = timedelta(seconds=world.chance.uniform(-7200.0, 7200.0))  # of the wall clock
        self.mute_until = 0.0  # what it asks is lost
        self.deaf_until = 0.0  # what it is answered is lost
        self.paused_until = 0.0
        self.is_dead = False
        self.seen_life = 0
        self.led_life = 0
        self._world = world
        self._asked = 0

    def clock(self, moment: float) -> float:
        return self.offset + moment * self.rate

    def moment_of(self, clock: float) -> float:
        return (clock - self.offset) / self.rate

    def may_act(self, moment: float) -> bool:
        """By its own clock, whatever it has heard."""
        until = self.sight.ours_until
        return until is not None and not self.is_dead and self.clock(moment) < until

    def think(self, moment: float) -> None:
        if not self._is_awake(moment, self.think):
            return
        step = self._world.way.next_step(self.me, self.sight, self.clock(moment), EPOCH + _seconds(moment) + self.skew)
        match step:
            case Wait(until):
                # A loop never wakes up early, and here and there a little late.
                late = self._world.chance.random() * 0.01
                self._world.at(max(self.moment_of(until), moment) + late, self.think)
            case StepDown():
                self.sight = stepped_down(self.sight)
                self._world.at(moment, self.think)
            case Look():
                self._ask(moment, None)
            case Take():
                self.sight = trying(self.sight, step)
                self._ask(moment, step)

    def release(self, moment: float) -> None:
        """In order, and that is the end of it. Whether it is heard, nobody waits for."""
        sight, record = self.sight, self.sight.record
        if self.may_act(moment) and record is not None:
            text = released(record, EPOCH + _seconds(moment))

            def arrive(_: float) -> None:
                self._world.write(text, sight.version, self)

            self._send(moment, arrive)
        self.is_dead = True

    def _ask(self, moment: float, take: Take | None) -> None:
        self._asked += 1
        number, began = self._asked, self.clock(moment)

        def give_up(now: float) -> None:
            if number == self._asked and self._is_awake(now, give_up):
                self._asked += 1
                self.sight = failed(self.sight, began)
                self.think(now)

        def arrive(now: float) -> None:
            seen = self._world.look() if take is None else self._world.write(take.record, take.version, self)
            if now >= self.deaf_until and not self._world.is_lost():
                self._world.at(now + self._world.delay(), answer_with(seen))

        def answer_with(seen: Seen) -> Event:
            def answer(now: float) -> None:
                if number == self._asked and self._is_awake(now, answer):
                    self._asked += 1
                    self._learn(take, seen, began, now)
                    self.think(now)

            return answer

        self._world.at(self.moment_of(began + REQUEST_SECONDS), give_up)
        self._send(moment, arrive)

    def _send(self, moment: float, arrive: Event) -> None:
        """Whatever becomes of the sender: what is on its way arrives."""
        if moment >= self.mute_until and not self._world.is_lost():
            self._world.at(moment + self._world.delay(), arrive)

    def _learn(self, take: Take | None, seen: Seen, began: float, moment: float) -> None:
        clock = self.clock(moment)
        if take is None:
            self.sight = self._world.way.saw(self.sight, seen.record, seen.version, clock)
            self.seen_life = seen.life if seen.record is not None else self.seen_life
        elif not seen.is_written or seen.version is None:
            self.sight = lost(self.sight, take, clock)
        else:
            self._world.terms_begun += self.sight.ours_until is None
            self.sight = wrote(self.me, self.sight, Written(take.record, seen.version, began, clock))
            self.seen_life = self.led_life = seen.life
            if self.may_act(moment):
                self._world.check(self, moment)

    def _is_awake(self, moment: float, event: Event) -> bool:
        if moment < self.paused_until:
            self._world.at(self.paused_until, event)
            return False
        return not self.is_dead


def _seconds(moment: float) -> timedelta:
    return timedelta(seconds=moment)


class History(msgspec.Struct, frozen=True, kw_only=True):
    overlaps: tuple[str, ...]
    excused: int  # overlaps by haste
    terms: int
    nobody_led_until: float  # counted from the end of all trouble; from then on there was always somebody


def history(seed: int, way: Way | None = None) -> History:
    """A while of trouble, then peace."""
    world = World(Random(seed), way or Way())
    _settle(world)
    for _ in range(world.chance.randrange(8)):
        world.at(world.chance.uniform(0.0, TROUBLE_SECONDS), world.chance.choice(TROUBLES)(world))
    world.run(TROUBLE_SECONDS)
    world.is_troubled = False
    nobody_led_until = _await_leader(world)
    return History(
        overlaps=tuple(world.overlaps),
        excused=len(world.excused),
        terms=world.terms_begun,
        nobody_led_until=nobody_led_until,
    )


def _settle(world: World) -> None:
    """Three, of which two may have been given the same name."""
    names = ["a", "b", world.chance.choice(("c", "c", "b"))]
    world.replicas = [Replica(name, world) for name in names]
    for replica in world.replicas:
        world.at(world.chance.uniform(0.0, 3.0), replica.think)


def _await_leader(world: World) -> float:
    """The last moment, from the end of all trouble, at which nobody led; looks twice a second for three leases."""
    moment, nobody = TROUBLE_SECONDS, -math.inf
    while moment < TROUBLE_SECONDS + 3 * world.way.terms.lease_seconds:
        world.run(moment)
        nobody = nobody if world.leaders(moment) else moment
        moment += 0.5
    return nobody - TROUBLE_SECONDS


# What goes wrong. Each is over when all trouble is.


def _pause(world: World) -> Event:
    """As SIGSTOP does: its clocks go on."""
    replica, length = _somebody(world)

    def pause(now: float) -> None:
        replica.paused_until = _over(now + length)

    return pause


def _cut_off(world: World) -> Event:
    """From the server; what it says, what it hears, or both."""
    replica, length = _somebody(world)
    is_mute, is_deaf = world.chance.choice(((True, True), (True, False), (False, True)))

    def cut_off(now: float) -> None:
        replica.mute_until = _over(now + length) if is_mute else replica.mute_until
        replica.deaf_until = _over(now + length) if is_deaf else replica.deaf_until

    return cut_off


def _end(world: World) -> Event:
    """It is killed, or ends in order; and is started again, under the same name or another one."""
    place, in_order = world.chance.randrange(3), world.chance.random() < 0.5
    rest, is_renamed = world.chance.uniform(0.0, 20.0), world.chance.random() < 0.5

    def start(now: float) -> None:
        if not world.replicas[place].is_dead:
            return  # it was ended twice, and is back already
        name = world.replicas[place].me.name
        world.replicas[place] = Replica(f"{name}'" if is_renamed else name, world)
        world.replicas[place].think(now)

    def end(now: float) -> None:
        replica = world.replicas[place]
        if in_order and now >= replica.paused_until:
            replica.release(now)
        replica.is_dead = True
        world.at(_over(now + rest), start)

    return end


def _delete(world: World) -> Event:
    """A stranger deletes the lock, and cuts off whoever holds it, in half of all cases."""
    is_mean, length = world.chance.random() < 0.5, world.chance.uniform(1.0, 40.0)

    def delete(now: float) -> None:
        world.delete()
        for replica in world.leaders(now) if is_mean else ():
            replica.mute_until = _over(now + length)

    return delete


def _meddle(world: World) -> Event:
    """A stranger writes the lock again and again, in any name, for any length."""
    name = world.chance.choice(("stranger", "a", "b", "c"))
    lease, times = world.chance.choice((0.0, 1.0, 15.0)), world.chance.randrange(1, 10)

    def meddle(now: float, left: int = times) -> None:
        record = Record(holder=name, lease_seconds=lease, renewed=EPOCH + _seconds(now), transitions=left)
        world.write(record, world.version, None)
        if left > 1 and now + 2.0 <= TROUBLE_SECONDS:
            world.at(now + 2.0, lambda later: meddle(later, left - 1))

    return meddle


TROUBLES = (_pause, _pause, _cut_off, _cut_off, _end, _delete, _meddle)


def _somebody(world: World) -> tuple[Replica, float]:
    return world.chance.choice(world.replicas), world.chance.uniform(1.0, 60.0)


def _over(moment: float) -> float:
    return min(moment, TROUBLE_SECONDS)
