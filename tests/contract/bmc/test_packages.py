"""What is there is found, and what cannot be installed is a line that says what to do."""

from pathlib import Path

import pytest

from testbed.packages import NotInstalled, ensure


def test_a_program_that_is_there_is_found() -> None:
    assert ensure("coreutils", "true").name == "true"


def test_without_a_way_to_install_it_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match=r"^ipmitool is missing: .*apt-get install ipmitool`$"):
        ensure("ipmitool")
