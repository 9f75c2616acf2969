"""Replicas that share buckets, in a world of delays, pauses, partitions, crashes, and clocks that differ in their rates.

Nothing here sleeps: events are taken from a heap, in the order of a time that no replica can see. Replicas join, leave
in order, crash, and come back under a new name or the old one. What each does about a bucket is decided by `seats` and
`election`, as `sharded` asks them. What is checked is what sharing promises: at no moment do two replicas hold a mandate
for one bucket, nothing of a bucket is under way when another one begins with it, and when all is well again, somebody
has each of them.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec

from defib.coordinate import election, seats
from defib.coordinate.election import Candidate, Look, Record, Sight, StepDown, Take, Terms, Written
from defib.coordinate.lock import Found
from defib.coordinate.seats import Member, Outlook, Seat
from defib.coordinate.shards import preferences
from tests.property.agenda import Agenda, Event

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
RATES = (0.9, 1.25)
SLOWEST = RATES[0]
# As they are by default, and, more often, with fewer tries to a lease, where less must go wrong before all does.
SELDOM = (Terms(retry_seconds=4.0), Terms(lease_seconds=6.0, renew_seconds=4.0, retry_seconds=1.5))
ALL_TERMS = (Terms(), *SELDOM, *SELDOM)
FINISH_SECONDS = 10.0
LONGEST_WORK = 12.0
TROUBLE = 4.0  # leases
PEACE = 12.0  # leases too: enough for everybody to be settled, and to have got what is theirs


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How it is done. Tests put mistakes here, to see them noticed."""

    looked_at: Callable[[Candidate, Outlook, Seat, float], Seat] = seats.looked_at
    step_for: Callable[[Candidate, Outlook, Seat, float, datetime], election.Step] = seats.step_for
    drains: bool = True  # before a bucket is let go
    guards_reads: bool = True  # what was read before our own write ended may be older than that
    rates: tuple[float, float] = RATES
    terms: tuple[Terms, ...] = ALL_TERMS


AS_IT_IS = Way()


class World(Agenda):
    """The locks, as their server has them, and the time that nobody can see."""

    def __init__(self, chance: Random, way: Way) -> None:
        super().__init__()
        self.chance = chance
        self.way = way
        self.terms = chance.choice(way.terms)
        self.buckets = chance.choice((4, 4, 5, 6))
        self.is_troubled = True
        self.locks: dict[str, Found] = {}
        self.replicas: list[Replica] = []
        self.wrong: list[str] = []
        self.taken = 0
        self.handed_over = 0
        self._written = 0
        self._named = 0

    def delay(self) -> float:
        is_slow = self.is_troubled and self.chance.random() < 0.1
        return self.chance.random() * (0.6 * self.terms.lease_seconds if is_slow else 0.05)

    def slowness(self) -> float:
        """Of a replica that has just been awoken, by task."""
        return self.chance.random() * (0.5 * self.terms.lease_seconds if self.is_troubled else 0.05)

    def is_lost(self) -> bool:
        return self.is_troubled and self.chance.random() < 0.05

    def join(self, moment: float, name: str = "") -> None:
        self._named += 1
        replica = Replica(name or f"replica-{self._named}", self)
        self.replicas.append(replica)
        for begins in (replica.tick, replica.look):
            self.at(moment + self.chance.random(), begins)

    def write(self, lock: str, record: Record, version: str | None) -> str | None:
        """As a server does it: only if the version is still the one that was seen."""
        if version != self.locks.get(lock, Found()).version:
            return None
        self._written += 1
        self.locks[lock] = Found(record, str(self._written))
        return str(self._written)

    def check(self, number: int, by: "Replica", moment: float) -> None:
        """Somebody has got a bucket, or has it for longer; unless that is over before they hear of it."""
        if not by.may_act(number, moment):
            return
        for other in self.replicas:
            if other is by:
                continue
            if other.may_act(number, moment):
                self.wrong.append(f"{moment:.3f}: {by.name} and {other.name} hold bucket {number}")
            elif other.is_working(number, moment):
                self.wrong.append(f"{moment:.3f}: {by.name} has bucket {number} while {other.name} still works on it")

    def unowned(self, moment: float) -> int:
        held = {n for n in range(self.buckets) for one in self.replicas if one.may_act(n, moment)}
        return self.buckets - len(held)


