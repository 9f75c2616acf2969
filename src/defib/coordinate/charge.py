"""A command that runs only while we lead: started when we begin to, ended in time when we cease to, and run again."""

import asyncio
import json
import math
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

import msgspec
import structlog

from defib.clock import Clock
from defib.coordinate.leadership import Election
from defib.coordinate.leash import CANNOT_BE_RUN, KILLED_BY
from defib.coordinate.offspring import bury, kill_all
from defib.model.mandate import Mandate

log = structlog.get_logger("coordinate")

LEASH = (sys.executable, "-P", "-m", "defib.coordinate.leash")
REPORT_MAX = 4096
LATE_SECONDS = 0.2  # a leash that is so late does not work
KILL_SECONDS = 5.0  # whoever was killed is gone by then, unless it hangs in the kernel
KILL_AGAIN_SECONDS = 0.05
STRAY_SECONDS = 1.0


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, and how long it may take to end: when we no longer lead, and when we are to stop."""

    command: tuple[str, ...]
    environ: Mapping[str, str]
    lost_grace_seconds: float
    stop_grace_seconds: float
    look_seconds: float  # so often it is looked whether we may go on


class Ended(msgspec.Struct, frozen=True):
    code: int | None = None  # None: it was never begun
    was_cut: bool = False  # because we no longer led, and not by itself


STUCK = Ended(KILLED_BY + signal.SIGKILL)  # it does not end at all


class Run:
    """One run of the command, on its leash."""

    def __init__(self, process: Process, control: int, report: int) -> None:
        self._process = process
        self._control = control
        self._report = report
        self._allowed = 0.0

    @classmethod
    async def begin(cls, orders: Orders, until: float) -> "Run":
        """Raises OSError."""
        told, control = os.pipe()
        report, tells = os.pipe()
        for number in (control, report):
            os.set_blocking(number, False)
        text = json.dumps(
            {
                "control": told,
                "report": tells,
                "until": until,
                "lost_grace": orders.lost_grace_seconds,
                "stop_grace": orders.stop_grace_seconds,
                "command": orders.command,
            }
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *LEASH,
                text,
                env=dict(orders.environ),
                pass_fds=(told, tells),
                start_new_session=True,  # what a terminal sends, it sends to us
            )
        except OSError:
            for number in (control, report):
                os.close(number)
            raise
        finally:
            for number in (told, tells):
                os.close(number)
        return cls(process, control, report)

    def allow(self, until: float) -> None:
        if until != self._allowed:
            self._allowed = until
            self._tell(f"until {until!r}")

    def send(self, number: int) -> None:
        self._tell(f"signal {number}")

    def stop(self) -> None:
        self._tell("stop")

    def _tell(self, line: str) -> None:
        """Whoever does not listen, or is gone, is not waited for: what is not told ends earlier, never later."""
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(self._control, f"{line}\n".encode())

    async def ended(self) -> Ended | None:
        """When nothing of it is left. None when nobody can say how it ended."""
        await self._process.wait()
        with suppress(BlockingIOError):
            if text := os.read(self._report, REPORT_MAX):
                return msgspec.json.decode(text, type=Ended)
        # Somebody has killed the leash, and so the command; what that had started has come to us.
        while await asyncio.to_thread(kill_all, os.getpid()):  # noqa: ASYNC110  nobody tells us when they are gone
            await asyncio.sleep(KILL_AGAIN_SECONDS)
        return None

    def tear_off(self) -> None:
        """A leash that does not do its work is killed, and so the command."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """Who has nobody to listen to ends the command by himself."""
        for number in (self._control, self._report):
            os.close(number)


class Charge:
    """Signals come in by `send` and `stop`; `stirred` is to be set when we begin or cease to lead."""

    def __init__(self, election: Election, orders: Orders, clock: Clock, stirred: asyncio.Event) -> None:
        self._election = election
        self._orders = orders
        self._clock = clock
        self._stirred = stirred
        self._run: Run | None = None
        self._stop_at = math.inf  # since when it is to stop

    def send(self, number: int) -> None:
        """While nothing runs, it is for nobody."""
        if self._run is not None:
            self._run.send(number)

    def stop(self, number: int) -> None:
        self._stop_at = min(self._stop_at, self._clock.monotonic())
        if self._run is not None:
            self._run.send(number)
            self._run.stop()
        self._stirred.set()

    async def run(self) -> int:
        """The exit code. At its end nothing of the command is left, and the lock is free for another one."""
        async with asyncio.TaskGroup() as group:
            electing = group.create_task(self._election.run())
            ended = await self._serve()
            electing.cancel()
        if ended is STUCK:
            log.error("the command cannot be killed", advice="the lock is not released, and ends by itself")
        else:
            await self._election.release()
        return ended.code or 0

    async def _serve(self) -> Ended:
        while (mandate := await self._mandate()) is not None:
            ended = await self._one_run(mandate)
            if self._is_to_stop or not ended.was_cut:
                return ended
            log.warning("standing by again: the command was ended, since we no longer lead", code=ended.code)
        return Ended()

    @property
    def _is_to_stop(self) -> bool:
        return self._stop_at < math.inf

    async def _mandate(self) -> Mandate | None:
        """None when it is to stop."""
        while not self._is_to_stop:
            self._stirred.clear()
            if (mandate := self._election.mandate) is not None:
                return mandate
            await self._stirred.wait()
        return None

    async def _one_run(self, mandate: Mandate) -> Ended:
        try:
            run = await Run.begin(self._orders, mandate.ends)
        except OSError as error:
            log.error("the command cannot be run", why=error.strerror)  # noqa: TRY400  the reason is all there is to say
            return Ended(CANNOT_BE_RUN)
        log.info("we lead: the command is started", command=self._orders.command[0])
        self._run = run
        if self._is_to_stop:
            self.stop(signal.SIGTERM)  # it came while this one was being started
        try:
            async with asyncio.TaskGroup() as group:
                ending = group.create_task(run.ended())
                ending.add_done_callback(lambda _: self._stirred.set())
                is_over = await self._look_after(run, mandate, ending)
                ending.cancel()
            if not ending.cancelled():
                return ending.result() or Ended(KILLED_BY + signal.SIGKILL, was_cut=is_over)
            return STUCK
        finally:
            self._run = None
            run.close()

    async def _look_after(self, run: Run, mandate: Mandate, ending: asyncio.Task[Ended | None]) -> bool:
        """Until it has ended, or has had all the time there is. Whether our mandate was over by then."""
        over_at = math.inf
        while not ending.done():
            now = self._clock.monotonic()
            if self._election.mandate is not mandate:
                over_at = min(over_at, now)
            run.allow(mandate.ends if over_at == math.inf else -math.inf)
            late = now - min(over_at + self._orders.lost_grace_seconds, self._stop_at + self._orders.stop_grace_seconds)
            if late > LATE_SECONDS:
                run.tear_off()
            if late > KILL_SECONDS and self._is_to_stop:
                break
            self._stirred.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._orders.look_seconds):
                    await self._stirred.wait()
        return over_at < math.inf


async def bury_strays() -> NoReturn:
    """Ask the dead who came to us how they ended, as process 1 must, or they would stay for ever.

    Our own children are asked by whoever started them, at once. Who is still there a moment later is a stray.
    """
    before = 0
    while True:
        await asyncio.sleep(STRAY_SECONDS)
        before = bury(before)
