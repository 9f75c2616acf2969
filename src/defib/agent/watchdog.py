"""The watchdog that takes the node down when it is not fed: a device of the kernel, or a process that counts.

One narrow interface: made, it counts; fed, it counts anew; disarmed, it does not fire. If it is not fed, it fires
`seconds` after it was last fed, whatever becomes of us.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from defib.agent.countdown import DISARM, FEED, SYSRQ
from defib.agent.trouble import CannotRun
from defib.model.self_fence import Kind

# linux/watchdog.h
GET_SUPPORT = 0x80285700
SET_TIMEOUT = 0xC0045706
GET_TIMEOUT = 0x80045707
CAN_SET_TIMEOUT = 0x0080
CAN_CLOSE_BY_MAGIC = 0x0100
SUPPORT = struct.Struct("=II32s")
SECONDS = struct.Struct("=i")
SYSFS = Path("/sys/class/watchdog")
GREETING_SECONDS = 5.0
GREETING_BYTES = 64

Ioctl = Callable[[int, int, bytes], bytes]


class NoWatchdog(CannotRun):
    """It cannot be used."""


class Watchdog(Protocol):
    @property
    def kind(self) -> Kind: ...

    @property
    def seconds(self) -> float:
        """After so long without being fed it fires, as it says itself."""
        ...

    def feed(self) -> None:
        """Never waits. Raises OSError when the watchdog is gone."""
        ...

    def disarm(self) -> bool:
        """False when it goes on counting all the same."""
        ...

    def leave(self) -> None:
        """Let go of it. It goes on counting, and fires."""
        ...


class Device:
    """A watchdog of the kernel. It has begun to count when it was opened."""

    kind: Kind = "device"

    def __init__(self, descriptor: int, wished_seconds: float, *, nowayout: bool, ioctl: Ioctl = fcntl.ioctl) -> None:
        """The device may take another timeout than the one that is wished: what it says afterwards counts."""
        self._descriptor = descriptor
        options, _, _ = SUPPORT.unpack(ioctl(descriptor, GET_SUPPORT, bytes(SUPPORT.size)))
        self._can_close = bool(options & CAN_CLOSE_BY_MAGIC) and not nowayout
        if options & CAN_SET_TIMEOUT:
            with suppress(OSError):  # out of what it can do: it keeps its own
                ioctl(descriptor, SET_TIMEOUT, SECONDS.pack(max(1, round(wished_seconds))))
        (seconds,) = SECONDS.unpack(ioctl(descriptor, GET_TIMEOUT, bytes(SECONDS.size)))
        self.seconds = float(seconds)

    def feed(self) -> None:
        os.write(self._descriptor, FEED)

    def disarm(self) -> bool:
        """The letter before the close; without it the kernel counts on, and so it does where the driver has no way out."""
        if self._can_close:
            os.write(self._descriptor, DISARM)
        self.leave()
        return self._can_close

    def leave(self) -> None:
        os.close(self._descriptor)


class Process:
    """A countdown beside us, or somebody else's behind a socket."""

    kind: Kind = "software"

    def __init__(self, talk: socket.socket) -> None:
        """Raises OSError, ValueError when it does not say after how long it fires."""
        self._talk = talk
        talk.settimeout(GREETING_SECONDS)
        self.seconds = float(talk.recv(GREETING_BYTES))
        talk.setblocking(False)

    def feed(self) -> None:
        with suppress(BlockingIOError):  # it has more food than it can eat: it hangs, and feeding is not our trouble
            self._talk.send(FEED)

    def disarm(self) -> bool:
        try:
            self._talk.send(DISARM)
        except OSError:
            return False
        finally:
            self.leave()
        return True

    def leave(self) -> None:
        self._talk.close()


def open_watchdog(name: str, wished_seconds: float) -> Watchdog:
    """A device's path, `software`, or `unix:PATH`. It counts from here on. Raises NoWatchdog."""
    if name == "software":
        return start_countdown(wished_seconds, SYSRQ)
    if name.startswith("unix:"):
        return _connect(Path(name.removeprefix("unix:")))
    return _open_device(Path(name), wished_seconds)


def expect_watchdog(name: str) -> None:
    """What can be said before it is armed. Raises NoWatchdog."""
    path = SYSRQ if name == "software" else Path(name.removeprefix("unix:"))
    if not path.exists():
        raise NoWatchdog(
            f"there is no {path}: name a watchdog device, load a driver such as softdog, "
            "or run the agent privileged and choose --watchdog software"
        )
    if not os.access(path, os.W_OK):
        raise NoWatchdog(f"{path} must not be written by us: run the agent as root, privileged")


def _open_device(path: Path, wished_seconds: float) -> Device:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NoWatchdog(f"{path} cannot be opened: {error.strerror}; is another program feeding it?") from error
    try:
        return Device(descriptor, wished_seconds, nowayout=_has_no_way_out(path))
    except OSError as error:
        os.close(descriptor)
        raise NoWatchdog(f"{path} is not a watchdog ({error.strerror}); name another with --watchdog") from error


def _has_no_way_out(path: Path) -> bool:
    """Where the kernel does not say, the letter is tried."""
    known = SYSFS / ("watchdog0" if path.name == "watchdog" else path.name) / "nowayout"
    return known.exists() and known.read_text().strip() == "1"


def _connect(path: Path) -> Process:
    talk = socket.socket(socket.AF_UNIX)
    try:
        talk.connect(str(path))
        return Process(talk)
    except (OSError, ValueError) as error:
        talk.close()
        raise NoWatchdog(f"no watchdog answers at {path} ({error}); start it, or name another") from error


def start_countdown(seconds: float, trigger: Path) -> Process:
    """In a session of its own, so that what ends us does not end it. It reboots by writing to the trigger."""
    ours, its = socket.socketpair()
    command = [sys.executable, "-m", "defib.agent.countdown", str(its.fileno()), str(seconds), str(trigger)]
    try:
        started = subprocess.Popen(command, pass_fds=[its.fileno()], start_new_session=True)  # noqa: S603  our own program
        started.returncode = 0  # it is to outlive us, and nobody asks how it ended
        its.close()
        return Process(ours)
    except (OSError, ValueError) as error:
        ours.close()
        raise NoWatchdog(f"the software watchdog does not start: {error}") from error