class Holding:
    """One bucket in the hands of one replica, or not; or the lock by which it is a member."""

    def __init__(self, number: int, lock: str) -> None:
        self.seat = Seat(number)
        self.lock = lock
        self.request = 0  # which one is on its way; 0 when none is
        self.touched = -1e9
        self.works_until = -1e9
        self.cut_at = -1e9  # by its own clock: what is under way ends with the mandate

    @property
    def sight(self) -> Sight:
        return self.seat.sight

    def keep(self, sight: Sight) -> None:
        self.seat = msgspec.structs.replace(self.seat, sight=sight)
        if sight.ours_until is not None:
            self.cut_at = sight.ours_until


class Replica:
    """A paused one does nothing, and does not know that it was paused. One that is gone never comes back."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.me = Candidate(name, world.terms)
        self.rate = world.chance.uniform(*world.way.rates)
        self.offset = world.chance.uniform(-1e5, 1e5)
        self.is_cut_off_until = 0.0
        self.is_gone = False
        self.is_ending = False
        self.members: dict[str, Member] = {}
        self.membership = Holding(-1, f"member-{name}")
        self.holdings = [Holding(number, f"bucket-{number}") for number in range(world.buckets)]
        self._world = world
        self._requests = 0
        self._paused_until = 0.0
        self._waiting: list[Event] = []  # until it is awake

    def clock(self, moment: float) -> float:
        return self.offset + moment * self.rate

    def moment_of(self, clock: float) -> float:
        return (clock - self.offset) / self.rate

    def wall(self, moment: float) -> datetime:
        """Nobody decides by it, and no two agree on it."""
        return EPOCH + timedelta(seconds=self.clock(moment))

    def may_act(self, number: int, moment: float) -> bool:
        until = self.holdings[number].sight.ours_until
        return not self.is_gone and until is not None and self.clock(moment) < until

    def is_working(self, number: int, moment: float) -> bool:
        held = self.holdings[number]
        return not self.is_gone and self.clock(moment) < min(held.works_until, held.cut_at)

    # What it does

    def pause(self, until: float) -> None:
        self._paused_until = max(self._paused_until, until)
        self._world.at(until, self.wake)

    def wake(self, moment: float) -> None:
        """What it slept through happens now, in any order, and not all of it at once."""
        if moment >= self._paused_until:
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                self._world.at(moment + self._world.slowness(), self._later(event))

    def wake_early(self, moment: float) -> None:
        self._paused_until = min(self._paused_until, moment)
        self.wake(moment)

    def tick(self, moment: float) -> None:
        if not self._is_awake(moment, self.tick) or self.is_gone:
            return
        now, wall = self.clock(moment), self.wall(moment)
        self._keep_membership(now, moment)
        seen = self._outlook(now)
        for held in self.holdings:
            if not held.request:
                self._step(held, seen, moment, wall)
        self._world.at(self.moment_of(now + self.me.terms.retry_seconds / 2), self.tick)

    def _outlook(self, now: float) -> Outlook:
        until = self.membership.sight.ours_until
        is_member = until is not None and now < until
        return seats.outlook(self.me, self.members, now, is_member=is_member, buckets=self._world.buckets)

    def _keep_membership(self, now: float, moment: float) -> None:
        held = self.membership
        if held.request:
            return
        match election.next_step(self.me, held.sight, now, self.wall(moment)):
            case Take() as take:
                self._write(held, take, moment)
            case StepDown():
                held.keep(election.stepped_down(held.sight))
            case Look():
                self._read(held, moment)

    def _step(self, held: Holding, seen: Outlook, moment: float, wall: datetime) -> None:
        way, now = self._world.way, self.clock(moment)
        held.seat = way.looked_at(self.me, seen, held.seat, now)
        is_busy = held.seat.is_ours and now < min(held.works_until, held.cut_at)
        if held.seat.is_leaving and not (is_busy and way.drains):
            self._world.handed_over += 1
            self._give(held, moment)
            return
        match way.step_for(self.me, seen, held.seat, now, wall):
            case Take() as take:
                self._write(held, take, moment)
            case StepDown():
                held.keep(election.stepped_down(held.sight))
        if held.seat.is_ours and not (held.seat.is_leaving or is_busy or self.is_ending):
            self._begin_work(held, now)

    def _begin_work(self, held: Holding, now: float) -> None:
        if now < held.cut_at and self._world.chance.random() < 0.3:
            held.works_until = now + self._world.chance.random() * LONGEST_WORK

    def leave(self, moment: float) -> None:
        """Told to end: what was begun is ended first, while everything is kept."""
        self.is_ending = True
        self._leave_by(moment + FINISH_SECONDS, moment)

    def _leave_by(self, latest: float, moment: float) -> None:
        if self.is_gone:
            return
        is_busy = any(self.is_working(number, moment) for number in range(self._world.buckets))
        if is_busy and moment < latest:
            self._world.at(moment + 0.5, lambda later: self._when_awake(later, lambda now: self._leave_by(latest, now)))
            return
        self.is_gone = True
        if not is_busy:
            for held in (self.membership, *self.holdings):
                take = election.handed_back(held.sight, self.wall(moment))
                if held.sight.ours_until is not None and take is not None:
                    self._send(moment, _writing(self._world, held.lock, take))

    # Requests

    def look(self, moment: float) -> None:
        """All locks at once, every retry period."""
        if not self._is_awake(moment, self.look) or self.is_gone:
            return
        began = self.clock(moment)
        due = self.moment_of(began + self.me.terms.retry_seconds)
        found: dict[str, Found] = {}
        is_over = False

        def read(_: float) -> None:
            found.update(self._world.locks)

        def answer(now: float) -> None:
            nonlocal is_over
            if not is_over and not self.is_gone:
                is_over = True
                self._saw(found, began, now)
                self._world.at(max(due, now), self.look)

        def give_up(now: float) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self._world.at(max(due, now), self.look)

        self._send(moment, read, answer)
        self._world.at(self.moment_of(began + self._patience), lambda now: self._when_awake(now, give_up))

    def _saw(self, found: dict[str, Found], began: float, moment: float) -> None:
        now = self.clock(moment)
        self.members = {
            name: seats.met(self.members.get(name), one.record, one.version, now)
            for name, one in found.items()
            if name.startswith("member-") and one.record is not None and one.version is not None
        }
        for held in self.holdings:
            if not held.request and (held.touched < began or not self._world.way.guards_reads):
                there = found.get(held.lock, Found())
                held.keep(election.saw(held.sight, there.record, there.version, now))

    def _read(self, held: Holding, moment: float) -> None:
        seen: list[Found] = []

        def learn(now: float) -> None:
            held.keep(election.saw(held.sight, seen[0].record, seen[0].version, self.clock(now)))

        self._ask(held, moment, lambda _: seen.append(self._world.locks.get(held.lock, Found())), learn)

    def _write(self, held: Holding, take: Take, moment: float) -> None:
        held.keep(election.trying(held.sight, take))
        versions: list[str | None] = []
        began = self.clock(moment)

        def learn(now: float) -> None:
            self._wrote(held, take, versions[0], began, now)

        self._ask(held, moment, _writing(self._world, held.lock, take, versions), learn)

    def _wrote(self, held: Holding, take: Take, version: str | None, began: float, moment: float) -> None:
        if version is None:
            held.keep(election.lost(held.sight, take, self.clock(moment)))
            return
        self._world.taken += not held.seat.is_ours and held.seat.number >= 0
        held.keep(election.wrote(self.me, held.sight, Written(take.record, version, began, self.clock(moment))))
        if held.seat.number >= 0:
            self._world.check(held.seat.number, self, moment)

    def _give(self, held: Holding, moment: float) -> None:
        """It is let go, in the version that is known to be ours; whatever comes of that."""
        take = election.handed_back(held.sight, self.wall(moment))
        held.keep(election.stepped_down(held.sight))

        def learn(now: float) -> None:
            held.keep(election.failed(held.sight, self.clock(now)))

        if take is None:
            learn(moment)
        else:
            self._ask(held, moment, _writing(self._world, held.lock, take), learn)

    def _ask(self, held: Holding, moment: float, arrives: Event, learns: Event) -> None:
        self._requests += 1
        number = held.request = self._requests
        began = self.clock(moment)

        def ended(now: float, then: Event) -> None:
            if held.request == number and not self.is_gone:
                held.request, held.touched = 0, self.clock(now)
                then(now)

        def give_up(_: float) -> None:
            held.keep(election.failed(held.sight, began))

        self._send(moment, arrives, lambda now: ended(now, learns))
        gives_up_at = self.moment_of(began + self._patience)
        self._world.at(gives_up_at, lambda now: self._when_awake(now, lambda later: ended(later, give_up)))

    @property
    def _patience(self) -> float:
        return self.me.terms.renew_seconds / 2

    def _send(self, moment: float, arrives: Event, answers: Event | None = None) -> None:
        """What was sent may arrive although nobody hears of it, and late."""
        if moment < self.is_cut_off_until or self._world.is_lost():
            return

        def arrive(now: float) -> None:
            arrives(now)
            if answers is not None and now >= self.is_cut_off_until and not self._world.is_lost():
                self._world.at(now + self._world.delay(), lambda later: self._when_awake(later, answers))

        self._world.at(moment + self._world.delay(), arrive)

    def _when_awake(self, moment: float, event: Event) -> None:
        if self._is_awake(moment, event):
            event(moment)

    def _later(self, event: Event) -> Event:
        return lambda now: self._when_awake(now, event)

    def _is_awake(self, moment: float, event: Event) -> bool:
        if moment < self._paused_until:
            self._waiting.append(event)
        return moment >= self._paused_until


def _writing(world: World, lock: str, take: Take, versions: list[str | None] | None = None) -> Event:
    def arrives(_: float) -> None:
        written = world.write(lock, take.record, take.version)
        if versions is not None:
            versions.append(written)

    return arrives


class History(msgspec.Struct, frozen=True, kw_only=True):
    wrong: tuple[str, ...]
    taken: int
    handed_over: int
    owned_after: float  # the end of all trouble, in leases on the slowest clock
    unsettled: tuple[str, ...]  # what is wrong with the shares long after that


def history(seed: int, way: Way = AS_IT_IS) -> History:
    """Trouble for a few leases, then peace for as long as it may take until every bucket is somebody's."""
    world = World(Random(seed), way)
    lease = world.terms.lease_seconds
    trouble = TROUBLE * lease
    for _ in range(3):
        world.join(world.chance.uniform(0.0, lease / 2))
    for _ in range(world.chance.randrange(1, 6)):
        world.at(world.chance.uniform(0.0, trouble), lambda now: _strike(world, now))
    world.run(trouble)
    _make_peace(world, trouble)
    moment = trouble
    while world.unowned(moment) and moment < trouble + PEACE * lease:
        moment += lease / 50
        world.run(moment)
    owned_after = (moment - trouble) * SLOWEST / lease
    unsettled = tuple(_unsettled(world, moment)) if seed % 10 == 0 else ()
    return History(
        wrong=tuple(world.wrong),
        taken=world.taken,
        handed_over=world.handed_over,
        owned_after=owned_after,
        unsettled=unsettled,
    )


