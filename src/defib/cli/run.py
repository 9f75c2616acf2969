"""`defib run`: the operator in this process, with its logs, until a signal."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import structlog

from defib import replica
from defib.app import StartFailed
from defib.cli.failed import Failed
from defib.clock import SystemClock
from defib.config import Settings
from defib.telemetry.log import set_up, style_for

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_operator(settings: Settings) -> None:
    # Without a standard output, number 1 would be the next thing to be opened: a connection, say.
    fd = sys.stdout.fileno() if sys.stdout else os.open(os.devnull, os.O_WRONLY)
    style = style_for(settings.log_format, terminal=os.isatty(fd), environ=os.environ)
    set_up(style=style, level=settings.log_level, fd=fd, clock=SystemClock())
    try:
        until_stopped(replica.run(settings))
    except StartFailed as error:
        structlog.get_logger("cli").debug("start failed", exc_info=error)
        raise Failed(str(error)) from error


def server_version(settings: Settings) -> str:
    try:
        return asyncio.run(replica.server_version(settings))
    except StartFailed as error:
        raise Failed(str(error)) from error


def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or to the first signal that asks to stop: then cancel, so that everything is put away."""
    asyncio.run(_until_stopped(work))


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    assert me is not None
    asked: list[int] = []

    def stop(number: int) -> None:
        asked.append(number)
        me.cancel()
        _listen_no_more(loop)  # a second signal ends the process at once, should the clean end hang

    for number in STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup asks us not to hear the terminal close
            loop.add_signal_handler(number, stop, number)
    try:
        await work
    except asyncio.CancelledError:
        if not asked:
            raise
    finally:
        _listen_no_more(loop)


def _listen_no_more(loop: asyncio.AbstractEventLoop) -> None:
    for number in STOP_SIGNALS:
        loop.remove_signal_handler(number)
