"""A watchdog that is a process: it fires unless it is fed in time, and goes on counting when whoever feeds it dies or hangs.

    agent ──connects──▶ countdown       "15" and a line break say after how many seconds it fires; from here on it counts
    agent ──"k"───────▶                 fed: it counts from the beginning
    agent ──"V"───────▶                 it is disarmed, and ends, as a kernel's watchdog that is closed by its magic letter

Run as `python -m defib.agent.countdown`, it is the software watchdog, and reboots the machine by the kernel's sysrq. It
is weaker than a device: a kernel that hangs does not reboot itself, and whoever kills this process has disarmed it.
"""

import select
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from defib.clock import Clock, SystemClock

SYSRQ = Path("/proc/sysrq-trigger")
REBOOT_NOW = "b"
FEED, DISARM = b"k", b"V"
READ_BYTES = 4096


class Countdown:
    """`fire` is called once, unless the last word was to disarm."""

    def __init__(self, seconds: float, fire: Callable[[], None], clock: Clock) -> None:
        self._seconds = seconds
        self._fire = fire
        self._clock = clock

    def run(self, talk: socket.socket | None, door: socket.socket | None = None) -> bool:
        """Count until it fires (True) or is disarmed. Whoever comes through the door later takes over the talk."""
        ends = self._clock.monotonic() + self._seconds
        if talk:
            self._greet(talk)
        while (left := ends - self._clock.monotonic()) > 0:
            ready, _, _ = select.select([one for one in (talk, door) if one], [], [], left)
            if door in ready and door is not None:
                talk = self._let_in(door, talk)
                ends = self._clock.monotonic() + self._seconds
            elif talk in ready and talk is not None:
                match _hear(talk):
                    case b"":
                        talk.close()
                        talk = None  # nobody feeds any more: it counts on
                    case said if DISARM in said:
                        return False
                    case _:
                        ends = self._clock.monotonic() + self._seconds
        self._fire()
        return True

    def _let_in(self, door: socket.socket, before: socket.socket | None) -> socket.socket:
        if before:
            before.close()
        talk, _ = door.accept()
        self._greet(talk)
        return talk

    def _greet(self, talk: socket.socket) -> None:
        with suppress(OSError):
            talk.sendall(f"{self._seconds:g}\n".encode())


def _hear(talk: socket.socket) -> bytes:
    try:
        return talk.recv(READ_BYTES)
    except OSError:
        return b""


def main(descriptor: int, seconds: float, trigger: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the agent's own word disarms it
    reboot = Countdown(seconds, lambda: _write(trigger), SystemClock())
    reboot.run(socket.socket(fileno=descriptor))


def _write(trigger: Path) -> None:
    trigger.write_text(REBOOT_NOW)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3]))
