"""Single keys from a terminal, without Enter, while the show goes on. What the terminal was like before comes back."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

KEYS_MAX = 64


@contextmanager
def pressed(on_key: Callable[[str], None]) -> Iterator[None]:
    """`on_key` hears every key while the context lasts; nothing at all where there is no terminal to press one on."""
    if not sys.stdin.isatty():
        yield
        return
    fd, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(fd)

    def read() -> None:
        typed = os.read(fd, KEYS_MAX)
        if not typed:  # the terminal is gone
            loop.remove_reader(fd)
        for key in typed.decode(errors="ignore"):
            on_key(key)

    try:
        tty.setcbreak(fd)  # Ctrl-C stays what it is
        loop.add_reader(fd, read)
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
