"""What a measured process tells the bench: one line of JSON at each stage."""

import asyncio

import msgspec

from tests.bench.usage import Usage, usage


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """How far it is, and what that has cost since the process began."""

    name: str
    usage: Usage
    seen: int = 0
    version: str = ""


def tell(name: str, *, seen: int = 0, version: str = "") -> Stage:
    stage = Stage(name=name, usage=usage(), seen=seen, version=version)
    print(msgspec.json.encode(stage).decode(), flush=True)  # noqa: T201 - it is how the processes talk
    return stage


class Tally:
    """Where a client says what it got. It knows how much there is to get."""

    def __init__(self, nodes: int, events: int) -> None:
        self._nodes = nodes
        self._events = events
        self.seen = 0
        self.listed = asyncio.Event()
        self.watched = asyncio.Event()

    def holds(self, nodes: int) -> None:
        """So many nodes of the first list are in the client's cache."""
        if nodes >= self._nodes:
            self.listed.set()

    def saw(self, events: int = 1) -> None:
        """So many more changes are in the client's cache."""
        self.seen += events
        if self.seen >= self._events:
            self.watched.set()
