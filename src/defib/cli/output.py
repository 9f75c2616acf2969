"""How every command answers: as text for people, or as JSON or YAML for machines; and how it says that it takes a while."""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from rich.console import Console, RenderableType

from defib.cli.failed import Failed
from defib.console.session import NotDone
from defib.telemetry.printable import printable

T = TypeVar("T")

PIPED_WIDTH = 120
SLOW_SECONDS = 2.0  # from here on, a person wonders whether it hangs

# What could steer a terminal and JSON has as it is. It stands in texts only, where an escape means the same.
_STEERS = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Said(msgspec.Struct, frozen=True):
    """The answer of a command that has done something, where a machine reads it."""

    message: str


def ask(work: Coroutine[Any, Any, T], doing: str) -> T:
    """The answer; `doing` is shown on a terminal while it does not come. Raises Failed."""
    try:
        return asyncio.run(_with_progress(work, doing))
    except NotDone as error:
        raise Failed(str(error)) from error


async def _with_progress(work: Coroutine[Any, Any, T], doing: str) -> T:
    console = Console(stderr=True)
    if not console.is_terminal:
        return await work
    from rich.status import Status

    status = Status(f"{doing} …", console=console)
    later = asyncio.get_running_loop().call_later(SLOW_SECONDS, status.start)
    try:
        return await work
    finally:
        later.cancel()
        status.stop()


def show(told: Any, draw: Callable[[int], RenderableType], output: str) -> None:
    """`draw` is given the width; it is asked only where a person reads. Colours are for terminals."""
    if output != "text":
        _write(encoded(told, output))
        return
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(draw(console.width))
    # A table is filled up with blanks to its last column, which nobody wants to copy.
    _write("\n".join(line.rstrip() for line in captured.get().splitlines()))


def say(line: str, output: str) -> None:
    """One line that says what is now so."""
    _write(printable(line) if output == "text" else encoded(Said(message=line), output))


def encoded(told: Any, output: str) -> str:
    if output == "json":
        text = msgspec.json.format(msgspec.json.encode(told)).decode()
        return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    import yaml

    # Without allow_unicode, nothing that could steer a terminal gets through: it stands there as an escape.
    return yaml.safe_dump(msgspec.to_builtins(told), sort_keys=False, width=PIPED_WIDTH).rstrip("\n")


def _write(content: str) -> None:
    """Whoever reads may have seen enough and be gone: that is no error."""
    try:
        print(content, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter tries again as it ends
