"""Debian packages that tests need besides Python: installed when missing, where that is possible."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120")
_UPDATE = ("apt-get", "update")
_WITHIN = 300.0


class NotInstalled(Exception):
    """A package is missing and could not be installed. Says what to do."""


def ensure(package: str, program: str = "") -> Path:
    """Where `program` of `package` is, which by default has the package's name. Installs the package when it is missing."""
    program = program or package
    if found := shutil.which(program):
        return Path(found)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotInstalled(f"{program} is missing: install it, on Debian with `sudo apt-get install {package}`")
    print(f"testbed: installing the Debian package {package}", file=sys.stderr, flush=True)
    # The lists of packages may be missing or old: then, and only then, they are fetched.
    failed = _run(*_INSTALL, package) and (_run(*_UPDATE) or _run(*_INSTALL, package))
    found = shutil.which(program)
    if failed or not found:
        raise NotInstalled(
            f"{program} is missing and `apt-get install {package}` failed: {failed or 'it has no such program'}"
        )
    return Path(found)


def _run(*command: str) -> str:
    """Why it failed; empty when it did not."""
    try:
        ran = subprocess.run(
            command,
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command[1]} took longer than {_WITHIN:g} s"
    lines = (ran.stderr or ran.stdout).strip().splitlines()
    return "" if ran.returncode == 0 else lines[-1] if lines else f"{command[1]} ended with {ran.returncode}"
