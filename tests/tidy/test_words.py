"""Names and words: modules say what they are for, nothing is left for later, nothing hides behind an empty name."""

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.repository import files, name, text
from tests.tidy.rules import MACHINE_PATH, REGISTRY, UNFINISHED

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "manager", "managers", "misc", "common", "data"}


def python(*folders: str) -> list[Path]:
    return [path for folder in folders for path in files(".py", under=folder)]


@pytest.mark.parametrize("path", python("src", "testbed", "tests"), ids=name)
def test_every_module_opens_with_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{name(path)} has no docstring"


def test_no_folder_or_module_has_a_name_that_says_nothing() -> None:
    parts = {part for path in python("src", "testbed", "tests") for part in Path(name(path)).with_suffix("").parts}
    assert parts & EMPTY_NAMES == set()


def test_nothing_is_left_for_later() -> None:
    sources = [path for folder in ("src", "tests", "testbed") for path in files(".py", ".go", ".sh", under=folder)]
    assert [name(path) for path in sources if UNFINISHED.search(path.read_text())] == []


@pytest.mark.parametrize("banned", [MACHINE_PATH, REGISTRY], ids=["a path of one machine", "the host of a registry"])
def test_no_file_names(banned: re.Pattern[str]) -> None:
    named = {name(path): found.group() for path in files() if (found := banned.search(text(path) or ""))}
    assert named == {}
