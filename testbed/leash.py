"""A process group that cannot outlive us: what is started on the leash dies when we end, however we end.

A shell leads the group and holds the reading end of a pipe. When we close the pipe, or die and the kernel closes it,
the shell kills the group. So the last resort and the usual end are the same code, and SIGKILL on us is covered too.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_GUARD = ("/bin/sh", "-c", "read end; kill -KILL 0")
_GUARD_ENDS_WITHIN = 5.0


class Leash:
    """Its processes sit in a group of their own, so a Ctrl-C meant for us does not reach them before we end them in order."""

    def __init__(self) -> None:
        self._guard = subprocess.Popen(
            _GUARD, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
        )

    @property
    def group(self) -> int:
        return self._guard.pid

    def start(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        log: Path,
        output: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Starts `command` in `directory`. What it says is added to `log`; its answer goes to `output` where that is named."""
        with log.open("ab") as said, (output or log).open("ab") as answered:
            return subprocess.Popen(
                command,
                cwd=directory,
                env=os.environ if environment is None else environment,
                stdin=subprocess.DEVNULL,
                stdout=answered,
                stderr=said,
                process_group=self.group,
            )

    def close(self) -> None:
        """Kills whatever is still on the leash."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(timeout=_GUARD_ENDS_WITHIN)
