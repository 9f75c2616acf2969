"""A blocked event loop fails the test; and the fence agents, or one loud line that they are missing."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from testbed.packages import NotInstalled, ensure

_MISSING: list[str] = []


@pytest.fixture(autouse=True)
def _the_loop_is_never_blocked() -> Iterator[None]:
    with blockbuster_ctx("defib"):
        yield


@pytest.fixture(scope="session")
def fence_agents() -> Path:
    """The directory that holds Debian's agents, which need ipmitool for IPMI."""
    try:
        ensure("ipmitool")
        return ensure("fence-agents", "fence_ipmilan").parent
    except NotInstalled as error:
        _MISSING.append(str(error))
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _MISSING:
        terminalreporter.write_sep("!", "the tests with Debian's fence agents did not run", red=True, bold=True)
        terminalreporter.write_line(_MISSING[0], red=True)
