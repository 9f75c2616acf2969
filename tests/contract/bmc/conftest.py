"""The programs that these tests speak to BMCs with, or one loud line that they are missing."""

import os
from pathlib import Path

import pytest

from testbed.packages import NotInstalled, ensure

_MISSING: list[str] = []


@pytest.fixture(scope="session")
def ipmitool() -> Path:
    try:
        return ensure("ipmitool")
    except NotInstalled as error:
        _MISSING.append(str(error))
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _MISSING:
        terminalreporter.write_sep("!", "the tests with ipmitool did not run", red=True, bold=True)
        terminalreporter.write_line(_MISSING[0], red=True)
