"""What many tests share: the real control plane's programs, found or built, or one loud line that they are missing."""

import os
from pathlib import Path

import pytest

from testbed.programs import NoControlPlane, Program, Programs, control_plane_programs

_MISSING: list[str] = []


@pytest.fixture(scope="session")
def programs() -> Programs:
    """`make test` builds them before; a test that has to build them itself may run into its own time limit."""
    try:
        return control_plane_programs()
    except NoControlPlane as error:
        _MISSING.append(str(error))
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def kubectl(programs: Programs) -> Path:
    return programs[Program.KUBECTL]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _MISSING:
        terminalreporter.write_sep("!", "the tests on a real control plane did not run", red=True, bold=True)
        terminalreporter.write_line(_MISSING[0], red=True)
