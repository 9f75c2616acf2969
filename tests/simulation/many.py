"""Many days, on all cores, judged together. What comes out does not depend on how many cores there are."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import msgspec
import structlog

from tests.simulation.runs import USUAL, live
from tests.simulation.shrinking import Shrunk, shrink_all

CRITICAL = 50
AT_ONCE = 10  # seeds that one process is given, so that it is not asked all the time
TOLD_MOST = 5  # findings of one day; the others mostly follow from them


class Bad(msgspec.Struct, frozen=True):
    """A day that broke something: what, with which troubles, and how to see it again."""

    seed: int
    findings: tuple[str, ...]
    troubles: tuple[str, ...]
    command: str

    def __str__(self) -> str:
        lines = [f"  {line}" for line in (*self.findings, *self.troubles, f"replay it: {self.command}")]
        return "\n".join((f"seed {self.seed}:", *lines))


class Days(msgspec.Struct, frozen=True, kw_only=True):
    """What came of some seeds."""

    seeds: int = 0
    bad: tuple[Bad, ...] = ()
    reached: Counter[str] = msgspec.field(default_factory=Counter)

    def __add__(self, other: "Days") -> "Days":
        both = self.reached + other.reached
        return Days(seeds=self.seeds + other.seeds, bad=(*self.bad, *other.bad), reached=both)


def live_all(seeds: Iterable[int], jobs: int, *, shrinks: bool = True, series: str = USUAL) -> Iterator[Days]:
    """In the order of the seeds, some at a time."""
    numbers = list(seeds)
    parts = [numbers[start : start + AT_ONCE] for start in range(0, len(numbers), AT_ONCE)]
    work = partial(_live_some, shrinks=shrinks, series=series)
    if jobs <= 1:
        yield from map(work, parts)
        return
    with ProcessPoolExecutor(jobs, get_context("fork"), be_quiet) as pool:
        yield from pool.map(work, parts)


def be_quiet() -> None:
    """Nobody reads the log of a simulated operator; and garbage is collected when a day is over, while it is small."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL), cache_logger_on_first_use=True)
    gc.disable()
    gc.freeze()  # what was loaded before the first day is not looked at each time


def _sweep() -> None:
    """What outlives a day is remembered for all days, and is not looked at each time either."""
    gc.collect()
    gc.freeze()


def _live_some(seeds: list[int], *, shrinks: bool, series: str) -> Days:
    return sum((_live_one(seed, shrinks=shrinks, series=series) for seed in seeds), Days())


def _live_one(seed: int, *, shrinks: bool, series: str) -> Days:
    day = live(seed, series=series)
    _sweep()
    if not day.findings:
        return Days(seeds=1, reached=day.reached)
    few = Shrunk.whole(seed, series)
    if shrinks:
        few = shrink_all(seed, lambda other: bool(day.broken & other.broken), series)
    _sweep()
    troubles = tuple(f"trouble {number}: {day.troubles[number]}" for number in few.numbers)
    bad = Bad(seed, tuple(str(one) for one in day.findings[:TOLD_MOST]), troubles, few.command)
    return Days(seeds=1, bad=(bad,), reached=day.reached)
