"""`defib elect` as processes, with a command that says when it runs, and how many of them ran at once."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path

import msgspec

from tests.contract.api_server.steps import eventually

DEFIB = (sys.executable, "-m", "defib", "elect", "--namespace=default", "--log-format=json")
LEASE_SECONDS = 3.0
RETRY_SECONDS = 0.5
LOST_GRACE_SECONDS = 0.5
TERMS = (
    "--lease-duration=3s",
    "--renew-deadline=2s",
    "--retry-period=0.5s",
    "--lost-grace=0.5s",
    "--stop-grace=1s",
)
PATIENCE_SECONDS = 15.0

# Writes a line every 20 ms: when, who, which process. With `stubborn` it does not end when it is asked to.
BEAT = """
import os, signal, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number, code in ((signal.SIGHUP, 21), (signal.SIGUSR1, 22), (signal.SIGUSR2, 23)):
    signal.signal(number, lambda *_, code=code: sys.exit(code))
with open(sys.argv[1], "ab", buffering=0) as book:
    while True:
        book.write(f"{time.monotonic()} {os.environ['DEFIB_REPLICA_NAME']} {os.getpid()}\\n".encode())
        time.sleep(0.02)
"""


class Stint(msgspec.Struct):
    """From the first to the last line of one process."""

    replica: str
    pid: int
    begun: float
    ended: float


class Book:
    """What all of them have written."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "book"
        self._script = directory / "beat.py"

    async def open(self) -> "Book":
        await asyncio.to_thread(self._script.write_text, BEAT)
        await asyncio.to_thread(self.path.touch)
        return self

    def command(self, *more: str) -> tuple[str, ...]:
        return (sys.executable, str(self._script), str(self.path), *more)

    async def stints(self) -> list[Stint]:
        text = await asyncio.to_thread(self.path.read_text)
        found: dict[int, Stint] = {}
        for when, replica, pid in (line.split() for line in text.splitlines()):
            stint = found.setdefault(int(pid), Stint(replica, int(pid), float(when), float(when)))
            stint.ended = float(when)
        return sorted(found.values(), key=lambda stint: stint.begun)

    async def expect_next(self, replica: str = "", *, than: int = 0, within: float = PATIENCE_SECONDS) -> Stint:
        """The newest one, as soon as it is of this replica, or of another process than the one before."""

        async def is_there() -> bool:
            stints = await self.stints()
            return bool(stints) and stints[-1].pid != than and replica in ("", stints[-1].replica)

        await eventually(is_there, within=within)
        return (await self.stints())[-1]

    async def expect_never_two_at_once(self) -> None:
        for before, after in pairwise(await self.stints()):
            assert before.ended < after.begun, (before, after)


@asynccontextmanager
async def elected(
    name: str, kubeconfig: Path, lock: str, *arguments: str, stdin: bool = True
) -> AsyncIterator[Process]:
    """One replica, from a clean environment. Whatever the test did to it, nothing of it is left."""
    environ = {variable: value for variable, value in os.environ.items() if not variable.startswith("DEFIB_")}
    options = (f"--kubeconfig={kubeconfig}", f"--leader-lock={lock}", f"--replica-name={name}", *TERMS)
    closing = () if stdin else ("sh", "-c", 'exec <&-; exec "$@"', "sh")
    process = await asyncio.create_subprocess_exec(
        *("env", "--default-signal", *closing, *DEFIB, *options, *arguments), env=environ, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                _, log = await process.communicate()
        except TimeoutError:
            process.kill()
            _, log = await process.communicate()
        print(log.decode())  # noqa: T201  what a test that fails shows


async def code_of(process: Process) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.wait()


def is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


async def expect_gone(*pids: int, within: float = PATIENCE_SECONDS) -> None:
    async def are_gone() -> bool:
        return not any([await asyncio.to_thread(is_alive, pid) for pid in pids])

    await eventually(are_gone, within=within)


def numbers(text: bytes) -> Iterator[int]:
    return (int(word) for word in text.split())
