"""Replicas that elect by a store outside Kubernetes, in a world where they freeze and the store forgets or gives places up.

Nothing here sleeps: each renewal goes through its steps one by one, with others' steps in between, in the order of a time
that no replica can see. Whenever a mandate is given or moved on, it is compared with those of all others.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from random import Random

import msgspec

from defib.coordinate import rivals as real
from defib.coordinate.election import Terms
from defib.coordinate.rivals import Look, Rivals, Told

TERMS = Terms(lease_seconds=15.0, renew_seconds=10.0, retry_seconds=2.0)
PLACE_SECONDS = 20.0
RATES = (0.9, 1.25)
TROUBLE_SECONDS = 120.0
CALM_SECONDS = 75.0


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How replicas decide. Whatever differs from the default is a mistake that somebody could make."""

    saw: Callable[[Rivals, Look, float], Rivals] = real.saw
    unknown: Callable[[float, float], Rivals] = real.unknown
    renew_seconds: float = TERMS.renew_seconds


class Place(msgspec.Struct):
    told: Told
    until: float


class Store:
    """What the server has. A place and the lock last for so long without a heartbeat."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.owner: tuple[str, int] | None = None
        self.owner_until = -math.inf

    def expire(self, now: float) -> None:
        self.places = {id_: place for id_, place in self.places.items() if now < place.until}
        if now >= self.owner_until:
            self.owner = None

    def forget(self) -> None:
        self.places, self.owner = {}, None


class Replica:
    def __init__(self, world: "World", name: str, born: float) -> None:
        self.world = world
        self.id = name
        self.rate = world.chance.uniform(*RATES)
        self.rivals = world.way.unknown(TERMS.lease_seconds, self.clock(born))
        self.ends = -math.inf  # of the mandate, on its own clock
        self.holds = 0
        self.is_held = False
        self.owns = False
        self.renewals = 0
        self.is_stopping = False

    def clock(self, now: float) -> float:
        return now * self.rate

    def acts(self, now: float) -> bool:
        return self.clock(now) < self.ends

    def renewal(self) -> Iterator[None]:
        """As in `store.Store.renew`: between any two of its steps the world goes on."""
        store, began, acts = self.world.store, self.clock(self.world.now), self.acts(self.world.now)
        self._heartbeat()
        if self.is_held and not self.owns:
            self._release()
        yield
        if not self.is_held:
            self.holds += 1
            self.is_held = self._take()
        is_held = self.is_held
        yield
        is_newcomer = self.id not in store.places
        self.renewals += 1
        told = Told(name=self.id, holds=is_held or acts, acts=acts, renewals=self.renewals)
        store.places[self.id] = Place(told, self.world.now + PLACE_SECONDS)
        yield
        others = {id_: place.told for id_, place in store.places.items() if id_ != self.id}
        yield
        self.owns = is_held and store.owner == (self.id, self.holds)
        look = Look(owns=self.owns, hold=self.holds, is_newcomer=is_newcomer, others=others)
        yield
        if self.world.chance.random() >= self.world.lost_answers:
            self._heard(look, began)

    def release(self) -> None:
        """It tells that it is over, lets go of the lock, and is never heard of again."""
        self.ends, self.is_stopping = -math.inf, True
        self.renewals += 1
        told = Told(name=self.id, holds=False, acts=False, renewals=self.renewals, is_leaving=True)
        self.world.store.places[self.id] = Place(told, self.world.now + PLACE_SECONDS)
        self._release()

    def _heartbeat(self) -> None:
        store = self.world.store
        if self.id in store.places:
            store.places[self.id].until = self.world.now + PLACE_SECONDS
        if store.owner == (self.id, self.holds):
            store.owner_until = self.world.now + PLACE_SECONDS

    def _take(self) -> bool:
        store = self.world.store
        if store.owner is None:
            store.owner, store.owner_until = (self.id, self.holds), self.world.now + PLACE_SECONDS
        return store.owner == (self.id, self.holds)

    def _release(self) -> None:
        if self.world.store.owner == (self.id, self.holds):
            self.world.store.owner = None
        self.is_held = False

    def _heard(self, look: Look, began: float) -> None:
        if self.is_stopping:
            return
        self.rivals = self.world.way.saw(self.rivals, look, self.clock(self.world.now))
        if not real.may_act(self.rivals, look):
            self.ends = -math.inf
            return
        self.ends = began + self.world.way.renew_seconds
        self.world.compare(self)


class World:
    def __init__(self, seed: int, way: Way) -> None:
        self.chance = Random(seed)
        self.way = way
        self.now = 0.0
        self.store = Store()
        self.lost_answers = 0.1
        self.overlaps: list[str] = []
        self.led: list[str] = []
        self._count = 0
        self._events: list[tuple[float, int, Replica, Iterator[None] | None]] = []
        self.replicas = [self._born() for _ in range(3)]

    def run(self) -> None:
        self._until(TROUBLE_SECONDS, is_troubled=True)
        self.lost_answers = 0.0
        self._until(TROUBLE_SECONDS + CALM_SECONDS, is_troubled=False)

    @property
    def leaders(self) -> list[Replica]:
        return [one for one in self.replicas if one.acts(self.now)]

    def compare(self, replica: Replica) -> None:
        others = [one.id for one in self.leaders if one is not replica]
        if others and replica.acts(self.now):
            self.overlaps.append(f"{self.now:.3f}: {replica.id} acts, and so does {', '.join(others)}")
        self.led.append(replica.id)

    def _born(self) -> Replica:
        self._count += 1
        replica = Replica(self, f"r{self._count}", self.now)
        self._push(replica, None, self.chance.uniform(0.0, 2.0))
        return replica

    def _push(self, replica: Replica, step: Iterator[None] | None, delay: float) -> None:
        heapq.heappush(self._events, (self.now + delay, self.chance.getrandbits(40), replica, step))

    def _until(self, end: float, *, is_troubled: bool) -> None:
        while self._events and self._events[0][0] < end:
            self.now, _, replica, step = heapq.heappop(self._events)
            self.store.expire(self.now)
            if is_troubled:
                self._trouble(replica)
            if not replica.is_stopping:
                self._step(replica, step or replica.renewal(), is_troubled=is_troubled)
        self.now = end

    def _step(self, replica: Replica, step: Iterator[None], *, is_troubled: bool) -> None:
        try:
            next(step)
        except StopIteration:
            self._push(replica, None, TERMS.retry_seconds * self.chance.uniform(1.0, 1.2) / replica.rate)
            return
        self._push(replica, step, self._delay() if is_troubled else self.chance.uniform(0.0, 0.05))

    def _delay(self) -> float:
        """Now and then it is frozen, for longer than a lease at times."""
        draw = self.chance.random()
        return self.chance.uniform(0.0, 40.0) if draw < 0.01 else self.chance.uniform(0.0, 2.0 if draw < 0.1 else 0.1)

    def _trouble(self, replica: Replica) -> None:
        draw = self.chance.random()
        if draw < 0.002:
            self.store.forget()
        elif draw < 0.004:  # it dies where it stands, and another one comes
            replica.is_stopping = True
            self._replace(replica)
        elif draw < 0.006:
            replica.release()
            self._replace(replica)

    def _replace(self, replica: Replica) -> None:
        self.replicas.append(self._born())
        self._gone(replica)

    def _gone(self, replica: Replica) -> None:
        """One that was killed does nothing any more, but what it did last may still be on its way until its mandate ends."""
        self.replicas = [one for one in self.replicas if one is not replica or one.ends > -math.inf]
