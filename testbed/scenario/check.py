"""What a story may not say although each of its lines can be read: names that nobody declared, times that go back."""

from collections.abc import Iterator, Sequence
from typing import Any, get_type_hints

import msgspec

from defib.config import BadSettings
from testbed.scenario.deeds import Harm
from testbed.scenario.errors import StoryError, did_you_mean
from testbed.scenario.remediation_deeds import ToRemediation
from testbed.scenario.replica import settings_of
from testbed.scenario.story import (
    AnyTemplate,
    BarePod,
    Check,
    CheckName,
    Chosen,
    NamedNode,
    NewName,
    NodeOf,
    NodeRow,
    OfRemediation,
    OpenShift,
    Operator,
    OperatorWith,
    Phrase,
    PodName,
    Policy,
    PolicyName,
    StatefulSet,
    StatefulSetWithVolume,
    Story,
    ThatNode,
    UsesTimers,
    Where,
    Workload,
    WorkloadName,
)

_OF_DEFIB = OpenShift | Check | Policy | AnyTemplate | ToRemediation | OfRemediation

CHOICES = ("all", "workers", "control-plane")


class _Known(msgspec.Struct, frozen=True):
    nodes: tuple[str, ...]
    zones: tuple[str, ...]
    workloads: tuple[str, ...]
    pods: tuple[str, ...]
    checks: tuple[str, ...]
    policies: tuple[str, ...]
    has_operator: bool


def check(story: Story, header: Sequence[tuple[int, Phrase]]) -> None:
    """Raises StoryError for the first line that is wrong."""
    known = _Known(
        nodes=story.node_names,
        zones=tuple(row.zone for row in story.nodes),
        workloads=tuple(workload.name for workload in story.workloads),
        pods=tuple(pod for workload in story.workloads for pod in _fixed_names(workload)),
        checks=tuple(made.name for made in story.checks),
        policies=tuple(made.name for made in story.policies),
        has_operator=story.operator is not None,
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
        case UsesTimers():
            return ("timers",)
        case Operator() | OperatorWith():
            return ("operator",)
        case _ if isinstance(phrase, Check | Policy | AnyTemplate):
            return (f"{phrase.sentence.split()[0]} {phrase.name}",)
        case _ if isinstance(phrase, NodeRow):
            return tuple(f"node {name}" for name in phrase.names)
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
    yield from _wrong_without_operator(phrase, known)
    for field, kind, value in _values(phrase):
        if kind == Where:
            yield from _wrong_place(value, known, struck=struck)
        elif kind in _NAMED:
            yield from _wrong_name(kind, value, known)
        elif isinstance(value, tuple | Phrase):
            for part in value if isinstance(value, tuple) else (value,):
                yield from _wrong(part, known, struck=struck) if isinstance(part, Phrase) else ()
        elif field == "elsewhere" and value and not struck:
            yield "`elsewhere` is every node but the one that the last harm was done to, and none was done so far"


def _wrong_without_operator(phrase: Phrase, known: _Known) -> Iterator[str]:
    match phrase:
        case Operator() | OperatorWith():
            try:
                settings_of(phrase)
            except BadSettings as error:
                yield "; ".join(error.problems)
        case _ if isinstance(phrase, _OF_DEFIB) and not known.has_operator:
            yield "nobody would see to this: expected a line `operator` in the header"


def _values(phrase: Phrase) -> Iterator[tuple[str, Any, Any]]:
    hints = get_type_hints(type(phrase))
    return (
        (field, hints[field], getattr(phrase, field))
        for field in phrase.__struct_fields__
        if hints[field] is not NewName
    )


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


_NAMED = (PodName, WorkloadName, CheckName, PolicyName, Chosen)


def _wrong_name(kind: Any, name: str, known: _Known) -> Iterator[str]:
    if kind is PodName:
        yield from _unknown("pod or workload", name, (*known.pods, *known.workloads))
    elif kind is WorkloadName:
        yield from _unknown("workload", name, known.workloads)
    elif kind is CheckName:
        yield from _unknown("check", name, known.checks)
    elif kind is PolicyName:
        yield from _unknown("policy", name, known.policies)
    elif "=" not in name and name not in CHOICES:
        yield from _unknown("zone", name, known.zones)


def _unknown(what: str, name: str, known: tuple[str, ...]) -> Iterator[str]:
    if name not in known:
        hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
        yield f"this story has no {what} `{name}`{hint}"
