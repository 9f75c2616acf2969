"""A command on its leash: real processes, and an election whose mandate a test gives and takes back."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from defib.clock import SystemClock
from defib.coordinate.charge import Charge, Orders
from defib.coordinate.offspring import descendants
from defib.model.mandate import Mandate

CLOCK = SystemClock()
LOST_GRACE_SECONDS = 0.3
BUSY_SECONDS = 3.0  # processes start slowly on a busy machine
STUBBORN = "trap '' TERM; echo begun; while :; do sleep 0.05; done"
WILLING = "echo begun; exec sleep 600"


class ByHand:
    """An election that is won and lost as a test says."""

    def __init__(self) -> None:
        self.stirred = asyncio.Event()
        self.given: Mandate | None = None
        self.releases = 0
        self.leader = ""

    @property
    def mandate(self) -> Mandate | None:
        return self.given if self.given is not None and self.given.holds(CLOCK.monotonic()) else None

    def win(self, seconds: float = 600.0) -> Mandate:
        self.given = Mandate("by hand", CLOCK.monotonic() + seconds)
        self.stirred.set()
        return self.given

    def lose(self) -> None:
        assert self.given is not None
        self.given.take_back()
        self.given = None
        self.stirred.set()

    def not_alive(self) -> tuple[str, ...]:
        return ()

    def rest(self, seconds: float) -> None:
        raise AssertionError(seconds)

    async def run(self) -> NoReturn:
        while True:
            await asyncio.Event().wait()

    async def release(self) -> None:
        self.releases += 1


class Scene:
    """`book` is where the command writes."""

    def __init__(self, book: Path, script: str, stop_grace: float) -> None:
        self.election = ByHand()
        self.book = book
        self.charge = Charge(
            self.election,
            Orders(
                command=("sh", "-c", f"exec >>{book}; {script}"),
                environ={"PATH": os.environ["PATH"]},
                lost_grace_seconds=LOST_GRACE_SECONDS,
                stop_grace_seconds=stop_grace,
                look_seconds=0.05,
            ),
            CLOCK,
            self.election.stirred,
        )

    async def expect_lines(self, number: int) -> list[str]:
        async with asyncio.timeout(10):
            while len(lines := self.lines) < number:  # noqa: ASYNC110  another process writes them
                await asyncio.sleep(0.01)
            return lines

    @property
    def lines(self) -> list[str]:
        return self.book.read_text().splitlines() if self.book.exists() else []


@asynccontextmanager
async def scene(
    directory: Path, script: str, stop_grace: float = 5.0
) -> AsyncIterator[tuple[Scene, asyncio.Task[int]]]:
    made = Scene(directory / "book", script, stop_grace)
    async with asyncio.timeout(15), asyncio.TaskGroup() as group:
        yield made, group.create_task(made.charge.run())


async def expect_nobody_left(within: float = BUSY_SECONDS) -> None:
    async with asyncio.timeout(within):
        while descendants(os.getpid()):  # noqa: ASYNC110  nobody tells us
            await asyncio.sleep(0.01)


async def test_nothing_runs_before_we_lead_and_it_ends_with_the_commands_code(tmp_path: Path) -> None:
    async with scene(tmp_path, "echo begun; exit 5") as (it, running):
        await asyncio.sleep(0.2)  # as long as it takes to start
        assert it.lines == []
        it.election.win()
        assert await running == 5
        assert it.election.releases == 1


async def test_when_the_mandate_is_taken_back_the_command_ends_and_it_stands_by_again(tmp_path: Path) -> None:
    async with scene(tmp_path, WILLING) as (it, running):
        it.election.win()
        await it.expect_lines(1)
        it.election.lose()
        await expect_nobody_left()
        assert it.election.releases == 0
        it.election.win()
        await it.expect_lines(2)
        it.charge.stop(signal.SIGTERM)
        assert await running == 128 + signal.SIGTERM
        assert it.election.releases == 1


async def test_le_08_a_mandate_that_is_not_renewed_ends_the_command_within_its_grace(tmp_path: Path) -> None:
    async with scene(tmp_path, STUBBORN) as (it, running):
        mandate = it.election.win(BUSY_SECONDS / 2)
        await it.expect_lines(1)
        await asyncio.sleep(mandate.ends - CLOCK.monotonic() - 0.05)  # until shortly before its end
        assert descendants(os.getpid())
        await expect_nobody_left()
        assert CLOCK.monotonic() - mandate.ends < LOST_GRACE_SECONDS + 0.5
        it.charge.stop(signal.SIGTERM)
        assert await running in (0, 128 + signal.SIGKILL), "as it stands by again already, or not yet"


async def test_a_mandate_that_is_renewed_lets_the_command_run_on(tmp_path: Path) -> None:
    async with scene(tmp_path, WILLING) as (it, running):
        mandate = it.election.win(BUSY_SECONDS / 2)
        await it.expect_lines(1)
        first_end = mandate.ends
        mandate.ends += 600
        await asyncio.sleep(first_end + 2 * LOST_GRACE_SECONDS - CLOCK.monotonic())  # beyond what was said first
        assert not running.done()
        assert it.lines == ["begun"]
        it.charge.stop(signal.SIGTERM)
        await running


async def test_a_mandate_that_is_over_before_the_leash_is_ready_begins_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path, WILLING) as (it, running):
        it.election.win(0.001)
        await asyncio.sleep(0.5)  # as long as it takes to start
        it.charge.stop(signal.SIGTERM)
        assert await running == 0
        assert it.lines == []


async def test_a_command_that_does_not_stop_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    async with scene(tmp_path, STUBBORN, stop_grace=0.3) as (it, running):
        it.election.win()
        await it.expect_lines(1)
        it.charge.stop(signal.SIGTERM)
        assert await running == 128 + signal.SIGKILL
        assert it.election.releases == 1
        assert descendants(os.getpid()) == []


async def test_a_leash_that_is_stopped_is_torn_off(tmp_path: Path) -> None:
    async with scene(tmp_path, "echo $PPID; trap '' TERM; while :; do sleep 0.05; done") as (it, running):
        it.election.win()
        (leash,) = await it.expect_lines(1)
        os.kill(int(leash), signal.SIGSTOP)
        it.election.lose()
        await expect_nobody_left()
        it.charge.stop(signal.SIGTERM)
        assert await running in (0, 128 + signal.SIGKILL)


async def test_a_stopped_command_is_ended_too(tmp_path: Path) -> None:
    async with scene(tmp_path, "echo $$; exec sleep 600") as (it, running):
        it.election.win()
        (command,) = await it.expect_lines(1)
        os.kill(int(command), signal.SIGSTOP)
        it.charge.stop(signal.SIGTERM)
        it.election.lose()
        assert await running in (128 + signal.SIGTERM, 128 + signal.SIGKILL)


async def test_a_program_that_vanished_meanwhile_is_told_and_the_lock_released(tmp_path: Path) -> None:
    election = ByHand()
    orders = Orders(
        command=(str(tmp_path / "gone"),),
        environ={},
        lost_grace_seconds=LOST_GRACE_SECONDS,
        stop_grace_seconds=1.0,
        look_seconds=0.05,
    )
    election.win()
    assert await Charge(election, orders, CLOCK, election.stirred).run() == 127
    assert election.releases == 1


async def test_orphans_come_to_whoever_takes_part_and_are_not_left_as_dead(tmp_path: Path) -> None:
    """In a process of its own, since it changes what becomes of the orphans of the whole process."""
    program = f"""
