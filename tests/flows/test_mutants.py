"""Every known-bad guard is found by the simulation on its day, and the real guards come through the same days unharmed."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, switched_on
from tests.simulation.mutants.__main__ import with_table
from tests.simulation.mutants.hunting import is_shown, known_kills, lived_with
from tests.simulation.runs import live

KILLS = known_kills()
AGAIN = "days are drawn in another way now: python -m tests.simulation.mutants --write"
PAGE = Path(__file__).parents[2] / "docs" / "trust.md"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_guard_that_was_made_worse_is_found(mutant: Mutant) -> None:
    kill = KILLS.get(mutant.name)
    assert kill is not None, AGAIN
    assert kill.seed, f"nobody has found {mutant.name} yet"
    assert is_shown(mutant, lived_with(mutant, kill.seed)), AGAIN


SHOWN_ON = {(mutant.series, KILLS[mutant.name].seed) for mutant in MUTANTS if mutant.name in KILLS}


@pytest.mark.parametrize(("series", "seed"), sorted((series, seed) for series, seed in SHOWN_ON if seed))
def test_on_the_days_that_show_mutants_the_real_guards_hold(series: str, seed: int) -> None:
    assert [str(finding) for finding in live(seed, series=series).findings] == []


def test_each_invariant_has_a_mutant_that_breaks_it() -> None:
    assert {mutant.invariant for mutant in MUTANTS} == {f"I{number}" for number in range(1, 15)}


def test_no_two_mutants_have_one_name() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(set(names)) == sorted(names)


def test_mutants_leave_nothing_behind_even_after_a_crash() -> None:
    before = _product()
    for mutant in MUTANTS:
        with suppress(ZeroDivisionError), switched_on(mutant):
            raise ZeroDivisionError
    assert _product() == before


def test_the_table_in_the_docs_is_what_was_found_last() -> None:
    page = PAGE.read_text()
    assert with_table(page) == page


def _product() -> dict[str, int]:
    """Which object stands under each name of our modules and their classes."""
    modules = [module for name, module in sys.modules.items() if name.startswith("defib.")]
    found = {f"{module.__name__}:{name}": value for module in modules for name, value in vars(module).items()}
    classes = {where: value for where, value in found.items() if isinstance(value, type)}
    inside = {f"{where}.{name}": one for where, value in classes.items() for name, one in vars(value).items()}
    return {where: id(value) for where, value in (found | inside).items()}
