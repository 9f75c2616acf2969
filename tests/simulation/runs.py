"""One seed, one day: drawn, lived through, judged; and if it was a bad one, with as few troubles as show it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random

import msgspec

from defib.model.incident import INCIDENTS
from defib.simulate.virtual_time import VirtualClock
from tests.simulation.checkers import Finding, check
from tests.simulation.faults import Trouble, draw_troubles
from tests.simulation.freezing import FreezingLoop
from tests.simulation.history import Entry, Happened, Switched, Written
from tests.simulation.shape import Shape, draw_shape
from tests.simulation.troubles import play
from tests.simulation.world import LEADER_LEASE, LEASES, REMEDIATIONS, World, phase_of

DAY = timedelta(hours=4)
SETTLED_SECONDS = 1800.0  # after the last trouble everything is in order again, or a person has been told
LOOK_SECONDS = 30.0


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a seed. `digest` is that of its whole history, where it was asked for."""

    seed: int
    shape: Shape
    troubles: tuple[Trouble, ...]
    findings: tuple[Finding, ...]
    reached: Counter[str]
    digest: str = ""
    lines: tuple[str, ...] = ()

    @property
    def broken(self) -> frozenset[str]:
        """The invariants that were."""
        return frozenset(finding.invariant for finding in self.findings)


def drawn_for(seed: int) -> tuple[Shape, tuple[Trouble, ...]]:
    shape = draw_shape(Random(f"shape {seed}"))
    return shape, draw_troubles(Random(f"troubles {seed}"), shape)


def live(seed: int, only: Iterable[int] | None = None, *, tells: bool = False) -> Day:
    """`only`: of the troubles that the seed draws, those with these numbers. `tells`: with its history as text."""
    shape, drawn = drawn_for(seed)
    troubles = drawn if only is None else tuple(drawn[number] for number in sorted(only))
    with asyncio.Runner(loop_factory=lambda: FreezingLoop(DAY)) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, FreezingLoop), "it was made here"
        world = World(VirtualClock(loop, seed), loop, shape)
        broken: list[Finding] = []
        try:
            runner.run(_live(world, troubles))
        except ExceptionGroup as error:
            broken = [Finding("crash", world.history.now, _innermost(error))]
    return Day(
        seed=seed,
        shape=shape,
        troubles=troubles,
        findings=tuple(broken or check(world, world.history.entries)),
        reached=_reached(world.history.entries, troubles),
        digest=world.history.digest() if tells else "",
        lines=tuple(world.history.lines()) if tells else (),
    )


def shrink(seed: int, shows: Callable[[Day], bool]) -> tuple[int, ...]:
    """The numbers of the troubles that are enough for a day to show the same; each is left out in turn."""
    left = list(range(len(drawn_for(seed)[1])))
    for number in tuple(left):
        fewer = [one for one in left if one != number]
        if shows(live(seed, fewer)):
            left = fewer
    return tuple(left)


async def _live(world: World, troubles: tuple[Trouble, ...]) -> None:
    async with asyncio.TaskGroup() as group:
        living = group.create_task(_be(world), name="world")
        await play(world, troubles)
        ends = world.clock.monotonic() + SETTLED_SECONDS
        while world.clock.monotonic() < ends:
            is_over = not world.unsettled()
            await asyncio.sleep(LOOK_SECONDS)  # also after the end: it must last
            if is_over:
                break
        world.replicas.end()
        living.cancel()


async def _be(world: World) -> None:
    async with asyncio.TaskGroup() as group:
        world.live_in(group)


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _reached(entries: Iterable[Entry], troubles: Iterable[Trouble]) -> Counter[str]:
    """How often each state, transition and trouble came to pass."""
    reached = Counter(f"trouble {trouble.name}" for trouble in troubles)
    for entry in entries:
        match entry:
            case Written(resource=resource) if resource == INCIDENTS and entry.change.before:
                before, now = phase_of(entry.change.before.object), phase_of(entry.change.now.object)
                reached[f"phase {before} -> {now}"] += before != now
            case Written(resource=resource) if resource in REMEDIATIONS and entry.change.before is None:
                reached[f"begun {resource.partition('.')[0]}"] += 1
            case Switched():
                reached[f"switched {entry.power}"] += 1
            case Happened() if entry.what.endswith("starts"):
                reached["replica starts"] += 1
            case Written(resource=resource) if resource == LEASES and entry.key == LEADER_LEASE:
                before = entry.change.before.object["spec"] if entry.change.before else {}
                holder = entry.change.now.object["spec"].get("holderIdentity")
                reached["another replica leads"] += bool(holder) and holder != before.get("holderIdentity")
    return +reached
