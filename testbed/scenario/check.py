"""What a story may not say although each of its lines can be read: names that nobody declared, times that go back."""

from collections.abc import Iterator, Sequence
from typing import Any, get_type_hints

import msgspec

from testbed.scenario.deeds import Harm
from testbed.scenario.errors import StoryError, did_you_mean
from testbed.scenario.story import (
    BarePod,
    NamedNode,
    NewName,
    NodeOf,
    Nodes,
    NodesInZone,
    Phrase,
    PodName,
    StatefulSet,
    StatefulSetWithVolume,
    Story,
    ThatNode,
    UsesTimers,
    Where,
    Workload,
    WorkloadName,
)


class _Known(msgspec.Struct, frozen=True):
    nodes: tuple[str, ...]
    workloads: tuple[str, ...]
    pods: tuple[str, ...]


def check(story: Story, header: Sequence[tuple[int, Phrase]]) -> None:
    """Raises StoryError for the first line that is wrong."""
    known = _Known(
        nodes=story.node_names,
        workloads=tuple(workload.name for workload in story.workloads),
        pods=tuple(pod for workload in story.workloads for pod in _fixed_names(workload)),
    )
    _check_header(story.path, header, known)
    latest, struck = 0.0, False
    for step in story.steps:
        if step.at is not None and step.at < latest:
            raise StoryError(story.path, step.line, f"time goes back here: an earlier line is at {latest:g}s")
        latest = max(latest, step.at or 0.0)
        for why in _wrong(step.does, known, struck=struck):
            raise StoryError(story.path, step.line, why)
        struck = struck or isinstance(step.does, Harm)
    if not story.steps:
        raise StoryError(story.path, 1, "nothing happens in this story: expected steps after the header")


def _check_header(path: str, header: Sequence[tuple[int, Phrase]], known: _Known) -> None:
    if not known.nodes:
        raise StoryError(path, 1, "a story needs nodes: expected a line such as `nodes n1 n2 n3`")
    seen: set[str] = set()
    for line, phrase in header:
        for name in _declared(phrase):
            if name in seen:
                raise StoryError(path, line, f"`{name}` is declared twice")
            seen.add(name)
        for why in _wrong(phrase, known, struck=False):
            raise StoryError(path, line, why)


def _declared(phrase: Phrase) -> tuple[str, ...]:
    """Workloads and nodes have names of their own kind."""
    match phrase:
        case Nodes(names=names) | NodesInZone(names=names):
            return tuple(f"node {name}" for name in names)
        case UsesTimers():
            return ("timers",)
        case _ if isinstance(phrase, Workload):
            return (phrase.name,)
        case _:
            return ()


def _fixed_names(workload: Workload) -> tuple[str, ...]:
    """The pods whose names are known before they exist; those of the others are made up by Kubernetes."""
    match workload:
        case StatefulSet() | StatefulSetWithVolume():
            return tuple(f"{workload.name}-{number}" for number in range(workload.replicas))
        case BarePod():
            return (workload.name,)
        case _:
            return ()


def _wrong(phrase: Phrase, known: _Known, *, struck: bool) -> Iterator[str]:
    for kind, value in _values(phrase):
        if kind == Where:
            yield from _wrong_place(value, known, struck=struck)
        elif kind is PodName:
            yield from _unknown("pod or workload", value, (*known.pods, *known.workloads))
        elif kind is WorkloadName:
            yield from _unknown("workload", value, known.workloads)
        elif isinstance(value, Phrase):
            yield from _wrong(value, known, struck=struck)
        elif value is True and not struck:
            yield "`elsewhere` is every node but the one that the last harm was done to, and none was done so far"


def _values(phrase: Phrase) -> Iterator[tuple[Any, Any]]:
    hints = get_type_hints(type(phrase))
    return ((hints[field], getattr(phrase, field)) for field in phrase.__struct_fields__ if hints[field] is not NewName)


def _wrong_place(where: Where, known: _Known, *, struck: bool) -> Iterator[str]:
    match where:
        case NamedNode(name):
            yield from _unknown("node", name, known.nodes)
        case NodeOf(pod):
            yield from _unknown("pod or workload", pod, (*known.pods, *known.workloads))
        case ThatNode() if not struck:
            yield "`that node` is the one that the last harm was done to, and none was done so far"
        case ThatNode():
            pass


def _unknown(what: str, name: str, known: tuple[str, ...]) -> Iterator[str]:
    if name not in known:
        hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
        yield f"this story has no {what} `{name}`{hint}"