import asyncio, os, subprocess
from defib.coordinate.charge import bury_strays
from defib.coordinate.offspring import adopt_orphans
async def main():
    adopt_orphans()
    subprocess.run(["sh", "-c", "(sleep 0.2 & echo $! > {tmp_path}/pid) &"])
    own = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.3; exit 7")
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        burying = group.create_task(bury_strays())
        while not os.path.exists("{tmp_path}/pid") or os.path.exists("/proc/" + open("{tmp_path}/pid").read().strip()):
            await asyncio.sleep(0.05)
        burying.cancel()
    print(await own.wait())
asyncio.run(main())
"""
    ran = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE, stderr=PIPE)
    out, err = await ran.communicate()
    assert (ran.returncode, out) == (0, b"7\n"), err.decode()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
async def test_a_signal_reaches_the_group_of_the_command_and_nobody_else(
    tmp_path: Path, number: signal.Signals
) -> None:
    def hearing(name: str, first: str = "") -> str:
        trap = f"trap '{first}echo {name} hears; exit 0' {number.name[3:]}"
        return f"{trap}; echo {name}; while :; do sleep 0.02; done"

    # The command lets its child speak first: when it has ended, everything that is left of it is killed.
    child, stranger = f'sh -c "{hearing("child")}"', f'setsid sh -c "{hearing("stranger")}"'
    script = f"{child} & child=$!; {stranger} & {hearing('command', 'wait $child; ')}"
    async with scene(tmp_path, script) as (it, running):
        it.election.win()
        assert set(await it.expect_lines(3)) == {"child", "stranger", "command"}
        it.charge.send(number)
        assert await running == 0
        assert set(it.lines[3:]) == {"child hears", "command hears"}
