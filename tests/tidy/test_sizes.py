"""Small files, small functions. What is over a limit stands in exceptions.toml with a reason, and only there."""

import tomllib
from typing import Any

from tests.tidy.repository import ROOT, SOURCE, files, name
from tests.tidy.rules import function_lines

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 40


def exceptions() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tests/tidy/exceptions.toml").read_text())


def allowed(section: str) -> dict[str, int]:
    return {what: entry["lines"] for what, entry in exceptions()[section].items()}


def test_a_file_is_at_most_400_lines_long() -> None:
    sizes = {name(path): len(path.read_text().splitlines()) for path in files(".py", under="src")}
    assert SOURCE / "__init__.py" in files(".py", under="src")
    assert {path: lines for path, lines in sizes.items() if lines > FILE_LINES_MAX} == allowed("files")


def test_a_function_is_at_most_40_lines_long() -> None:
    sizes = {
        f"{name(path)}::{function}": lines
        for path in files(".py", under="src")
        for function, lines in function_lines(path.read_text()).items()
    }
    assert {function: lines for function, lines in sizes.items() if lines > FUNCTION_LINES_MAX} == allowed("functions")


def test_every_exception_has_a_reason() -> None:
    entries = [entry for section in exceptions().values() for entry in section.values()]
    assert [entry for entry in entries if len(entry.get("reason", "").split()) < 5] == []
