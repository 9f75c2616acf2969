"""Debian packages that tests need besides Python: installed when missing, where that is possible.

`python -m testbed.packages` installs all of them. A test that has to wait for that may run out of time, which would leave an
installation half done.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120")
_UPDATE = ("apt-get", "update")
_FINISH = ("dpkg", "--configure", "-a")  # what an installation left that was interrupted
_WITHIN = 300.0

PACKAGES = (  # each with a program by which it is known
    ("ipmitool", "ipmitool"),
    ("fence-agents", "fence_ipmilan"),
    ("prometheus", "promtool"),
    ("redis-tools", "redis-check-rdb"),
    ("zookeeper", "/usr/share/zookeeper/bin/zkServer.sh"),
    ("chromium", "chromium"),
)


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
    failed = _run(*_INSTALL, package) and (_run(*_FINISH) or _run(*_UPDATE) or _run(*_INSTALL, package))
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


def main() -> int:
    missing = 0
    for package, program in PACKAGES:
        try:
            ensure(package, program)
        except NotInstalled as why:
            print(why, file=sys.stderr)
            missing += 1
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
