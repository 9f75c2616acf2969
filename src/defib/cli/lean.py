"""A process that runs for months does without what a library would take along only because it finds it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(module: str) -> Iterator[None]:
    """Whoever imports it meanwhile is told that it is not there. Once it has been imported, that is too late."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]  # the import system's own word for "there is none"
    try:
        yield
    finally:
        del sys.modules[module]
