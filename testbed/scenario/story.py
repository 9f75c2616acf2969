"""What a story says, as frozen structs. Everything that can be written in a story carries the sentence it is written as.

In a sentence `{node}` stands for the field of that name, `[word]` for a word that may be missing (its field is a bool).
The type of a field says how it is written; grammar.py knows how.
"""

from enum import Enum
from typing import ClassVar, NewType

import msgspec

PodName = NewType("PodName", str)
"""A pod by its name, or a workload: then the first of its pods is meant, by name."""
WorkloadName = NewType("WorkloadName", str)
NewName = NewType("NewName", str)
"""Of something that is made here."""
Word = NewType("Word", str)


class NamedNode(msgspec.Struct, frozen=True):
    name: str

    def __str__(self) -> str:
        return self.name


class NodeOf(msgspec.Struct, frozen=True):
    """The node on which a pod is at that moment."""

    pod: PodName

    def __str__(self) -> str:
        return f"node of {self.pod}"


class ThatNode(msgspec.Struct, frozen=True):
    """The one that the last harm was done to."""

    def __str__(self) -> str:
        return "that node"


Where = NamedNode | NodeOf | ThatNode


class Timers(Enum):
    DEFAULT = "default"
    COMPRESSED = "compressed"


class Access(Enum):
    """As kubectl abbreviates them."""

    RWO = "RWO"
    RWOP = "RWOP"
    RWX = "RWX"


class Phrase(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that has a sentence."""

    sentence: ClassVar[str]


class UsesTimers(Phrase, frozen=True):
    sentence = "timers {timers}"
    timers: Timers


class Nodes(Phrase, frozen=True):
    sentence = "nodes {names}"
    names: tuple[NewName, ...]
    zone: str = "zone-a"


class NodesInZone(Phrase, frozen=True):
    sentence = "nodes {names} in {zone}"
    names: tuple[NewName, ...]
    zone: NewName


class Deployment(Phrase, frozen=True):
    sentence = "deployment {name} replicas {replicas}"
    name: NewName
    replicas: int


class StatefulSet(Phrase, frozen=True):
    sentence = "statefulset {name} replicas {replicas}"
    name: NewName
    replicas: int


class StatefulSetWithVolume(Phrase, frozen=True):
    sentence = "statefulset {name} replicas {replicas} volume {access}"
    name: NewName
    replicas: int
    access: Access


class DaemonSet(Phrase, frozen=True):
    sentence = "daemonset {name}"
    name: NewName


class BarePod(Phrase, frozen=True):
    sentence = "pod {name}"
    name: NewName


class MinAvailable(Phrase, frozen=True):
    sentence = "budget {workload} min-available {count}"
    workload: WorkloadName
    count: int


class MaxUnavailable(Phrase, frozen=True):
    sentence = "budget {workload} max-unavailable {count}"
    workload: WorkloadName
    count: int


Workload = Deployment | StatefulSet | StatefulSetWithVolume | DaemonSet | BarePod
Budget = MinAvailable | MaxUnavailable
Header = UsesTimers | Nodes | NodesInZone | Workload | Budget


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the timeline. It begins at its time, or at once when the one before it has ended later than that."""

    line: int
    text: str
    at: float | None
    does: Phrase


class Story(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    title: str
    timers: Timers
    nodes: tuple[Nodes | NodesInZone, ...]
    workloads: tuple[Workload, ...]
    budgets: tuple[Budget, ...]
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(".story")

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(name for row in self.nodes for name in row.names)
