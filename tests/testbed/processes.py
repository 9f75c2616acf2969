"""What tests ask the kernel about processes: who is there, and wait (with a deadline) until one is gone."""

import os
import select
from pathlib import Path


def processes_in(directory: Path) -> set[int]:
    """Those whose working directory it is, as it is for every component of a cluster."""
    return {int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _works_in(entry) == directory}


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


class Watched:
    """Processes held by file descriptors, so that a number used again cannot deceive us."""

    def __init__(self, processes: set[int]) -> None:
        assert processes
        self._descriptors = [os.pidfd_open(process) for process in processes]

    def all_end_within(self, seconds: float) -> bool:
        ended = [self._ends(descriptor, seconds) for descriptor in self._descriptors]
        for descriptor in self._descriptors:
            os.close(descriptor)
        return all(ended)

    def _ends(self, descriptor: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def _works_in(process: Path) -> Path | None:
    try:
        return (process / "cwd").readlink()
    except OSError:  # gone meanwhile, or another user's
        return None
