"""The command line's manners: help, names, and one line for what is wrong."""

import re
import subprocess
import sys

import pytest

from defib import __version__
from defib.cli.main import cli, execute
from defib.config import SETTINGS


def said(capsys: pytest.CaptureFixture[str], *arguments: str, program: str = "defib") -> tuple[int, str, str]:
    code = execute(list(arguments), program=program)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: defib ")
    assert all(command in out for command in ("run", "demo", "version"))


@pytest.mark.parametrize("command", sorted(cli.commands))
def test_the_help_of_every_command_has_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = said(capsys, command, "--help")
    assert code == 0
    assert "Examples:" in out
    assert f"defib {command}" in out.split("Examples:")[1]


def test_the_help_of_run_has_every_setting_with_flag_and_variable(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = said(capsys, "run", "--help")
    words = " ".join(out.split())
    for setting in SETTINGS:
        assert f"{setting.flag} {setting.about.form.placeholder}" in words
        assert f"env: {setting.variable}" in words


def test_as_a_kubectl_plugin_it_calls_itself_what_the_user_typed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = said(capsys, "run", "--help", program="kubectl defib")
    assert out.startswith("Usage: kubectl defib run ")


def test_version_names_defib_and_python(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "version")
    assert code == 0
    assert out.splitlines()[0] == f"defib {__version__}"
    assert out.splitlines()[1].startswith("python 3.")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["fly"], "defib: No such command 'fly'. (see defib --help)"),
        (["run", "--no-such"], "defib: No such option '--no-such'. (see defib run --help)"),
        (
            ["demo", "--seconds", "-1"],
            "defib: Invalid value for '--seconds': -1.0 is not in the range x>0. (see defib demo --help)",
        ),
        (["run", "--log-level", "loud"], "defib: --log-level: 'loud' is not debug, info, warning or error"),
        (["run", "--context", ""], "defib: --context: '' is not the name of a context"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert said(capsys, *arguments) == (2, "", line + "\n")


def test_several_wrong_settings_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "run", "--resync", "x", "--log-level", "y")
    assert code == 2
    assert [line.split(":")[0] for line in err.splitlines()] == ["defib", "defib"]


def test_what_is_hostile_in_a_complaint_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = said(capsys, "run", "--config", "\x1b[2J\nsecond line")
    assert "\x1b" not in err
    assert err.count("\n") == 1


def test_the_operator_does_not_carry_what_only_terminals_need() -> None:
    loads = """
import sys
from defib.cli.lean import without
with without("rich"):
    import defib.cli.run
import defib.cli.why
print(sorted({"defib.cli.run", "rich"} & set(sys.modules)))
with without("rich"):
    import rich
"""
    told = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.strip() == "['defib.cli.run', 'rich']"  # which those commands find that do need it
    early = loads.replace("import defib.cli.why\n", "")
    told = subprocess.run([sys.executable, "-c", early], capture_output=True, text=True, timeout=60, check=False)
    assert told.stdout.strip() == "['defib.cli.run']"
    assert "ModuleNotFoundError" in told.stderr


def test_help_lists_every_command_once_and_cuts_no_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--help"], program="defib") == 0
    out = capsys.readouterr().out
    listed = [line.split()[0] for line in out.splitlines() if re.match(r"  [a-z][a-z-]+  +[A-Z]", line)]
    assert sorted(listed) == sorted(cli.commands)
    assert "..." not in out.partition("Options:")[2]


def test_the_version_is_told_to_whoever_asks_as_of_any_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--version"], program="defib") == 0
    assert capsys.readouterr().out == f"defib {__version__}\n"
