"""One process of the control plane: started, signalled, ended, and able to say how it died.

Bound to no event loop: a cluster that many tests share outlives the loops of the tests.
"""

import asyncio
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from testbed.leash import Leash
from testbed.programs import Program

_STOPS_WITHIN = 10.0
_DIES_WITHIN = 5.0
_TAIL_LINES = 15


class Component:
    def __init__(self, program: Program, command: Sequence[str], directory: Path, leash: Leash) -> None:
        self.program = program
        self.log = directory / f"{program}.log"
        self._command = command
        self._directory = directory
        self._leash = leash
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def died(self) -> bool:
        """It ended, and nobody here asked for that."""
        return self._process is not None and self._process.poll() is not None

    async def start(self) -> None:
        assert self._process is None, f"{self.program} is started already"
        self._process = await asyncio.to_thread(
            self._leash.start, self._command, directory=self._directory, log=self.log
        )

    async def stop(self) -> None:
        """Asks it to end; kills it when it does not."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        self.resume()  # a paused process hears the request only when it goes on
        try:
            await asyncio.to_thread(self._process.wait, _STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            await self.kill()
        self._process = None

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self.reap)

    def reap(self) -> None:
        """Takes note of a death that is certain to come."""
        if self._process is not None:
            self._process.wait(_DIES_WITHIN)
            self._process = None

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    async def last_words(self) -> str:
        """The end of its log."""
        text = await asyncio.to_thread(self.log.read_text, errors="replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
