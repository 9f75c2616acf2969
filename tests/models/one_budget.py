"""Two ill nodes, two checks and two replicas under one budget: every order of looks, starts, lost answers and new leaders.

What to start is decided by the real `decide`, from real values that are made of a small state. Whoever leads sees what
its watches have told it, which may be old, and what it wrote itself. What it has begun, and what may have been done although
no answer came, it knows of too, until it sees. A new leader looks at everything once before it begins, and what its predecessor had on
its way has arrived by then, or never does: the lease is longer than the mandate for that.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from defib.decide.plan import decide
from defib.decide.rules import Rules
from defib.model.action import EndRemediation, StartRemediation
from defib.model.cluster import Cluster
from defib.model.failure import Failure
from defib.model.health_check import NodeHealthCheck
from tests.builders import SECOND
from tests.models.explore import Model, Move
from tests.unit.decide.checks import a_check, a_lock, a_remediation, healthy, ill, the_cluster

NODES = ("n1", "n2")
ROLE = {"node-role.kubernetes.io/control-plane": ""}

Place = tuple[str, str]  # a check, and a node


class Sight(NamedTuple):
    """What is there, as it is or as somebody knows it: remediations, and which nodes are ill."""

    out: frozenset[Place] = frozenset()
    ill: frozenset[str] = frozenset(NODES)


class Replica(NamedTuple):
    sight: Sight = Sight()
    underway: frozenset[Place] = frozenset()  # begun, and not ended
    unsure: frozenset[Place] = frozenset()  # nobody has heard whether it was done
    has_caught_up: bool = False


class World(NamedTuple):
    sight: Sight = Sight()
    replicas: tuple[Replica, Replica] = (Replica(has_caught_up=True), Replica())
    leads: int = 0
    turns: int = 0  # so often another one may still come to lead, and a node may get well or ill


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """What is guarded: the checks, the nodes, and how many of a check's may be out, or of all."""

    checks: tuple[NodeHealthCheck, ...]
    control_plane: bool = False
    per_check: int | None = None
    in_all: int | None = None


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How it is done. Whatever differs from the default is a mistake that somebody could make."""

    sees: Callable[[Cluster], Cluster] = lambda cluster: cluster
    catches_up: bool = True
    needs_mandate: bool = True
    forgets_unwanted: bool = False  # what nobody is sure of, as soon as it is not wanted, or was refused
    turns: int = 2


def checks_of(**guards: Any) -> tuple[NodeHealthCheck, ...]:
    """Two that select all nodes. One healthy node is enough for both."""
    return tuple(a_check(name, minHealthy=1, guards=guards) for name in ("c1", "c2"))


ONE_EACH = Guarded(checks=checks_of(maxInFlight=1), per_check=1)
ONE_PER_DOMAIN = Guarded(checks=checks_of(failureDomains=[{"label": "zone", "maxInFlight": 1}]), per_check=1)
ONE_OF_THE_CONTROL_PLANE = Guarded(checks=checks_of(), control_plane=True, in_all=1)


def model(guarded: Guarded, way: Way) -> Model[World]:
    def wrong(world: World) -> str:
        out = world.sight.out
        for name in ("c1", "c2"):
            count = sum(check == name for check, _ in out)
            if guarded.per_check is not None and count > guarded.per_check:
                return f"{name} has {count} in flight"
        if guarded.in_all is not None and len({node for _, node in out}) > guarded.in_all:
            return f"{len(out)} are in flight"
        twice = len({node for _, node in out}) < len(out)
        return "two checks work on one node" if twice else ""

    def is_good(world: World) -> bool:
        return not world.sight.ill and not world.sight.out

    return Model(begins=(World(turns=way.turns),), moves=_Moves(guarded, way), wrong=wrong, is_good=is_good)


def _cluster(guarded: Guarded, replica: Replica) -> Cluster:
    """As the replica knows it. The lock of a node is of whoever remediates it."""
    labels = {"zone": "z1"} | (ROLE if guarded.control_plane else {})
    sick = [ill(name, labels=labels) for name in NODES if name in replica.sight.ill]
    well = [one for one in healthy(2, "n", labels=labels) if one.name not in replica.sight.ill]
    sight = replica.sight
    return the_cluster(
        guarded.checks,
        *sick,
        *well,
        *healthy(4, labels=labels),
        foos=[a_remediation(node, check=check, name=f"{check}-{node}", labels={}) for check, node in sorted(sight.out)],
        locks=[a_lock(node, f"NodeHealthCheck-{check}") for check, node in sorted(sight.out)],
    )


class _Moves:
    def __init__(self, guarded: Guarded, way: Way) -> None:
        self.way = way
        self._guarded = guarded
        self._decided = lru_cache(maxsize=None)(self._decide)
        self._starts = self._every_start()

    def _every_start(self) -> dict[Place, StartRemediation]:
        """As they look while they are under way."""
        found: dict[Place, StartRemediation] = {}
        for check in self._guarded.checks:
            for node in NODES:
                one = msgspec.structs.replace(self._guarded, checks=(check,))
                plan = decide(_cluster(one, Replica(Sight(ill=frozenset({node})))), Rules())
                found |= {(a.check, a.node): a for a in plan.actions if isinstance(a, StartRemediation)}
        return found

    def _decide(self, replica: Replica) -> tuple[frozenset[Place], frozenset[Place]]:
        """What to start, and what to end."""
        unsure = {
            f"start {place}": Failure(why="no answer", times=1, again_in=SECOND, check=place[0], node=place[1])
            for place in replica.unsure
        }
        cluster = msgspec.structs.replace(
            _cluster(self._guarded, replica),
            underway=tuple(self._starts[place] for place in sorted(replica.underway)),
            failures=unsure,
        )
        plan = decide(self.way.sees(cluster), Rules())
        starts = frozenset((one.check, one.node) for one in plan.actions if isinstance(one, StartRemediation))
        names = [one.target.name for one in plan.actions if isinstance(one, EndRemediation)]
        ends = frozenset(place for place in replica.sight.out if f"{place[0]}-{place[1]}" in names)
        return starts - replica.underway, ends

    def __call__(self, world: World) -> Iterator[Move[World]]:
        if world.turns:
            yield from self._turns(world._replace(turns=world.turns - 1))
        for node in sorted(world.sight.ill):
            sight = world.sight._replace(ill=world.sight.ill - {node})
            yield Move(f"{node} is well", world._replace(sight=sight))
        for place in (0, 1):
            yield from self._of_replica(world, place)

    def _turns(self, world: World) -> Iterator[Move[World]]:
        one, other = world.leads, 1 - world.leads
        for node in sorted(frozenset(NODES) - world.sight.ill):
            sight = world.sight._replace(ill=world.sight.ill | {node})
            yield Move(f"{node} is ill", _anew(world._replace(sight=sight), node), True)
        # What is on its way arrives now, or never; and whoever ends forgets what it was unsure of.
        left = world.replicas[one]
        arrivals = _subsets(left.underway) if self.way.needs_mandate else [frozenset[Place]()]
        for done in arrivals:
            sight = world.sight
            for start in sorted(done):
                sight = sight._replace(out=sight.out | {start}) if _is_free(sight, start) else sight
            gone = left if not self.way.needs_mandate else Replica(left.sight)
            after = _with(world._replace(sight=sight, leads=other), one, gone._replace(has_caught_up=False))
            yield Move(f"{'ab'[other]} leads, and of {'ab'[one]} {len(done)} arrived", after, True)

    def _of_replica(self, world: World, place: int) -> Iterator[Move[World]]:
        one, name = world.replicas[place], "ab"[place]
        leads = world.leads == place
        if leads and not one.has_caught_up:
            yield Move(f"{name} catches up", _with(world, place, one._replace(sight=world.sight, has_caught_up=True)))
        if leads:  # of what the other one sees meanwhile nothing is left when it leads: it catches up
            nodes = one.sight._replace(ill=world.sight.ill)
            yield Move(f"{name} sees {sorted(nodes.ill)} ill", _with(world, place, one._replace(sight=nodes)))
            there = one._replace(sight=one.sight._replace(out=world.sight.out), unsure=frozenset())
            yield Move(f"{name} sees {sorted(world.sight.out)} out", _with(world, place, there))
        if leads and (one.has_caught_up or not self.way.catches_up):
            yield from self._plans(world, place, one)
        if leads or not self.way.needs_mandate:
            for start in sorted(one.underway):
                yield from self._started(world, place, start)

    def _plans(self, world: World, place: int, one: Replica) -> Iterator[Move[World]]:
        name = "ab"[place]
        starts, ends = self._decided(one._replace(has_caught_up=True))
        wanted = starts | one.underway
        unsure = one.unsure & wanted if self.way.forgets_unwanted else one.unsure
        planned = one._replace(underway=wanted, unsure=unsure)
        if planned != one:
            yield Move(f"{name} begins {sorted(starts)}", _with(world, place, planned))
        for ended in sorted(ends):
            yield Move(f"{name} ends {ended}", _ended(world, place, ended))

    def _started(self, world: World, place: int, start: Place) -> Iterator[Move[World]]:
        one, name = world.replicas[place], "ab"[place]
        left = one._replace(underway=one.underway - {start})
        if self.way.forgets_unwanted:
            left = left._replace(unsure=left.unsure - {start})
        noted = left._replace(unsure=left.unsure - {start}, sight=left.sight._replace(out=left.sight.out | {start}))
        if start in world.sight.out and start[1] in world.sight.ill:
            yield Move(f"{name} finds {start}", _with(world, place, noted))
            return
        if not _is_free(world.sight, start):
            yield Move(f"{name} is refused {start}", _with(world, place, left))
            return
        made = world._replace(sight=world.sight._replace(out=world.sight.out | {start}))
        unsure = left._replace(unsure=left.unsure | {start})
        yield Move(f"{name} starts {start}", _with(made, place, noted))
        yield Move(f"{name} starts {start}, and does not hear of it", _with(made, place, unsure), True)
        yield Move(f"{name} is not heard: {start}", _with(world, place, unsure), True)


def _subsets(places: frozenset[Place]) -> list[frozenset[Place]]:
    found: list[frozenset[Place]] = [frozenset()]
    for place in sorted(places):
        found += [one | {place} for one in found]
    return found


def _is_free(sight: Sight, place: Place) -> bool:
    """What is begun looks at the node, live, and takes its lock."""
    return place[1] in sight.ill and all(node != place[1] for _, node in sight.out)


def _anew(world: World, node: str) -> World:
    """What was begun because of its illness before is refused: it looks at since when the node is ill."""
    first, second = (
        one._replace(underway=frozenset(place for place in one.underway if place[1] != node)) for one in world.replicas
    )
    return world._replace(replicas=(first, second))


def _ended(world: World, place: int, ended: Place) -> World:
    """Only what is there can be ended; that it is gone is seen later."""
    one = world.replicas[place]
    world = world._replace(sight=world.sight._replace(out=world.sight.out - {ended}))
    return _with(world, place, one._replace(sight=one.sight._replace(out=one.sight.out - {ended})))


def _with(world: World, place: int, one: Replica) -> World:
    first, second = world.replicas
    return world._replace(replicas=(one, second) if place == 0 else (first, one))
