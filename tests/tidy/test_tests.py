"""Rules about the tests themselves: each can fail, and none waits without saying why."""

from pathlib import Path

import pytest

from tests.tidy.repository import files, name
from tests.tidy.rules import claims_nothing, unexplained_sleeps

MODULES = files(".py", under="tests")


@pytest.mark.parametrize("path", [path for path in MODULES if path.name.startswith("test_")], ids=name)
def test_every_test_claims_something(path: Path) -> None:
    assert claims_nothing(path.read_text()) == []


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_test_sleeps_without_a_reason(path: Path) -> None:
    assert unexplained_sleeps(path.read_text()) == []
