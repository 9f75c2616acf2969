"""What a signal is, and how it is read from objects whose every part may be missing or wrong."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeGuard, TypeVar

import msgspec

from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.moment import is_sensible, read_moment
from defib.model.node import Node
from defib.model.same import Sieve

LONGEST_TEXT = 200


class Mark(StrEnum):
    """What a node is annotated with by whoever takes it down."""

    ANNOUNCED = "defib.dev/upgrading-until"
    DESIRED_CONFIG = "machineconfiguration.openshift.io/desiredConfig"
    KURED = "kured.dev/kured-reboot-in-progress"
    OLD_KURED = "weave.works/kured-reboot-in-progress"


_MARKS = frozenset(mark.value for mark in Mark)

Key = TypeVar("Key", bound=Hashable)


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody takes nodes down on purpose. `message` tells a person who does what, and stays the same meanwhile."""

    name: str
    message: str
    nodes: frozenset[str] | None = None  # None: every node
    checks: frozenset[str] | None = None  # None: whichever check looks
    until: datetime | None = None  # when it ends by itself, if it does
    since: datetime | None = None  # if the cluster itself says since when


class Watch(msgspec.Struct, frozen=True):
    """What to watch for a signal: of these kinds, the first that the cluster has. Without a namespace, everywhere."""

    kinds: tuple[KindRef, ...]
    namespace: str = ""


def objects(cluster: Cluster, watch: Watch) -> Iterator[Unstructured]:
    for kind in watch.kinds:
        if isinstance(cluster.kinds.get(kind), Served):
            yield from cluster.every(kind)
            return


def nodes_with(cluster: Cluster, mark: Mark) -> list[Node]:
    return [node for node in _marked.of(cluster.nodes).values() if mark in (node.metadata.annotations or ())]


def cordoned(cluster: Cluster) -> list[Node]:
    return [node for node in _marked.of(cluster.nodes).values() if node.spec.unschedulable]


def _is_marked(node: Node) -> bool:
    return bool(node.spec.unschedulable) or not _MARKS.isdisjoint(node.metadata.annotations or ())


_marked = Sieve(_is_marked)  # hardly any is, and whoever looks for signals in a pass asks all


def grouped(pairs: Iterable[tuple[Key, str]]) -> dict[Key, frozenset[str]]:
    """The names that share a key. Thousands of nodes that are told the same are one signal, not thousands."""
    names: defaultdict[Key, set[str]] = defaultdict(set)
    for key, name in pairs:
        names[key].add(name)
    return {key: frozenset(found) for key, found in names.items()}


def inside(value: object, *path: str) -> object:
    """What stands at that place, or None where the way there ends early."""
    for step in path:
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def true_condition(conditions: object, kind: str) -> dict[object, object] | None:
    """The condition of this type, if the list has it and it is True."""
    found = condition(conditions, kind)
    return found if found is not None and found.get("status") == "True" else None


def condition(conditions: object, kind: str) -> dict[object, object] | None:
    listed = conditions if isinstance(conditions, list) else ()
    return next((one for one in listed if isinstance(one, dict) and one.get("type") == kind), None)


def moment(value: object) -> datetime | None:
    """A time that somebody wrote down, in UTC; None when it is not one."""
    read = read_moment(value) if isinstance(value, str) else None
    return read.astimezone(UTC) if read is not None else None


def is_usable(time: datetime | None) -> TypeGuard[datetime]:
    """Whether it may be compared with the time that it is now, and a duration be added to it."""
    return time is not None and time.tzinfo is not None and is_sensible(time)


def words(value: object) -> str:
    """Somebody else's text on one line, not too long; empty for what is not text."""
    if not isinstance(value, str):
        return ""
    head = value[: 2 * LONGEST_TEXT]
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in head).split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def instant(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
