"""Every reason of an Event stands in one table, and the code has no others."""

import ast
from collections.abc import Iterator
from pathlib import Path

from defib.model.reasons import EVENTS, EventReason

SOURCE = Path(__file__).parents[3] / "src" / "defib"


def test_every_reason_is_explained_for_each_kind_that_it_is_told_of() -> None:
    assert {told.reason for told in EVENTS} == set(EventReason)
    pairs = [(told.reason, told.about) for told in EVENTS]
    assert len(pairs) == len(set(pairs))
    assert all(told.meaning.endswith((".", "NODE.")) for told in EVENTS)


def written_in_place(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "TellEvent":
            for argument in node.keywords:
                if argument.arg == "reason" and isinstance(argument.value, ast.Constant):
                    yield node.lineno


def test_no_event_has_a_reason_of_its_own() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in written_in_place(ast.parse(path.read_text()))
    ]
    assert found == []
