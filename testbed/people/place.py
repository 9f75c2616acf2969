"""Where a running cluster is found by those who do not know its directory."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from testbed.build import cache_directory

SOCKET = "desk.sock"


class NoCluster(Exception):
    """None runs where we looked. `str()` is one line that says what to do."""


def link_path(environment: Mapping[str, str]) -> Path:
    """A link to the directory of the cluster that was started last."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "defib-cluster" if runtime else cache_directory(environment).parent / "cluster"


@contextmanager
def announced(directory: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """While the context lasts the link leads to us, unless another cluster is started meanwhile."""
    link = link_path(environment)
    link.parent.mkdir(parents=True, exist_ok=True)
    arriving = link.with_name(f"{link.name}.{os.getpid()}")
    arriving.unlink(missing_ok=True)
    arriving.symlink_to(directory)
    arriving.replace(link)
    try:
        yield
    finally:
        if link.is_symlink() and link.readlink() == directory:
            link.unlink()


def find(directory: Path | None, environment: Mapping[str, str]) -> Path:
    """The socket of a cluster that runs: in this directory, or where the link leads."""
    socket = (directory or link_path(environment)) / SOCKET
    if not socket.exists():
        where = directory or "here"
        raise NoCluster(f"no cluster with nodes runs {where}: start one with `python -m testbed up --nodes 5`")
    return socket
