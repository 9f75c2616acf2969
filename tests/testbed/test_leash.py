"""Nothing that we start outlives us, not even when we are killed."""

import signal
import subprocess
import sys
from pathlib import Path

from testbed.leash import Leash
from tests.testbed.processes import Watched, group_exists

REPOSITORY = Path(__file__).parents[2]

STARTER = """
import sys
from pathlib import Path
from testbed.leash import Leash
leash = Leash()
print(leash.start(["sleep", "1000"], directory=Path(sys.argv[1]), log=Path(sys.argv[1]) / "log").pid, flush=True)
sys.stdin.read()
"""


def test_what_is_on_the_leash_dies_with_its_killed_starter(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        started = Watched({int(starter.stdout.readline())})
        starter.send_signal(signal.SIGKILL)
        assert started.all_end_within(5)


def test_closing_the_leash_kills_what_is_left(tmp_path: Path) -> None:
    leash = Leash()
    process = leash.start(["sleep", "1000"], directory=tmp_path, log=tmp_path / "log")
    leash.close()
    assert process.wait(timeout=5) == -signal.SIGKILL
    assert not group_exists(leash.group)


def test_what_a_process_says_and_what_it_answers_can_be_told_apart(tmp_path: Path) -> None:
    leash = Leash()
    script = ["sh", "-c", "echo said >&2; echo answered"]
    leash.start(script, directory=tmp_path, log=tmp_path / "log", output=tmp_path / "answer").wait(timeout=5)
    leash.close()
    assert (tmp_path / "log").read_text() == "said\n"
    assert (tmp_path / "answer").read_text() == "answered\n"
