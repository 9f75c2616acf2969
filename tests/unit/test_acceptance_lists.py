"""Every statement of an acceptance list has a test that carries its number: `test_ev_07_...` is about EV-07."""

import re
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).parents[1]
LISTS = {"DK": 29, "EV": 22, "GC": 5, "LE": 18, "RV": 5, "SH": 9}
# Of what is shared by all parts of the operator: that they never work on the same node at once, and have one budget.
SHARED = ("SHX-01", "SHX-03")

_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)\(", re.MULTILINE)
_NUMBER = re.compile(r"_([a-z]{2,3})_([0-9]{2})(?![0-9])")


def named_in(tests: Iterable[str]) -> set[str]:
    return {f"{found[1].upper()}-{found[2]}" for test in tests for found in _NUMBER.finditer(test)}


def untested(name: str, count: int, tests: Iterable[str]) -> list[str]:
    """What of a list no test names."""
    named = named_in(tests)
    return [one for number in range(1, count + 1) if (one := f"{name}-{number:02}") not in named]


def names_of_tests(text: str) -> list[str]:
    return [match[1] for match in _TEST.finditer(text)]


def all_tests() -> list[str]:
    return [test for file in sorted(TESTS.rglob("test_*.py")) for test in names_of_tests(file.read_text())]


def test_each_statement_of_every_list_is_named_in_a_test() -> None:
    tests = all_tests()
    assert {name: untested(name, count, tests) for name, count in LISTS.items()} == {name: [] for name in LISTS}
    assert set(SHARED) - named_in(tests) == set()


def test_what_no_test_names_is_found() -> None:
    text = """
def test_zz_01_and_zz_03_go_together() -> None: ...
async def test_that_zz_05_is_found_anywhere() -> None: ...
    def test_zz_06_in_a_class(self) -> None: ...
def helper_of_zz_02() -> None: ...
# test_zz_04 is still to be written
def test_zz_041_is_another_number() -> None: ...
def test_fizz_02_is_another_list() -> None: ...
"""
    assert untested("ZZ", 6, names_of_tests(text)) == ["ZZ-02", "ZZ-04"]
    assert untested("ZZ", 1, []) == ["ZZ-01"]
    assert named_in(["test_zzz_01_of_a_list_with_three_letters", "test_zzzz_02_is_no_list"]) == {"ZZZ-01"}
