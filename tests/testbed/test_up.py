"""`python -m testbed up` for a person: it says how to use it, and Ctrl-C, SIGTERM or even SIGKILL ends all of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.programs import Programs
from tests.testbed.processes import Watched, group_exists, processes_in

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]

REPOSITORY = Path(__file__).parents[2]
LAST_LINE = "Ctrl-C stops it"


@contextmanager
def up(directory: Path) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """The running command, and what it said until it was up."""
    command = [sys.executable, "-m", "testbed", "up", "--api-only", "--dir", str(directory)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
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


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_clean_when_told_to(programs: Programs, tmp_path: Path, ending: signal.Signals) -> None:
    directory = tmp_path / "cluster"
    with up(directory) as (process, said):
        assert f"  export KUBECONFIG={directory / 'admin.kubeconfig'}" in said, programs
        components = processes_in(directory)
        assert len(components) == 2, "etcd and the API server"
        group = os.getpgid(components.pop())
        process.send_signal(ending)
        assert process.wait(timeout=30) == 0
    assert not group_exists(group)
    assert not directory.exists()


@pytest.mark.usefixtures("programs")
def test_nothing_runs_on_when_it_is_killed(tmp_path: Path) -> None:
    with up(tmp_path / "cluster") as (process, _):
        components = Watched(processes_in(tmp_path / "cluster"))
        process.send_signal(signal.SIGKILL)
        assert components.all_end_within(10)


@pytest.mark.usefixtures("programs")
def test_a_directory_in_use_is_one_line_and_no_success(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    command = [sys.executable, "-m", "testbed", "up", "--api-only", "--dir", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "is not empty" in done.stderr
