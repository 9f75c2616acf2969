"""One seed, one day: drawn, lived through, judged."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from random import Random

import msgspec

from defib.simulate.virtual_time import VirtualClock
from tests.simulation.checkers import Finding, check
from tests.simulation.coverage import reached_by
from tests.simulation.faults import Trouble, draw_troubles
from tests.simulation.freezing import TimeStandsStill
from tests.simulation.looking_on import look_on
from tests.simulation.self_fence.drawing import draw_day as draw_self_fence_day
from tests.simulation.self_fence.judges import judge as judge_self_fence
from tests.simulation.self_fence.network import TalkingLoop
from tests.simulation.self_fence.reached import reached_in
from tests.simulation.shape import Shape, draw_shape
from tests.simulation.troubles import play
from tests.simulation.world import World

DAY = timedelta(hours=4)
SETTLED_SECONDS = 1800.0  # after the last trouble everything is in order again, or a person has been told
LOOK_SECONDS = 5.0


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


def _draw_usual(seed: int) -> tuple[Shape, tuple[Trouble, ...]]:
    shape = draw_shape(Random(f"shape {seed}"))
    return shape, draw_troubles(Random(f"troubles {seed}"), shape)


USUAL, SELF_FENCE = "usual", "self-fence"
# Each draws its days by itself, so that a seed of one stays the same whatever is added to another.
SERIES: Mapping[str, Callable[[int], tuple[Shape, tuple[Trouble, ...]]]] = {
    USUAL: _draw_usual,
    SELF_FENCE: draw_self_fence_day,
}


def drawn_for(seed: int, series: str = USUAL) -> tuple[Shape, tuple[Trouble, ...]]:
    return SERIES[series](seed)


def live(
    seed: int,
    only: Iterable[int] | None = None,
    *,
    tells: bool = False,
    lasting: Mapping[int, float] | None = None,
    series: str = USUAL,
) -> Day:
    """`only`: of the troubles that the seed draws, those with these numbers. `tells`: with its history as text.

    `lasting`: troubles, by their numbers, that end sooner, after so many seconds.
    """
    shape, drawn = drawn_for(seed, series)
    numbers = range(len(drawn)) if only is None else sorted(only)
    troubles = tuple(_lasting(drawn[number], (lasting or {}).get(number)) for number in numbers)
    with asyncio.Runner(loop_factory=lambda: TalkingLoop(DAY)) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, TalkingLoop), "it was made here"
        world = World(VirtualClock(loop, seed), loop, shape)
        broken: list[Finding] = []
        try:
            runner.run(_live(world, troubles))
        except ExceptionGroup as error:
            broken = [Finding("crash", world.history.now, _innermost(error))]
        except TimeStandsStill as error:
            broken = [Finding("I10", world.history.now, f"time stands still {error}")]
    return Day(
        seed=seed,
        shape=shape,
        troubles=troubles,
        findings=tuple(broken or _judged(world)),
        reached=_reached_by(world, troubles),
        digest=world.history.digest() if tells else "",
        lines=tuple(world.history.lines()) if tells else (),
    )


def _judged(world: World) -> list[Finding]:
    entries = world.history.entries
    found = check(world, entries)
    if world.guarded is not None:
        found += judge_self_fence(entries, world.shape.unguarded, world.history.now)
    return found


def _reached_by(world: World, troubles: tuple[Trouble, ...]) -> Counter[str]:
    entries, guarding = world.history.entries, world.shape.guarding
    reached = reached_by(entries, troubles)
    return reached if guarding is None else reached + reached_in(entries, troubles, guarding)


def _lasting(trouble: Trouble, seconds: float | None) -> Trouble:
    return trouble if seconds is None else msgspec.structs.replace(trouble, seconds=seconds)


async def _live(world: World, troubles: tuple[Trouble, ...]) -> None:
    async with asyncio.TaskGroup() as group:
        living = group.create_task(_be(world), name="world")
        looking = group.create_task(look_on(world), name="looking on")
        await play(world, troubles)
        ends = world.clock.monotonic() + SETTLED_SECONDS
        looks_settled = False
        while world.clock.monotonic() < ends:
            was_settled, looks_settled = looks_settled, not world.unsettled()
            if was_settled and looks_settled:
                break  # it lasts: not everybody had noticed the last trouble at once
            await asyncio.sleep(LOOK_SECONDS)
        world.replicas.end()
        living.cancel()
        looking.cancel()


async def _be(world: World) -> None:
    async with asyncio.TaskGroup() as group:
        world.live_in(group)


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
