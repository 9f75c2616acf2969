"""`defib elect` before it takes part in anything: what it refuses, each in one line that says what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from defib.cli.main import execute


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = execute([*arguments], program="defib")
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, [line.removeprefix("defib: ") for line in captured.err.splitlines()]


def refused_as_a_process(*arguments: str) -> tuple[int, list[str]]:
    """Whatever gets so far that it sets up its logs, which it does for a whole process."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DEFIB_")}
    ran = subprocess.run(
        [sys.executable, "-m", "defib", *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    return ran.returncode, [line.removeprefix("defib: ") for line in ran.stderr.splitlines()]


def test_the_lock_must_be_named_since_the_default_is_the_operators_own(capsys: pytest.CaptureFixture[str]) -> None:
    line = "--leader-lock: name the lock, the same for all that are to take turns; defib-leader is the operator's own"
    assert refused(capsys, "elect", "--", "true") == (2, [line])
    assert refused(capsys, "elect", "--leader-lock", "defib-leader", "--", "true") == (2, [line])


@pytest.mark.parametrize("election", ["off", "shards"])
def test_an_election_without_one_leader_is_refused(capsys: pytest.CaptureFixture[str], election: str) -> None:
    line = f"--election: '{election}' does not choose one leader; choose lease, endpoints, follow or tooz"
    assert refused(capsys, "elect", "--leader-lock=x", f"--election={election}", "--", "true") == (2, [line])


TOO_SHORT = (
    "--lease-duration: 10s must be more than --renew-deadline, 10s: else another one leads before this one has stopped; "
    "raise it, or lower --renew-deadline"
)
TOO_SELDOM = (
    "--renew-deadline: 2.4s must be more than 1.2 times --retry-period, 2s: else one missed renewal would end everything; "
    "raise it, or lower --retry-period"
)


@pytest.mark.parametrize(("flag", "line"), [("--lease-duration=10s", TOO_SHORT), ("--renew-deadline=2.4s", TOO_SELDOM)])
def test_le_03_terms_on_which_nobody_could_lead_are_refused(
    capsys: pytest.CaptureFixture[str], flag: str, line: str
) -> None:
    assert refused(capsys, "elect", "--leader-lock=x", flag, "--", "true") == (2, [line])


@pytest.mark.parametrize("election", ["lease", "shards"])
def test_le_03_the_operator_refuses_them_before_anything_is_asked_of_the_cluster(election: str) -> None:
    arguments = ("run", "--kubeconfig=nowhere", "--lease-duration=10s", f"--election={election}")
    assert refused_as_a_process(*arguments) == (2, [TOO_SHORT])


@pytest.mark.parametrize(
    "flag", ["--lease-duration=0s", "--renew-deadline=0s", "--retry-period=0s", "--retry-period=-1s"]
)
def test_le_03_no_time_is_zero_or_less(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    code, (line,) = refused(capsys, "elect", "--leader-lock=x", flag, "--", "true")
    assert code == 2
    assert line.startswith(f"{flag.partition('=')[0]}: ")


@pytest.mark.parametrize("name", ["", " ", "two words"])
def test_le_03_a_replica_has_a_name(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, (line,) = refused(capsys, "elect", "--leader-lock=x", f"--replica-name={name}", "--", "true")
    assert (code, line) == (2, f"--replica-name: {name!r} is not a name without spaces")


def test_an_operator_that_is_alone_has_no_terms() -> None:
    found = refused_as_a_process("run", "--election=off", "--lease-duration=1s", "--kubeconfig=nowhere")
    assert found == (1, ["kubeconfig nowhere does not exist; name another with --kubeconfig"])


@pytest.mark.parametrize("grace", ["5s", "6s"])
def test_le_08_the_command_must_be_gone_before_another_one_leads(
    capsys: pytest.CaptureFixture[str], grace: str
) -> None:
    line = (
        f"--lost-grace: {grace} must be less than the 5s by which --lease-duration is longer than --renew-deadline: "
        "else the command would still run when another one leads"
    )
    assert refused(capsys, "elect", "--leader-lock=x", f"--lost-grace={grace}", "--", "true") == (2, [line])


def test_a_command_that_does_not_exist_is_told_before_anything_is_begun(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = "'no-such-program' cannot be run: there is no such program"
    assert refused(capsys, "elect", "--leader-lock=x", "--", "no-such-program", "--flag") == (127, [line])
    text = tmp_path / "text"
    text.touch()
    line = f"'{text}' cannot be run: it is not an executable file"
    assert refused(capsys, "elect", "--leader-lock=x", str(text)) == (126, [line])


def test_without_a_command_there_is_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    line = "Missing argument '-- COMMAND [ARG]...'. (see defib elect --help)"
    assert refused(capsys, "elect", "--leader-lock=x") == (2, [line])


def test_a_cluster_that_cannot_be_named_is_told_in_one_line() -> None:
    found = refused_as_a_process("elect", "--leader-lock=x", "--kubeconfig=nowhere", "--", "true")
    assert found == (1, ["kubeconfig nowhere does not exist; name another with --kubeconfig"])
