"""What we ship of others is locked by hash, looked at for known holes where that can be done, and listed."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.security.dependencies import AUDIT, LOCK, ROOT, audit, by_python, locked, main, read_audit, write_sbom

HOLE = {"id": "PYSEC-2026-1", "fix_versions": ["2.1"], "description": "…"}
FOUND = {
    "dependencies": [
        {"name": "good", "version": "1", "vulns": []},
        {"name": "bad", "version": "2", "vulns": [HOLE, HOLE | {"fix_versions": []}]},
        {"name": "private", "skip_reason": "not found"},
    ]
}


def test_every_way_to_install_asks_for_hashes() -> None:
    """The image, the developer's environment and that of the benchmarks: a package that was exchanged does not get in."""
    for file in ("Makefile", "deploy/Dockerfile"):
        installs = [line for line in (ROOT / file).read_text().splitlines() if re.search(r"pip install.*-r ", line)]
        assert installs, file
        assert [line for line in installs if "--require-hashes" not in line] == []


def test_the_lock_is_read_as_it_is_written() -> None:
    packages = locked(LOCK.read_text())
    assert len(packages) > 20
    assert all(re.fullmatch(r"[\w.!+-]+", version) for version in packages.values()), packages
    assert locked("a==1 \\\n    --hash=sha256:00\nb==2.0 ; python_version < '3.12' \\\n") == {"a": "1", "b": "2.0"}


def test_a_known_hole_fails_and_is_told_with_the_version_that_mends_it() -> None:
    verdict = read_audit(json.dumps(FOUND))
    assert verdict.exit_code == 1
    assert verdict.holes == (
        "bad 2: PYSEC-2026-1, mended in 2.1",
        "bad 2: PYSEC-2026-1, mended in no version yet",
    )
    assert (verdict.unseen, verdict.seen) == (("private",), 2)


@pytest.mark.parametrize("answer", ["", "Traceback (most recent call last):", "{}"])
def test_where_nobody_can_be_asked_it_is_loud_and_no_failure(answer: str) -> None:
    def nothing(arguments: Sequence[str]) -> str:
        assert AUDIT in arguments
        return answer

    verdict = audit(nothing)
    assert verdict.exit_code == 0
    assert set(verdict.unseen) == set(locked(LOCK.read_text()))
    assert "!!! NOT AUDITED" in verdict.told()


def test_an_unknown_wish_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["other"]) == 2
    assert "choose one" in capsys.readouterr().err


@pytest.mark.timeout(120)
def test_the_list_names_all_that_is_locked_and_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        assert write_sbom(by_python, path) == len(locked(LOCK.read_text()))
    assert first.read_bytes() == second.read_bytes()
    written = json.loads(first.read_text())
    assert (written["bomFormat"], written["specVersion"]) == ("CycloneDX", "1.6")
    assert {one["name"]: one["version"] for one in written["components"]} == locked(LOCK.read_text())
    assert [one["name"] for one in written["components"] if not one.get("purl")] == []
    assert written["metadata"]["component"]["name"] == "defib"
