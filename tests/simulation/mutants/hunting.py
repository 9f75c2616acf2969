"""How many seeds it takes until a mutant is found, and what gave it away."""

import gc
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from tests.simulation.many import AT_ONCE, be_quiet
from tests.simulation.mutants import MUTANTS, Mutant, switched_on
from tests.simulation.mutants.days import drawn
from tests.simulation.runs import Day, live

KILLS = Path(__file__).parent / "kills.json"


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """`seed` is the first that shows it, counted from 1, so it is also how many it took; 0 when none did."""

    mutant: str
    seed: int = 0
    seen: str = ""


def mutant_named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def lived_with(mutant: Mutant, seed: int) -> Day:
    """Switched on anew for each day, so that a day is the same whatever was lived through before."""
    with switched_on(mutant):
        return live(seed, series=mutant.series)


def is_shown(mutant: Mutant, day: Day) -> bool:
    return mutant.invariant in day.broken


def hunt(name: str, seeds: Iterable[int]) -> Kill:
    """A seed that shows the same without the mutant proves nothing, and is passed over."""
    be_quiet()
    mutant = mutant_named(name)
    for days, seed in enumerate(seed for seed in seeds if mutant.needs(drawn(seed, mutant.series))):
        if days % AT_ONCE == 0:
            gc.collect()
        day = lived_with(mutant, seed)
        if is_shown(mutant, day) and not live(seed, series=mutant.series).findings:
            seen = next(str(finding) for finding in day.findings if finding.invariant == mutant.invariant)
            return Kill(mutant=name, seed=seed, seen=seen)
    return Kill(mutant=name)


def hunt_all(names: Iterable[str], most: int, jobs: int) -> Iterator[Kill]:
    """In other processes: nothing of a mutant is ever left in this one."""
    wanted = list(names)
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        yield from pool.map(hunt, wanted, [range(1, most + 1)] * len(wanted))


def known_kills() -> dict[str, Kill]:
    """As they were found last."""
    kills = msgspec.json.decode(KILLS.read_bytes(), type=list[Kill]) if KILLS.exists() else []
    return {kill.mutant: kill for kill in kills}


def keep(kills: Iterable[Kill]) -> None:
    """Those that were not hunted this time stay as they were."""
    known = known_kills() | {kill.mutant: kill for kill in kills}
    inorder = [known[mutant.name] for mutant in MUTANTS if mutant.name in known]
    KILLS.write_bytes(msgspec.json.format(msgspec.json.encode(inorder), indent=2) + b"\n")
