"""The processes that came from one: which they are, that they come to us when their parent dies, and how they end.

Linux only, by /proc and two of its process controls.
"""

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

PROCESSES = Path("/proc")
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
DEAD = frozenset("ZX")  # they have ended, and only wait to be asked how

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """From here on, whoever of our descendants loses its parent becomes our child, as if we were process 1."""
    _control(ADOPT_ORPHANS, 1)


def die_with_parent() -> None:
    """To be called in a new process: it is killed when the one dies that made it."""
    _control(DIE_WITH_PARENT, signal.SIGKILL)


def _control(what: int, value: int) -> None:
    if _libc.prctl(what, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def descendants(ancestor: int) -> list[int]:
    """All that live, in no order."""
    children: dict[int, list[int]] = {}
    alive: set[int] = set()
    for pid in _processes():
        if (known := _state_and_parent(pid)) is not None:
            children.setdefault(known[1], []).append(pid)
            if known[0] not in DEAD:
                alive.add(pid)
    found: list[int] = []
    ahead = [ancestor]
    while ahead:
        born = children.pop(ahead.pop(), [])
        found += born
        ahead += born
    return [pid for pid in found if pid in alive]


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir(PROCESSES) if entry.isdigit()]  # noqa: PTH208  names are enough


def _state_and_parent(pid: int) -> tuple[str, int] | None:
    """None when it has gone meanwhile. A name may hold anything, so what counts is what follows its last bracket."""
    try:
        text = (PROCESSES / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    state, parent = text.rpartition(b")")[2].split()[:2]
    return state.decode(), int(parent)


def send_all(number: int, group: int, ancestor: int) -> None:
    """To the group at once, and to every descendant that has left it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in descendants(ancestor):
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) != group:
                os.kill(pid, number)


def kill_all(ancestor: int) -> int:
    """How many there were. Some may have had children meanwhile: to be called until there are none."""
    found = descendants(ancestor)
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def bury(before: int) -> int:
    """Ask one of the dead how it ended, if it is still the one that was seen `before`. Which one was seen now."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return 0
        if found.si_pid != before:
            return found.si_pid
        os.waitpid(before, os.WNOHANG)
    except ChildProcessError:
        return 0
    return 0
