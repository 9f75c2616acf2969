"""A stand-in for a watchdog device: a process that kills another process group, the "node", unless it is fed in time.

    python -m testbed.watchdog SOCKET SECONDS GROUP [FIRED]

It counts from the first connection on, as a device does from its opening, and goes on when the agent dies or is frozen.
Disarmed by the letter V, it waits for the next agent. When it fires, it kills the group and leaves the time in the file FIRED.
"""

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from defib.agent.countdown import Countdown
from defib.clock import SystemClock


def main(path: Path, seconds: float, group: int, fired: Path | None) -> None:
    clock = SystemClock()

    def fire() -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        if fired:
            fired.write_text(str(clock.monotonic()))

    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        while True:
            talk, _ = door.accept()
            if Countdown(seconds, fire, clock).run(talk, door):
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4:] else None)
