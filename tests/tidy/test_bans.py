"""Calls that are banned everywhere but in clock.py: each is fed to the linter and seen to be refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT, pyproject

OFFENCES = {
    "datetime.datetime.now": "from datetime import UTC, datetime\nprint(datetime.now(UTC))",
    "datetime.datetime.utcnow": "import datetime\nprint(datetime.datetime.utcnow())",
    "time.time": "import time\nprint(time.time())",
    "time.monotonic": "from time import monotonic\nprint(monotonic())",
    "random.random": "import random\nprint(random.random())",
    "asyncio.create_task": "import asyncio\nasyncio.create_task(run())",
    "asyncio.ensure_future": "import asyncio\nasyncio.ensure_future(run())",
    "asyncio.gather": "import asyncio\nasyncio.gather(run())",
}


def refusals(source: str, path: str) -> str:
    """What the linter says of this text, were it the file at this path."""
    ran = subprocess.run(
        [Path(sys.executable).parent / "ruff", "check", "--select=TID251", "--stdin-filename", path, "-"],
        input=source,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    assert ran.stderr == ""
    return ran.stdout if ran.returncode else ""


def test_every_ban_is_tried_here() -> None:
    assert OFFENCES.keys() == pyproject()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"].keys()


@pytest.mark.parametrize("name", OFFENCES)
@pytest.mark.parametrize("path", ["src/defib/observe/sight.py", "tests/unit/test_sight.py", "testbed/sight.py"])
def test_a_banned_call_is_refused(name: str, path: str) -> None:
    assert f"`{name}` is banned" in refusals(OFFENCES[name], path)


@pytest.mark.parametrize("name", ["time.time", "time.monotonic", "datetime.datetime.now", "random.random"])
def test_the_clock_may_read_the_time(name: str) -> None:
    assert refusals(OFFENCES[name], "src/defib/clock.py") == ""
