"""`defib agent` before it does anything: what it refuses, each in one line that says what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from defib.cli.main import execute
from tests.agent_certificates import AgentAuthority

ME = ("agent", "--node=n1", "--address=127.0.0.1:9640")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = execute(list(arguments), program="defib")
    return code, [line.removeprefix("defib: ") for line in capsys.readouterr().err.splitlines()]


def test_a_node_and_its_address_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "agent") == (2, ["Missing option '--node'. (see defib agent --help)"])
    code, (line,) = refused(capsys, "agent", "--node=n1", "--address=nowhere")
    assert (code, "'nowhere' is not HOST:PORT" in line) == (2, True)


def test_all_settings_that_do_not_fit_together_are_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = refused(
        capsys, "agent", "--node=n1", "--address=:9640", "--failures=1", "--interval=2s", "--peer-time=7s"
    )
    assert code == 2
    assert [line.partition(":")[0] for line in lines] == ["--address", "--request-timeout", "--failures", "--peer-time"]


def test_without_a_watchdog_it_does_not_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, (line,) = refused(capsys, *ME, f"--watchdog={tmp_path}/none")
    assert (code, "there is no" in line, "softdog" in line) == (1, True, True)


def test_without_certificates_it_does_not_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "watchdog").touch()
    code, (line,) = refused(capsys, *ME, f"--watchdog={tmp_path}/watchdog", f"--tls={tmp_path}")
    assert (code, "must hold ca.crt, tls.crt and tls.key" in line) == (1, True)


def test_without_a_cluster_it_does_not_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "watchdog").touch()
    tls = AgentAuthority().write(tmp_path / "tls")
    code, lines = refused(
        capsys, *ME, f"--watchdog={tmp_path}/watchdog", f"--tls={tls}", f"--kubeconfig={tmp_path}/none"
    )
    assert (code, len(lines)) == (1, 1)


def test_an_agent_is_small_because_it_does_without_the_operators_http() -> None:
    asked = "import sys, defib.cli.commands.agent, defib.cli.agent; print('aiohttp' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
