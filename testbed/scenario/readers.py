"""How a value is written in a story, for each type that a field of a phrase can have. A table; nothing else knows."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from testbed.scenario.story import (
    Amount,
    CheckName,
    Chosen,
    FailoverTemplateName,
    NamedNode,
    NewName,
    NodeOf,
    Pair,
    PodName,
    PolicyName,
    PowerTemplateName,
    Remediator,
    TemplateName,
    Text,
    ThatNode,
    Where,
    Word,
    WorkloadName,
)

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_TIME = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_AMOUNT = re.compile(r"\d+%?")
_PAIR = re.compile(r"([\w./-]+)=(.*)")

Took = tuple[Any, int]
"""The value, and how many words it was."""
Take = Callable[[Sequence[str], str], Took | None]


class Reader(msgspec.Struct, frozen=True):
    """`take` reads a value from the start of some words, of which the sentence goes on with `stop`; None if it cannot."""

    wants: str
    take: Take
    choices: tuple[str, ...] = ()


def _name(words: Sequence[str], stop: str) -> Took | None:
    del stop
    return (words[0], 1) if words and _NAME.fullmatch(words[0]) else None


def _names(words: Sequence[str], stop: str) -> Took | None:
    end = words.index(stop) if stop in words else len(words)
    named = tuple(words[:end])
    return (named, end) if named and all(_NAME.fullmatch(name) for name in named) else None


def _word(words: Sequence[str], stop: str) -> Took | None:
    del stop
    return (words[0], 1) if words else None


def _count(words: Sequence[str], stop: str) -> Took | None:
    del stop
    return (int(words[0]), 1) if words and words[0].isascii() and words[0].isdigit() else None


def _seconds(words: Sequence[str], stop: str) -> Took | None:
    del stop
    read = _TIME.fullmatch(words[0]) if words and words[0] else None
    if read is None:
        return None
    return 3600.0 * int(read[1] or 0) + 60.0 * int(read[2] or 0) + float(read[3] or 0), 1


def _amount(words: Sequence[str], stop: str) -> Took | None:
    del stop
    return (words[0], 1) if words and _AMOUNT.fullmatch(words[0]) else None


def _pair(words: Sequence[str], stop: str) -> Took | None:
    del stop
    read = _PAIR.fullmatch(words[0]) if words else None
    return (Pair(read[1], read[2]), 1) if read else None


def _template(words: Sequence[str], stop: str) -> Took | None:
    took = _name(words, stop)
    known = {remediator.value for remediator in Remediator}
    return took if took and took[0].partition("-")[0] in known else None


def _template_of(remediator: Remediator) -> Take:
    def take(words: Sequence[str], stop: str) -> Took | None:
        took = _name(words, stop)
        return took if took and took[0].partition("-")[0] == remediator.value else None

    return take


def _quoted(words: Sequence[str], stop: str) -> Took | None:
    """Spaces between words count as one, as everywhere in a story."""
    del stop
    if not words or not words[0].startswith('"'):
        return None
    for end in range(1, len(words) + 1):
        text = " ".join(words[:end])
        if len(text) > 1 and text.endswith('"'):
            return text[1:-1], end
    return None


def _where(words: Sequence[str], stop: str) -> Took | None:
    if list(words[:2]) == ["that", "node"]:
        return ThatNode(), 2
    if list(words[:2]) == ["node", "of"]:
        took = _name(words[2:], stop)
        return (NodeOf(took[0]), 3) if took else None
    skipped = 1 if words[:1] == ["node"] and len(words) > 1 else 0
    took = _name(words[skipped:], stop)
    return (NamedNode(took[0]), 1 + skipped) if took else None


_READERS: Mapping[Any, Reader] = {
    float: Reader("a time such as 5s or 1m30s", _seconds),
    int: Reader("a number", _count),
    Word: Reader("a word", _word),
    NewName: Reader("a name (small letters, digits and dashes)", _name),
    PodName: Reader("the name of a pod or a workload", _name),
    WorkloadName: Reader("the name of a workload", _name),
    CheckName: Reader("the name of a check", _name),
    PolicyName: Reader("the name of a policy", _name),
    Chosen: Reader("nodes (all, workers, control-plane, a zone, or label=value)", _word),
    TemplateName: Reader(
        "a template (foo, bar, power, failover, or one of theirs such as foo-gentle)",
        _template,
        tuple(remediator.value for remediator in Remediator),
    ),
    PowerTemplateName: Reader(
        "a template of power (power, or another one such as power-gentle)", _template_of(Remediator.POWER)
    ),
    FailoverTemplateName: Reader(
        "a template of failover (failover, or another one such as failover-gentle)",
        _template_of(Remediator.FAILOVER),
    ),
    Amount: Reader("a number or a share such as 49%", _amount),
    Pair: Reader("key=value", _pair),
    Text: Reader("words between quotation marks", _quoted),
    tuple[NewName, ...]: Reader("names (small letters, digits and dashes)", _names),
    Where: Reader("a node (its name, `node of POD`, or `that node`)", _where, ("that node", "node of POD")),
}


def reader_for(kind: Any) -> Reader:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of({str(member.value): member for member in kind})
    return _READERS[kind]


def _one_of(members: Mapping[str, Enum]) -> Reader:
    """Capitals do not matter: `running` is as clear as `Running`."""
    by_word = {word.lower(): member for word, member in members.items()}

    def take(words: Sequence[str], stop: str) -> Took | None:
        del stop
        member = by_word.get(words[0].lower()) if words else None
        return (member, 1) if member else None

    return Reader(f"one of {', '.join(members)}", take, tuple(members))
