"""`defib elect`: runs a command only while we lead, and is to it what process 1 is to a container."""

import asyncio
import os
import shutil
import signal
import sys

import click
import structlog

from defib import replica
from defib.app import StartFailed
from defib.cli.failed import Failed
from defib.clock import SystemClock
from defib.config import BY_KEY, BadSettings, Settings
from defib.coordinate.charge import Charge, Orders, bury_strays
from defib.coordinate.election import Candidate
from defib.coordinate.leash import CANNOT_BE_RUN, NOT_FOUND
from defib.coordinate.offspring import adopt_orphans
from defib.telemetry.log import set_up, style_for

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
LOOKS_PER_RETRY = 4  # so often between two renewals the command is told until when it may run
ELECTIONS = ("lease", "endpoints", "follow", "tooz")


class NoProgram(click.ClickException):
    exit_code = NOT_FOUND


class NotExecutable(click.ClickException):
    exit_code = CANNOT_BE_RUN


def run_elected(settings: Settings, command: tuple[str, ...], lost_grace: float, stop_grace: float) -> int:
    """The exit code of the command. Raises BadSettings, Failed, NoProgram and NotExecutable."""
    me = _candidate(settings, lost_grace)
    _expect_program(command[0])
    _open_what_is_closed()
    # What the command says is its own: all that we say goes where complaints go.
    style = style_for(settings.log_format, terminal=os.isatty(2), environ=os.environ)
    set_up(style=style, level=settings.log_level, fd=2, clock=SystemClock())
    orders = Orders(
        command=command,
        environ=os.environ | {BY_KEY["replica_name"].variable: me.name},
        lost_grace_seconds=lost_grace,
        stop_grace_seconds=stop_grace,
        look_seconds=me.terms.retry_seconds / LOOKS_PER_RETRY,
    )
    try:
        return asyncio.run(_elect(settings, me, orders))
    except StartFailed as error:
        structlog.get_logger("cli").debug("start failed", exc_info=error)
        raise Failed(str(error)) from error


def _candidate(settings: Settings, lost_grace: float) -> Candidate:
    problems = []
    if settings.election not in ELECTIONS:
        problems.append(f"--election: {settings.election!r} does not choose one leader; choose {_any_of(ELECTIONS)}")
    if settings.election != "follow" and settings.leader_lock == BY_KEY["leader_lock"].default:
        problems.append(
            f"--leader-lock: name the lock, the same for all that are to take turns; {settings.leader_lock} is the operator's own"
        )
    if problems:
        raise BadSettings(problems)
    me = replica.candidate_of(settings)
    left = me.terms.lease_seconds - me.terms.renew_seconds
    if lost_grace >= left:
        problem = (
            f"--lost-grace: {lost_grace:g}s must be less than the {left:g}s by which --lease-duration is longer than "
            "--renew-deadline: else the command would still run when another one leads"
        )
        raise BadSettings([problem])
    return me


def _any_of(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _expect_program(program: str) -> None:
    """Known now rather than when we first lead, which may be in a year."""
    if shutil.which(program) is not None:
        return
    if shutil.which(program, mode=os.F_OK) is not None:
        raise NotExecutable(f"{program!r} cannot be run: it is not an executable file")
    raise NoProgram(f"{program!r} cannot be run: there is no such program")


def _open_what_is_closed() -> None:
    """Else the next thing to be opened would have that number, and be the command's input or output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free, so this one


async def _elect(settings: Settings, me: Candidate, orders: Orders) -> int:
    adopt_orphans()
    clock, stirred, loop = SystemClock(), asyncio.Event(), asyncio.get_running_loop()
    async with replica.taking_part(settings, me, clock, stirred.set) as election:
        charge = Charge(election, orders, clock, stirred)
        stops = {signal.SIGTERM, signal.SIGINT} | ({signal.SIGHUP} if _has_terminal() else set())
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asks us not to hear the terminal close
                loop.add_signal_handler(number, charge.stop if number in stops else charge.send, number)
        structlog.get_logger("cli").info("standing by", name=me.name, election=settings.election)
        async with asyncio.TaskGroup() as group:
            burying = group.create_task(bury_strays())
            code = await charge.run()
            burying.cancel()
        return code


def _has_terminal() -> bool:
    """There, SIGHUP is the end of everything. Elsewhere it is a word to the command, as a rule that it read its settings."""
    return sys.stdin is not None and sys.stdin.isatty()
