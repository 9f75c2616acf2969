"""Sentences and how they are matched. A sentence is text on a phrase; nothing here knows any phrase in particular."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from testbed.scenario.readers import Reader, reader_for
from testbed.scenario.story import Phrase

_PIECE = re.compile(r"\{(?P<slot>\w+)\}|\[(?P<option>[\w-]+)\]|(?P<literal>\S+)")


class Literal(msgspec.Struct, frozen=True):
    word: str


class Option(msgspec.Struct, frozen=True):
    word: str


class Slot(msgspec.Struct, frozen=True):
    field: str
    reader: Reader


class Several(msgspec.Struct, frozen=True):
    """The rest of a line, which is phrases one after the other."""

    field: str
    sentences: "tuple[Sentence, ...]"


Piece = Literal | Option | Slot | Several


class Sentence(msgspec.Struct, frozen=True):
    """`inner` is the phrase that stands inside, where there is one: the condition of an expectation."""

    text: str
    phrase: type[Phrase]
    inner: type[Phrase] | None
    pieces: tuple[Piece, ...]

    def build(self, values: dict[str, Any]) -> Phrase:
        if self.inner is None:
            return self.phrase(**values)
        mine = set(self.phrase.__struct_fields__)
        condition = self.inner(**{field: value for field, value in values.items() if field not in mine})
        return self.phrase(condition=condition, **{field: value for field, value in values.items() if field in mine})


class Miss(msgspec.Struct, frozen=True):
    """How far a sentence went along with the words, and what it wanted then."""

    sentence: Sentence
    at: int
    wants: str
    choices: tuple[str, ...]


class _Begun(msgspec.Struct, frozen=True):
    """A sentence that the words begin with: its values, how many words it was, and options that could follow."""

    values: dict[str, Any]
    length: int
    skipped: tuple[str, ...]


@cache
def sentence_of(phrase: type[Phrase], inner: type[Phrase] | None = None) -> Sentence:
    text = phrase.sentence.replace("{condition}", inner.sentence) if inner else phrase.sentence
    hints = (get_type_hints(inner) if inner else {}) | get_type_hints(phrase)
    return Sentence(text, phrase, inner, tuple(_pieces(text, hints)))


def _pieces(text: str, hints: dict[str, Any]) -> Iterable[Piece]:
    for found in _PIECE.finditer(text):
        if slot := found["slot"]:
            parts = _phrases_in(hints[slot])
            yield Several(slot, tuple(map(sentence_of, parts))) if parts else Slot(slot, reader_for(hints[slot]))
        elif option := found["option"]:
            yield Option(option)
        else:
            yield Literal(found["literal"])


def _phrases_in(hint: Any) -> tuple[type[Phrase], ...]:
    """Of a tuple of phrases; none when it is something else."""
    if get_origin(hint) is not tuple:
        return ()
    of = get_args(hint)[0]
    kinds = get_args(of) if isinstance(of, UnionType) else (of,)
    return kinds if all(isinstance(kind, type) and issubclass(kind, Phrase) for kind in kinds) else ()


def match(sentence: Sentence, words: Sequence[str]) -> Phrase | Miss:
    begun = _begin(sentence, words)
    if isinstance(begun, Miss):
        return begun
    if begun.length < len(words):
        return Miss(sentence, begun.length, "the end of the line", begun.skipped)
    return sentence.build(begun.values)


def _begin(sentence: Sentence, words: Sequence[str]) -> _Begun | Miss:
    values: dict[str, Any] = {}
    at = 0
    skipped: tuple[str, ...] = ()  # options just before, which could have stood here as well
    for number, piece in enumerate(sentence.pieces):
        took = _take(sentence, piece, words[at:], _stop(sentence.pieces[number + 1 :]))
        if isinstance(took, Miss):
            return Miss(took.sentence, at + took.at, took.wants, (*skipped, *took.choices))
        more, length = took
        values |= more
        at += length
        skipped = (piece.word,) if isinstance(piece, Option) and not length else ()
    return _Begun(values, at, skipped)


def _take(sentence: Sentence, piece: Piece, words: Sequence[str], stop: str) -> tuple[dict[str, Any], int] | Miss:
    match piece:
        case Literal(word):
            return ({}, 1) if words[:1] == [word] else Miss(sentence, 0, f"`{word}`", (word,))
        case Option(word):
            found = words[:1] == [word]
            return {word: found}, int(found)
        case Slot(field, reader):
            took = reader.take(words, stop)
            return ({field: took[0]}, took[1]) if took else Miss(sentence, 0, reader.wants, reader.choices)
        case Several(field, sentences):
            parts = _rest(sentences, words)
            return parts if isinstance(parts, Miss) else ({field: parts}, len(words))


def _rest(sentences: Sequence[Sentence], words: Sequence[str]) -> tuple[Phrase, ...] | Miss:
    """At least one phrase; a line that ends too early ends inside one."""
    parts: list[Phrase] = []
    at = 0
    while not parts or at < len(words):
        tried = [(sentence, _begin(sentence, words[at:])) for sentence in sentences]
        begun = next(((sentence, one) for sentence, one in tried if isinstance(one, _Begun)), None)
        if begun is None:
            return _furthest([one for _, one in tried if isinstance(one, Miss)], at)
        parts.append(begun[0].build(begun[1].values))
        at += begun[1].length
    return tuple(parts)


def _furthest(misses: Sequence[Miss], at: int) -> Miss:
    """All that could have followed at the last place where anything could."""
    end = max(miss.at for miss in misses)
    last = [miss for miss in misses if miss.at == end]
    wants = " or ".join(dict.fromkeys(miss.wants for miss in last))
    return Miss(last[0].sentence, at + end, wants, tuple(choice for miss in last for choice in miss.choices))


def _stop(following: Sequence[Piece]) -> str:
    return next((piece.word for piece in following[:1] if isinstance(piece, Literal)), "")


def read(sentences: Sequence[Sentence], words: Sequence[str]) -> Phrase | tuple[Miss, ...]:
    """The phrase that the words are, or the misses of those sentences that went along the furthest."""
    misses = []
    for sentence in sentences:
        found = match(sentence, words)
        if isinstance(found, Phrase):
            return found
        misses.append(found)
    furthest = max(miss.at for miss in misses)
    return tuple(miss for miss in misses if miss.at == furthest)
