"""From the text of a story to a Story. Pure. What cannot be read is one line: where, what was expected, and a guess."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TypeVar

import msgspec

from testbed.scenario.check import check
from testbed.scenario.conditions import CONDITIONS, EXPECTATIONS
from testbed.scenario.deeds import DEEDS
from testbed.scenario.errors import StoryError
from testbed.scenario.grammar import Miss, Sentence, read, sentence_of
from testbed.scenario.readers import reader_for
from testbed.scenario.story import (
    AnyTemplate,
    BarePod,
    Budget,
    Check,
    DaemonSet,
    Deployment,
    FailoverTemplate,
    MaxUnavailable,
    MinAvailable,
    NodeRow,
    Nodes,
    NodesInZone,
    NodesWithRole,
    OpenShift,
    Operator,
    OperatorWith,
    Phrase,
    Policy,
    PowerTemplate,
    StatefulSet,
    StatefulSetWithVolume,
    Step,
    Story,
    Template,
    Timers,
    UsesTimers,
    Workload,
)

HEADERS: tuple[type[Phrase], ...] = (
    UsesTimers,
    NodesInZone,
    NodesWithRole,
    Nodes,
    Deployment,
    StatefulSetWithVolume,
    StatefulSet,
    DaemonSet,
    BarePod,
    MinAvailable,
    MaxUnavailable,
    OperatorWith,
    Operator,
    OpenShift,
    Template,
    PowerTemplate,
    FailoverTemplate,
    Check,
    Policy,
)
HEADER_SENTENCES = tuple(sentence_of(phrase) for phrase in HEADERS)
STEP_SENTENCES = (
    *(sentence_of(phrase) for phrase in DEEDS),
    *(sentence_of(phrase, condition) for condition in CONDITIONS for phrase in EXPECTATIONS),
)
_TIME = reader_for(float)

P = TypeVar("P", bound=Phrase)


class _Line(msgspec.Struct, frozen=True):
    number: int
    text: str

    @property
    def words(self) -> list[str]:
        return self.text.split()


def parse(text: str, path: str = "story") -> Story:
    """Raises StoryError for the first line that makes no sense."""
    lines = [_Line(number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    spoken = [line for line in lines if line.text]
    head = [line for line in spoken if line.words[0] in {sentence.text.split()[0] for sentence in HEADER_SENTENCES}]
    header = [(line, _read(path, line, HEADER_SENTENCES, line.words)) for line in head]
    steps = tuple(_step(path, line) for line in spoken if line not in head)
    first_step = steps[0].line if steps else 0
    late = next((line for line in head if first_step and line.number > first_step), None)
    if late:
        raise StoryError(
            path, late.number, f"`{late.text}` belongs before the first step, which is on line {first_step}"
        )
    phrases = [phrase for _, phrase in header]
    story = Story(
        path=path,
        title=_title(text),
        timers=next((said.timers for said in _all(phrases, UsesTimers)), Timers.DEFAULT),
        nodes=tuple(phrase for phrase in phrases if isinstance(phrase, NodeRow)),
        workloads=tuple(phrase for phrase in phrases if isinstance(phrase, Workload)),
        budgets=tuple(phrase for phrase in phrases if isinstance(phrase, Budget)),
        steps=steps,
        operator=next((phrase for phrase in phrases if isinstance(phrase, Operator | OperatorWith)), None),
        is_openshift=any(isinstance(phrase, OpenShift) for phrase in phrases),
        templates=tuple(phrase for phrase in phrases if isinstance(phrase, AnyTemplate)),
        checks=tuple(_all(phrases, Check)),
        policies=tuple(_all(phrases, Policy)),
    )
    check(story, [(line.number, phrase) for line, phrase in header])
    return story


def _all(phrases: Iterable[Phrase], kind: type[P]) -> Iterator[P]:
    return (phrase for phrase in phrases if isinstance(phrase, kind))


def _title(text: str) -> str:
    """The first comment, up to the first line that is none."""
    lines = [line.strip() for line in text.strip().splitlines()]
    length = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return " ".join(line.lstrip("# ") for line in lines[:length])


def _step(path: str, line: _Line) -> Step:
    words, at = line.words, None
    if words[0] == "at":
        took = _TIME.take(words[1:], "")
        if took is None:
            found = f"`{words[1]}`" if len(words) > 1 else "the end of the line"
            raise StoryError(path, line.number, f"expected {_TIME.wants} after `at`, found {found}")
        at, words = took[0], words[2:]
    return Step(line=line.number, text=" ".join(words), at=at, does=_read(path, line, STEP_SENTENCES, words))


def _read(path: str, line: _Line, sentences: Sequence[Sentence], words: Sequence[str]) -> Phrase:
    found = read(sentences, words)
    if isinstance(found, Phrase):
        return found
    raise StoryError(path, line.number, _explain(found, words))


def _explain(misses: tuple[Miss, ...], words: Sequence[str]) -> str:
    at = misses[0].at
    after = f" after `{' '.join(words[:at])}`" if at else ""
    found = f"`{words[at]}`" if at < len(words) else "the end of the line"
    wanted = list(dict.fromkeys(miss.wants for miss in misses))
    shown = " or ".join(wanted)
    choices = {choice.lower(): choice for miss in misses for choice in miss.choices}
    near = get_close_matches(words[at].lower(), choices, n=1) if at < len(words) else []
    guess = f"did you mean `{choices[near[0]]}`?" if near else ""
    if at == 0:
        return f"no sentence of a story begins with {found}; {guess or 'docs/scenarios.md lists them all'}"
    return f"expected {shown}{after}, found {found}; {guess or f'a whole line is `{misses[0].sentence.text}`'}"
