"""Everything that happened in a run, in order, one line each. The same seed gives the same lines, byte for byte.

Entries keep the objects themselves, which nobody changes; so checkers see every state that ever was, and a run that
nobody reads pays for no text.
"""

import hashlib
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec

from defib.clock import Clock
from defib.kube.transport import Request
from defib.model.action import Action
from defib.simulate.store import Change
from tests.simulation.freezing import REPLICA

Object = dict[str, Any]


class Written(msgspec.Struct, frozen=True):
    """The API server stored something, whoever wanted it.

    `by`: the replica in whose turn that was; it may be what a controller of Kubernetes did in answer.
    """

    at: float
    change: Change
    by: str = ""

    @property
    def resource(self) -> str:
        return self.change.resource

    @property
    def key(self) -> str:
        return self.change.key

    def __str__(self) -> str:
        version = self.change.now
        digest = crc32(msgspec.json.encode(version.object))
        return f"{self.change.kind:8} {self.resource} {self.key} at {version.revision}, {digest:08x}"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A replica sent a request. `holder` led then, as the API server had it: nobody, when the time of the lock was over."""

    at: float
    replica: str
    request: Request
    holder: str
    runs_there: bool = False  # of a pod that is to be deleted: its containers do run, whatever anybody believes
    blind_seconds: float = 0.0  # for so long it has known that it does not see what it must

    @property
    def is_write(self) -> bool:
        return self.request.method != "GET"

    def __str__(self) -> str:
        return f"{self.replica} asks {self.request}, {crc32(self.request.body):08x}"


class Switched(msgspec.Struct, frozen=True):
    """A replica sent a command to a machine. `holder` led then."""

    at: float
    replica: str
    node: str
    power: str
    holder: str
    blind_seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.replica} switches {self.node} {self.power}"


class Happened(msgspec.Struct, frozen=True):
    """What was done to the world, by nobody in it."""

    at: float
    what: str

    def __str__(self) -> str:
        return f"-- {self.what}"


class Planned(msgspec.Struct, frozen=True):
    """A replica decided by what it saw. `again`: what is decided by the same, with nothing remembered."""

    at: float
    replica: str
    actions: tuple[Action, ...]
    again: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.replica} wants {len(self.actions)} actions"


class OnNode(msgspec.Struct, frozen=True):
    """What became of one boot of a machine that takes itself down, and why."""

    at: float
    node: str
    boot: str
    what: str

    def __str__(self) -> str:
        return f"-- {self.node} {self.what}, boot {self.boot[:8]}"


Entry = Written | Asked | Switched | Happened | Planned | OnNode


class History:
    def __init__(self, clock: Clock) -> None:
        self.entries: list[Entry] = []
        self._clock = clock

    @property
    def now(self) -> float:
        return self._clock.monotonic()

    def written(self, change: Change) -> None:
        self.entries.append(Written(self.now, change, REPLICA.get()))

    def note(self, entry: Entry) -> None:
        self.entries.append(entry)

    def happened(self, what: str) -> None:
        self.entries.append(Happened(self.now, what))

    def lines(self) -> Iterator[str]:
        for entry in self.entries:
            yield f"{entry.at:10.3f} {entry}"

    def digest(self) -> str:
        """One number for all of it: two runs with the same one were the same run."""
        return hashlib.sha256("\n".join(self.lines()).encode()).hexdigest()
