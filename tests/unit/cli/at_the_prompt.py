"""What a test asks of a command line: arguments in; exit code, output and errors out."""

from collections.abc import Awaitable, Callable

Defib = Callable[..., Awaitable[tuple[int, str, str]]]
