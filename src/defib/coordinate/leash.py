"""The process between `defib elect` and the command: it ends the command in time, whatever becomes of `defib elect`.

    defib elect ──"until 4711.5", "signal 1", "stop"──▶ leash ──▶ the command, in a session of its own
                ◀────────── how it ended ──────────────

It is told until when the command may run, and does not have to be told when it may not: when that time comes, or when
`defib elect` is gone, it sends SIGTERM to the command and all that came from it, and soon after SIGKILL. Nothing that
it does waits for anybody, it needs no network, and it has only one thread. When it is killed itself, the kernel kills the
command with it, and `defib elect` what that had started. What cannot be prevented: whoever stops both at once lets the
command run on, and whoever kills both at once lets live what the command had started (not where `defib elect` is
process 1: there the kernel ends everything).

Run as `python -m defib.coordinate.leash`, with its orders as JSON.
"""

import json
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from defib.clock import Clock, SystemClock
from defib.coordinate.offspring import adopt_orphans, die_with_parent, kill_all, send_all

CANNOT_BE_RUN = 126
NOT_FOUND = 127
KILLED_BY = 128  # and the number of the signal
KILL_AGAIN_SECONDS = 0.05
LOOK_AGAIN_SECONDS = 60.0
LINE_MAX = 65536
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


class Leash:
    """`lost_grace`: so long after its time is over the command may take to end. `stop_grace`: when it is to stop."""

    def __init__(self, clock: Clock, until: float, lost_grace: float, stop_grace: float) -> None:
        self._clock = clock
        self._until = until
        self._lost_grace = lost_grace
        self._stop_grace = stop_grace
        self._kill_at = math.inf
        self._said = b""
        self._command = 0
        self.code: int | None = None  # of the command
        self.was_cut = False  # its time was over before it had ended

    def keep(self, command: list[str], control: int, wakes: int) -> None:
        """Until nothing that came from the command is left."""
        if self._clock.monotonic() >= self._until:
            self.was_cut = True
            return
        if not self._start(command):
            return
        waiting = select.poll()
        for number in (control, wakes):
            waiting.register(number, select.POLLIN)
        while not self._are_all_gone():
            for number, _ in waiting.poll(1000 * self._patience()):
                if number == wakes:
                    os.read(wakes, LINE_MAX)
                elif not self._hear(control):
                    waiting.unregister(control)
            self._do_what_is_due()

    def _start(self, command: list[str]) -> bool:
        try:
            # With one thread, nothing can go wrong between the fork and the new program.
            started = subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_parent)  # noqa: S603, PLW1509
        except OSError as error:
            print(f"defib: {command[0]!r} cannot be run: {error.strerror}", file=sys.stderr)  # noqa: T201  it has no log
            self.code = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_BE_RUN
            return False
        self._command = started.pid
        started.returncode = 0  # we ask ourselves how it ended, since orphans come to us too
        return True

    def _patience(self) -> float:
        due = self._kill_at if self.was_cut else min(self._kill_at, self._until)
        left = due - self._clock.monotonic()
        return min(left, LOOK_AGAIN_SECONDS) if left > 0 else KILL_AGAIN_SECONDS

    def _are_all_gone(self) -> bool:
        """Whoever loses its parent becomes our child: without children, there is nobody left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._command:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else KILLED_BY - code
                self._end_within(self._lost_grace, self._clock.monotonic())  # all that it leaves behind

    def _hear(self, control: int) -> bool:
        """False when nobody will ever say anything again."""
        said = os.read(control, LINE_MAX)
        *lines, self._said = (self._said + said).split(b"\n")
        for line in lines:
            word, _, value = line.partition(b" ")
            if word == b"until":
                self._allow_until(float(value))
            elif word == b"signal":
                self._pass_on(int(value))
            else:
                self._kill_at = min(self._kill_at, self._clock.monotonic() + self._stop_grace)
        if not said:
            self._allow_until(-math.inf)
        return bool(said)

    def _pass_on(self, number: int) -> None:
        """To the command and its group, as a terminal would. Whoever has left it hears only that all is over."""
        if self.code is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._command, number)

    def _allow_until(self, until: float) -> None:
        """What is taken back ends now; or then, if it should have ended before and we were stopped ourselves."""
        self._until = until if until > -math.inf else min(self._until, self._clock.monotonic())

    def _do_what_is_due(self) -> None:
        now = self._clock.monotonic()
        if now >= self._until and not self.was_cut and self.code is None:
            self.was_cut = True
            self._end_within(self._lost_grace, self._until)
        if now >= self._kill_at:
            kill_all(os.getpid())

    def _end_within(self, seconds: float, since: float) -> None:
        self._kill_at = min(self._kill_at, since + seconds)
        send_all(signal.SIGTERM, self._command, os.getpid())
        send_all(signal.SIGCONT, self._command, os.getpid())  # whoever is stopped hears nothing


@contextmanager
def _woken() -> Iterator[int]:
    """Readable when a child has ended. What others send to us is not for us."""
    wakes, wake = os.pipe()
    for number in (wakes, wake):
        os.set_blocking(number, False)
    for each in IGNORED:
        if signal.getsignal(each) is not signal.SIG_IGN or each is signal.SIGCHLD:  # what nohup asks for is passed on
            signal.signal(each, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    yield wakes


def main(orders: dict[str, Any], clock: Clock) -> None:
    control, report = orders["control"], orders["report"]
    adopt_orphans()
    leash = Leash(clock, orders["until"], orders["lost_grace"], orders["stop_grace"])
    with _woken() as wakes:
        leash.keep(orders["command"], control, wakes)
    with suppress(BrokenPipeError):  # nobody is left to hear it
        os.write(report, json.dumps({"code": leash.code, "was_cut": leash.was_cut}).encode())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), SystemClock())