def _make_peace(world: World, moment: float) -> None:
    world.is_troubled = False
    for replica in world.replicas:
        replica.is_cut_off_until = min(replica.is_cut_off_until, moment)
        replica.wake_early(moment)
        replica.is_gone = replica.is_gone or replica.is_ending  # else its end would be trouble that comes later
    if all(replica.is_gone for replica in world.replicas):
        world.join(moment)


def _unsettled(world: World, moment: float) -> Iterable[str]:
    """One more comes; and in the end everybody has what all agree on, or has left idle once, for a whole lease."""
    world.join(moment)
    later = moment + PEACE * world.terms.lease_seconds
    world.run(later)
    there = [one for one in world.replicas if not one.is_gone]
    wanted = preferences(world.buckets, tuple(sorted(one.name for one in there)))
    for number, name in wanted.items():
        holders = [one for one in there if one.may_act(number, later)]
        if [name in (one.name, one.holdings[number].seat.neglected) for one in holders] != [True]:
            yield f"bucket {number} is to be {name}'s, and is with {[one.name for one in holders]}"


def _strike(world: World, moment: float) -> None:
    """One replica is frozen, cut off, crashes, or is told to end; perhaps another one comes for it."""
    there = [one for one in world.replicas if not one.is_gone]
    if not there:
        world.join(moment)
        return
    victim, length = world.chance.choice(there), world.chance.uniform(0.1, 3.0) * world.terms.lease_seconds
    comes_at = min(moment + length / 2, TROUBLE * world.terms.lease_seconds)  # with it come other preferences
    match world.chance.randrange(5):
        case 0:
            victim.pause(moment + length)
        case 1:
            victim.is_cut_off_until = moment + length
        case 2:
            victim.is_gone = True
            name = victim.name if world.chance.random() < 0.3 else ""
            world.at(comes_at, lambda now: world.join(now, name))
        case 3:
            victim.leave(moment)
            world.at(comes_at, world.join)
        case 4:
            world.join(moment)
