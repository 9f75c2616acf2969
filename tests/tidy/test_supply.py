"""What is installed is what was locked, and the two ways in do what they promise."""

import re
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT, files, name, pyproject
from tests.tidy.rules import unhashed

LOCKS = files(".lock")


@pytest.mark.parametrize("path", LOCKS, ids=name)
def test_every_locked_package_has_a_hash_and_no_address(path: Path) -> None:
    assert unhashed(path.read_text()) == []


@pytest.mark.parametrize(
    ("lock", "groups"),
    [("requirements.lock", []), ("requirements-dev.lock", ["dev"]), ("requirements-bench.lock", ["bench"])],
)
def test_every_dependency_is_locked(lock: str, groups: list[str]) -> None:
    project = pyproject()
    wanted = [
        *project["project"]["dependencies"],
        *(one for group in groups for one in project["dependency-groups"][group]),
    ]
    locked = {line.split("==")[0].lower() for line in (ROOT / lock).read_text().splitlines() if "==" in line}
    assert {re.split(r"[^\w.-]", one)[0].lower() for one in wanted} - locked == set()


def test_every_lock_is_looked_at() -> None:
    assert {ROOT / "requirements.lock", ROOT / "testbed/controlplane/go-toolchain.lock"} < set(LOCKS)


def test_ci_runs_what_a_person_runs() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111, ".ci/run must be executable"
    assert re.search(r"^(?:exec )?make test$", script.read_text(), re.MULTILINE)
