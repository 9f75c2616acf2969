"""Replicas that want one lock, in a world of delays, pauses, partitions and clocks that run at different rates.

Nothing here sleeps: events are taken from a heap, in the order of a time that no replica can see. What is checked is
the promise of an election: at no moment do two replicas hold a mandate, and when all is well again, one of them leads.
"""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec

from defib.coordinate.election import (
    Candidate,
    Look,
    Record,
    Sight,
    StepDown,
    Take,
    Terms,
    Wait,
    Written,
    failed,
    lost,
    next_step,
    saw,
    stepped_down,
    trying,
    wrote,
)
from defib.coordinate.lock import Found

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
TROUBLE_SECONDS = 120.0
REQUEST_SECONDS = 5.0  # after so long, on its own clock, a replica gives a request up
LONGEST_DELAY = 8.0
DEFAULT_TERMS = Terms()

Event = Callable[[float], None]


class World:
    """The lock, as its server has it, and the time that nobody can see."""

    def __init__(self, chance: Random, terms: Terms) -> None:
        self.chance = chance
        self.record: Record | None = None
        self.version = 0
        self.is_troubled = True
        self.replicas = [Replica(f"replica-{number}", self, terms) for number in range(3)]
        self._heap: list[tuple[float, int, Event]] = []
        self._count = 0
        self.overlaps: list[str] = []
        self.led: list[float] = []  # moments at which somebody began to lead

    def at(self, moment: float, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._heap, (moment, self._count, event))

    def run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            moment, _, event = heapq.heappop(self._heap)
            event(moment)

    def delay(self) -> float:
        slow = self.is_troubled and self.chance.random() < 0.2
        return self.chance.uniform(0.0, LONGEST_DELAY if slow else 0.05)

    def is_lost(self) -> bool:
        return self.is_troubled and self.chance.random() < 0.1

    @property
    def there(self) -> str | None:
        return str(self.version) if self.record is not None else None

    def write(self, take: Take) -> str | None:
        """As a server does it: only if the version is still the one that was seen."""
        if take.version != self.there:
            return None
        self.record, self.version = take.record, self.version + 1
        return str(self.version)

    def check(self, moment: float) -> None:
        holders = [replica.name for replica in self.replicas if replica.may_act(moment)]
        if len(holders) > 1:
            self.overlaps.append(f"{moment:.3f}: {', '.join(holders)}")


class Replica:
    """One candidate. A paused one does nothing, and does not know that it was paused."""

    def __init__(self, name: str, world: World, terms: Terms) -> None:
        self.name = name
        self.me = Candidate(name, terms)
        self.sight = Sight()
        self.rate = world.chance.uniform(0.9, 1.25)
        self.offset = world.chance.uniform(-1e5, 1e5)
        self.is_cut_off_until = 0.0
        self.paused_until = 0.0
        self._world = world
        self._asked = 0

    def clock(self, moment: float) -> float:
        return self.offset + moment * self.rate

    def moment_of(self, clock: float) -> float:
        return (clock - self.offset) / self.rate

    def may_act(self, moment: float) -> bool:
        """By its own clock, whatever it has heard."""
        return self.sight.ours_until is not None and self.clock(moment) < self.sight.ours_until

    def think(self, moment: float) -> None:
        if moment < self.paused_until:
            self._world.at(self.paused_until, self.think)
            return
        step = next_step(self.me, self.sight, self.clock(moment), EPOCH + timedelta(seconds=moment))
        match step:
            case Wait(until):
                # A loop never wakes up early, and here and there a little late.
                late = self._world.chance.uniform(0.0, 0.01)
                self._world.at(max(self.moment_of(until), moment) + late, self.think)
            case StepDown():
                self.sight = stepped_down(self.sight)
                self._world.at(moment, self.think)
            case Look() | Take():
                self._ask(step, moment)

    def _ask(self, step: Look | Take, moment: float) -> None:
        self._asked += 1
        if isinstance(step, Take):
            self.sight = trying(self.sight, step)
        number, began = self._asked, self.clock(moment)

        def give_up(now: float) -> None:
            if number == self._asked:
                self._asked += 1
                self._fail(now)

        def arrive(now: float) -> None:
            version = self._world.write(step) if isinstance(step, Take) else None
            seen = Found(self._world.record, self._world.there)
            if now < self.is_cut_off_until or self._world.is_lost():
                return

            def answer(later: float) -> None:
                if number == self._asked:
                    self._asked += 1
                    self._learn(step, version, seen, began, later)
                    self.think(later)

            self._world.at(now + self._world.delay(), lambda later: self._when_awake(later, answer))

        self._world.at(self.moment_of(began + REQUEST_SECONDS), lambda now: self._when_awake(now, give_up))
        if moment >= self.is_cut_off_until and not self._world.is_lost():
            self._world.at(moment + self._world.delay(), arrive)

    def _learn(self, step: Look | Take, version: str | None, seen: Found, began: float, moment: float) -> None:
        if isinstance(step, Look):
            self.sight = saw(self.sight, seen.record, seen.version, self.clock(moment))
        elif version is None:
            self.sight = lost(self.sight, step, self.clock(moment))
        else:
            self._lead(step, version, began, moment)

    def _when_awake(self, moment: float, event: Event) -> None:
        if moment < self.paused_until:
            self._world.at(self.paused_until, lambda later: self._when_awake(later, event))
        else:
            event(moment)

    def _fail(self, moment: float) -> None:
        self.sight = failed(self.sight, self.clock(moment))
        self.think(moment)

    def _lead(self, step: Take, version: str, began: float, moment: float) -> None:
        if self.sight.ours_until is None:
            self._world.led.append(moment)
        self.sight = wrote(self.me, self.sight, Written(step.record, version, began, self.clock(moment)))
        self._world.check(moment)


class History(msgspec.Struct, frozen=True, kw_only=True):
    overlaps: tuple[str, ...]
    led: int
    led_again_after: float  # the end of all trouble


def history(seed: int, terms: Terms = DEFAULT_TERMS) -> History:
    """Two minutes of trouble, then peace for as long as it may take until somebody leads."""
    world = World(Random(seed), terms)
    for replica in world.replicas:
        world.at(world.chance.uniform(0.0, 3.0), replica.think)
    for _ in range(world.chance.randrange(6)):
        _trouble(world, world.chance.uniform(0.0, TROUBLE_SECONDS))
    world.run(TROUBLE_SECONDS)
    world.is_troubled = False
    for replica in world.replicas:
        replica.is_cut_off_until = min(replica.is_cut_off_until, TROUBLE_SECONDS)
        replica.paused_until = min(replica.paused_until, TROUBLE_SECONDS)
    moment = TROUBLE_SECONDS
    while not any(replica.may_act(moment) for replica in world.replicas) and moment < TROUBLE_SECONDS + 600:
        moment += 0.1
        world.run(moment)
    return History(overlaps=tuple(world.overlaps), led=len(world.led), led_again_after=moment - TROUBLE_SECONDS)


def _trouble(world: World, moment: float) -> None:
    """A replica is frozen or cut off for a while, which may be longer than a lease."""
    replica, length = world.chance.choice(world.replicas), world.chance.uniform(1.0, 60.0)

    def pause(now: float) -> None:
        replica.paused_until = now + length

    def cut_off(now: float) -> None:
        replica.is_cut_off_until = now + length

    world.at(moment, world.chance.choice((pause, cut_off)))
