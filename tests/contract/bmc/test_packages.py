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


def test_an_installation_that_was_interrupted_is_finished_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As apt-get does it: while dpkg has something half done, it installs nothing."""
    for name, script in (
        (
            "apt-get",
            f'[ "$1" = update ] || [ -e {tmp_path}/done ] && touch {tmp_path}/frob && chmod +x {tmp_path}/frob',
        ),
        ("dpkg", f"touch {tmp_path}/done"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert ensure("frob") == tmp_path / "frob"
    assert (tmp_path / "done").exists()
