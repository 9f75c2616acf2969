"""`python -m testbed up --nodes` and its orders, as a person uses them from two terminals."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.programs import Programs
from tests.testbed.processes import group_exists, processes_in

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

REPOSITORY = Path(__file__).parents[2]
LAST_LINE = "Ctrl-C stops it"


class Terminal:
    """A person's shell: their runtime directory tells one cluster from another."""

    def __init__(self, runtime: Path) -> None:
        runtime.mkdir()
        self.runtime = runtime
        self.environment = os.environ | {"XDG_RUNTIME_DIR": str(runtime)}

    def order(self, *words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "testbed", *words]
        done = subprocess.run(
            command, cwd=REPOSITORY, env=self.environment, capture_output=True, text=True, timeout=30, check=False
        )
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    @contextmanager
    def up(self, *words: str) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
        command = [sys.executable, "-m", "testbed", "up", *words]
        with subprocess.Popen(
            command, cwd=REPOSITORY, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            said: list[str] = []
            try:
                while line := process.stdout.readline():
                    said.append(line.rstrip())
                    if LAST_LINE in line:
                        break
                yield process, said
            finally:
                process.kill()


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "run")


def row_of(node: str, status: str) -> list[str]:
    return next(line.split() for line in status.splitlines() if line.startswith(node))


def test_nodes_can_be_killed_and_revived_from_another_terminal(
    programs: Programs, terminal: Terminal, tmp_path: Path
) -> None:
    directory = tmp_path / "cluster"
    with terminal.up("--nodes", "4", "--timers", "compressed", "--dir", str(directory)) as (process, said):
        assert "4 hollow nodes are ready." in said[0], programs
        assert terminal.order("kill", "node-0002")[:2] == (0, "node-0002 has lost its power")
        assert terminal.order("hang", "node-0003")[:2] == (
            0,
            "node-0003 hangs: its kubelet is silent, its containers run",
        )
        code, status, _ = terminal.order("status")
        assert code == 0
        assert row_of("node-0002", status)[1:3] == ["off", "-"]
        assert row_of("node-0003", status)[1:3] == ["on", "hung"]
        assert "disks: 0 intact, 0 corrupted" in status
        assert terminal.order("revive", "node-0002")[0] == 0
        assert terminal.order("heal", "node-0003")[0] == 0
        assert row_of("node-0002", terminal.order("status")[1])[1:3] == ["on", "-"]
        assert terminal.order("kill", "node-9") == (1, "", "there is no node node-9; there are node-0001 to node-0004")
        bmcs = (directory / "bmcs.txt").read_text().splitlines()
        assert [line.split()[0] for line in bmcs] == [f"node-000{number}" for number in range(1, 5)]
        components = processes_in(directory)
        assert len(components) == 4
        group = os.getpgid(components.pop())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert not group_exists(group)
    assert not directory.exists()
    assert list(terminal.runtime.iterdir()) == []


def test_without_a_cluster_one_line_says_how_to_start_one(terminal: Terminal, tmp_path: Path) -> None:
    code, said, why = terminal.order("kill", "node-0001")
    assert (code, said) == (1, "")
    assert why == "no cluster with nodes runs here: start one with `python -m testbed up --nodes 5`"
    assert str(tmp_path) in terminal.order("status", "--dir", str(tmp_path))[2]


def test_nodes_need_controllers(terminal: Terminal) -> None:
    code, _, why = terminal.order("up", "--api-only", "--nodes", "3")
    assert code == 1
    assert why.endswith("so it takes no --nodes")


def test_a_story_is_told_to_a_person(terminal: Terminal) -> None:
    code, said, _ = terminal.order("story", "tests/scenarios/drained-node.story")
    assert code == 0
    assert said.endswith("ends as it says")


def test_a_story_that_fails_is_a_failed_command_and_one_that_makes_no_sense_one_line(
    terminal: Terminal, tmp_path: Path
) -> None:
    path = tmp_path / "a.story"
    path.write_text("timers compressed\nnodes n1\nhang n1\nexpect n1 NotReady within 5s\n")
    code, said, _ = terminal.order("story", str(path))
    assert code == 1
    assert f"FAILED {path}:4: expect n1 NotReady within 5s: not seen within 5 s" in said
    path.write_text("nodes n1\nhung n1\n")
    assert terminal.order("story", str(path))[0::2] == (
        1,
        f"{path}:2: no sentence of a story begins with `hung`; did you mean `hang`?",
    )
