"""The image cannot be built in every place, so what it is built from is looked at, and built, here.

Its own lines are few: packages that were locked, our wheel, and nothing that runs as root.
"""

import re
import shutil
import subprocess
import sys
import zipfile
from configparser import ConfigParser
from fnmatch import fnmatch
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT, pyproject

LINES = [
    line
    for line in (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line and not line.startswith("#")
]


def told(word: str) -> list[str]:
    """What stands behind a word, each time."""
    return [line.removeprefix(f"{word} ") for line in LINES if line.startswith(f"{word} ")]


def copied() -> list[str]:
    """From the checkout into the image."""
    return [path for line in told("COPY") if not line.startswith("--from") for path in line.split()[:-1]]


def locked(lock: str) -> set[str]:
    return {line.split("==")[0] for line in (ROOT / lock).read_text().splitlines() if "==" in line}


def names(wanted: list[str]) -> set[str]:
    return {re.split(r"[^\w.-]", one)[0].lower() for one in wanted if "extra ==" not in one and "< '3.11'" not in one}


def test_all_that_is_copied_is_there_and_sent_along() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")]
    assert sorted(copied()) == sorted(sent)
    assert [path for path in copied() if not (ROOT / path).exists()] == []


def test_every_package_is_locked_with_its_hash_or_is_our_own() -> None:
    installs = [line for line in told("RUN") if "pip install" in line]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes -r /requirements" in line or "--no-index --no-deps /dist/*.whl" in line


def test_the_drivers_that_need_a_package_have_it() -> None:
    extras = pyproject()["project"]["optional-dependencies"]
    assert names([one for extra in extras.values() for one in extra]) <= locked("requirements.lock")


def test_what_builds_the_wheel_is_locked_with_all_that_it_needs() -> None:
    asked = names(pyproject()["build-system"]["requires"])
    needed = names([one for package in asked for one in requires(package) or ()])
    assert asked | needed == locked("requirements-build.lock")


def test_fence_agents_are_only_there_when_somebody_asks() -> None:
    assert told("ARG") == ['FENCE_AGENTS=""']
    assert [
        line for line in told("RUN") if "apt-get" in line and not line.startswith('test -z "$FENCE_AGENTS" ||')
    ] == []


def test_the_image_does_not_run_as_root_and_keeps_its_asserts() -> None:
    assert told("USER") == ["65532:65532"]
    assert LINES.index("USER 65532:65532") > max(
        LINES.index(line) for line in LINES if line.startswith(("RUN", "COPY"))
    )
    assert not any("OPTIMIZE" in line for line in LINES)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as in the image: from what is copied there and from nothing else."""
    source = tmp_path_factory.mktemp("image") / "source"
    for path in (path for path in copied() if not fnmatch(path, "*.lock")):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, source / path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / path, source / path)
    command = next(line for line in told("RUN") if "hatchling" in line).split()
    assert command == ["/build/bin/hatchling", "build", "--target", "wheel", "--directory", "/dist"]
    built = source.parent / "dist"
    arguments = [sys.executable, "-m", *command[:-1], str(built)]
    arguments[2] = "hatchling"
    subprocess.run(arguments, cwd=source, check=True, capture_output=True)
    return next(built.glob("*.whl"))


def test_the_wheel_names_every_power_driver_and_holds_the_kinds(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        inside = opened.namelist()
        metadata = next(name for name in inside if name.endswith(".dist-info/entry_points.txt"))
        points = ConfigParser()
        points.read_string(opened.read(metadata).decode())
    assert dict(points["defib.power"]) == pyproject()["project"]["entry-points"]["defib.power"]
    for file in (ROOT / "deploy/crds").glob("*.yaml"):
        assert f"defib/crds/{file.name}" in inside
    assert "defib/__main__.py" in inside
