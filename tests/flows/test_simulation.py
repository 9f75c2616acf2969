"""Seeds of the simulation: each is a whole cluster's bad day, after which no invariant was broken. `make soak` has more."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from defib.decide.fencing.table import TRANSITIONS
from tests.simulation.coverage import SOMETIMES, missed, never_reached, row_name, row_of
from tests.simulation.many import Days, live_all
from tests.simulation.runs import drawn_for, live
from tests.simulation.shape import POWER, Size
from tests.simulation.shrinking import SHORTEST_SECONDS, Shrunk, fewest, shortest, shrink_all

ROOT = Path(__file__).parents[2]
PARTS, SEEDS_OF_A_PART = 20, 12  # parts, so that all cores have something to do
MUST_BE_REACHED = ("switched off", "switched on", "another replica leads")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("part", range(PARTS))
def test_on_bad_days_no_invariant_breaks(part: int) -> None:
    first = 1 + part * SEEDS_OF_A_PART
    days = sum(live_all(range(first, first + SEEDS_OF_A_PART), jobs=1, shrinks=False), Days())
    assert [str(bad) for bad in days.bad] == []
    assert [what for what in MUST_BE_REACHED if not days.reached[what]] == []


@pytest.mark.timeout(60)
def test_a_seed_gives_the_same_history_byte_for_byte_however_strings_are_hashed() -> None:
    def told(hashed_by: str) -> bytes:
        command = (sys.executable, "-m", "tests.simulation", "--seed", "3")
        env = {"PYTHONHASHSEED": hashed_by, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        return subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=env, timeout=25).stdout

    history = told("1")
    assert history.splitlines()[-1].startswith(b"history ")
    assert history == told("2")


@pytest.mark.timeout(60)
def test_what_comes_out_does_not_depend_on_how_many_processes_there_are() -> None:
    alone, together = (list(live_all(range(1, 5), jobs)) for jobs in (1, 2))
    assert alone == together
    assert sum(days.seeds for days in alone) == 4


def test_troubles_are_left_out_by_halves_until_all_that_are_left_are_needed() -> None:
    tried: list[tuple[int, ...]] = []

    def shows(numbers: tuple[int, ...]) -> bool:
        tried.append(numbers)
        return {2, 7} <= set(numbers)

    assert fewest(tuple(range(8)), shows) == (2, 7)
    assert tried[0] == (4, 5, 6, 7)
    assert len(tried) < 20
    assert fewest(tuple(range(8)), lambda _: True) == ()
    assert fewest((0, 1), lambda numbers: len(numbers) == 2) == (0, 1)


def test_what_is_left_is_made_as_short_as_shows_the_same() -> None:
    found = shortest({0: 80.0, 3: 16.0}, lambda lengths: lengths[0] >= 20 and lengths[3] > 1)
    assert found == {0: 20.0, 3: SHORTEST_SECONDS}


def _is_quick(seed: int) -> bool:
    """A long day with a check that is soon impatient: half of an illness is enough for it."""
    shape = drawn_for(seed)[0]
    return shape.size is Size.LARGE and shape.ladder[0] == POWER and shape.patience_seconds == 1


@pytest.mark.timeout(120)
def test_what_a_day_shows_is_shown_by_as_few_troubles_as_are_needed_and_one_command_replays_it() -> None:
    seed = next(seed for seed in range(1, 300) if _is_quick(seed) and live(seed).reached["switched off"])
    few = shrink_all(seed, lambda day: bool(day.reached["switched off"]))
    (number,) = few.numbers
    drawn = drawn_for(seed)[1][number]
    assert drawn.layer == "node"
    assert few.lasting[number] < drawn.seconds
    lasting = f" --lasting '{number}={few.lasting[number]:g}'"
    assert few.command == f"python -m tests.simulation --seed {seed} --only '{number}'{lasting}"


def test_a_command_without_anything_shortened_says_nothing_of_it() -> None:
    assert Shrunk(7, (0, 3)).command == "python -m tests.simulation --seed 7 --only '0,3'"


# What was reached


def test_a_row_of_the_table_is_known_by_its_words_or_by_being_the_only_one() -> None:
    def told(phase: str, message: str) -> dict[str, object]:
        return {"status": {"phase": phase, "message": message}}

    stirred = row_of(told("FreeingWorkloads", ""), told("PoweringOn", "it shows life"))
    freed = row_of(told("FreeingWorkloads", ""), told("PoweringOn", "its workloads are free"))
    rests = row_of(told("PoweringOff", ""), told("WaitingToRetry", "StillOn"))
    assert stirred is not None
    assert freed is not None
    assert rests is not None
    assert (stirred.name, freed.name) == ("it shows life", "its workloads are free")
    assert rests.name == "the time is up, and another attempt is left"
    assert row_of(told("Closed", ""), told("Open", "")) is None


def test_rows_that_no_day_went_by_are_named() -> None:
    all_but_one = Counter(row_name(row) for row in TRANSITIONS[1:])
    assert never_reached(all_but_one) == (row_name(TRANSITIONS[0]),)


def test_what_is_rare_must_be_reached_only_by_many_days() -> None:
    (few, common), (many, rare) = SOMETIMES.items()
    assert missed(Counter(), few - 1) == ()
    assert missed(Counter(), few) == common
    assert missed(Counter(common), many) == rare
    assert missed(Counter((*common, *rare)), many) == ()


def test_days_of_several_processes_are_told_together() -> None:
    one = Days(seeds=3, reached=Counter({"a": 1}))
    other = Days(seeds=2, reached=Counter({"a": 2, "b": 1}))
    assert one + other == Days(seeds=5, reached=Counter({"a": 3, "b": 1}))
    assert msgspec.structs.asdict(Days() + one) == msgspec.structs.asdict(one)
