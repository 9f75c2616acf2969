"""docs/threat-model.md says of each line which test shows it: the test is there, it runs, and no line is without one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from testbed.chart import RIGHTS
from tests.security import test_rights

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
ACTORS = (
    "Who owns a namespace",
    "Who has a node's credentials",
    "Who has the login of a BMC",
    "Who visits the dashboard",
    "A neighbour on the pod network",
    "Who may write our kinds",
    "A replica that was taken over",
    "Who has a token of Defib's account",
    "Who has an agent's token",
)
_ROW = re.compile(r"^\| (can|cannot) \| (.+) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


ROWS = [(title, *row) for title, text in sections().items() for row in _ROW.findall(text)]


@cache
def functions_in(path: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse((ROOT / path).read_text())
    return {
        node.name: node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize(("who", "verb", "what", "shown_by"), ROWS, ids=lambda text: text[:40])
def test_every_line_is_shown_by_a_test_that_is_there(who: str, verb: str, what: str, shown_by: str) -> None:
    named = _TEST.findall(shown_by)
    assert named, f"{who} {verb} {what}: no test is named"
    for path, name in named:
        assert (ROOT / path).is_file(), path
        assert name in functions_in(path), f"{path} has no {name}"
        marks = [ast.unparse(mark) for mark in functions_in(path)[name].decorator_list]
        assert not [mark for mark in marks if "skip" in mark or "xfail" in mark], f"{name} does not run"


def test_every_row_of_every_table_is_read() -> None:
    tables = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| |")]
    assert len(tables) == len(ROWS)


@pytest.mark.parametrize("who", ACTORS)
def test_of_everybody_it_is_said_what_they_can_do_and_what_they_cannot(who: str) -> None:
    assert {verb for title, verb, *_ in ROWS if title == who} == {"can", "cannot"}


def test_rights_without_a_use_of_ours_name_a_test_too() -> None:
    reasons = [why for why in test_rights.FOR_OTHERS.values() if "::" in why]
    for path, name in re.findall(r"(tests/[\w/]+\.py)::(test_\w+)", " ".join(reasons)):
        assert name in functions_in(path)
    assert len(reasons) == 2
    assert RIGHTS.is_file()
