"""Sentences and how they are matched. A sentence is text on a phrase; nothing here knows any phrase in particular."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, get_type_hints

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


Piece = Literal | Option | Slot


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


@cache
def sentence_of(phrase: type[Phrase], inner: type[Phrase] | None = None) -> Sentence:
    text = phrase.sentence.replace("{condition}", inner.sentence) if inner else phrase.sentence
    hints = (get_type_hints(inner) if inner else {}) | get_type_hints(phrase)
    return Sentence(text, phrase, inner, tuple(_pieces(text, hints)))


def _pieces(text: str, hints: dict[str, Any]) -> Iterable[Piece]:
    for found in _PIECE.finditer(text):
        if slot := found["slot"]:
            yield Slot(slot, reader_for(hints[slot]))
        elif option := found["option"]:
            yield Option(option)
        else:
            yield Literal(found["literal"])


def match(sentence: Sentence, words: Sequence[str]) -> Phrase | Miss:
    values: dict[str, Any] = {}
    at = 0
    skipped: tuple[str, ...] = ()  # options just before, which could have stood here as well
    for number, piece in enumerate(sentence.pieces):
        match piece:
            case Literal(word):
                if words[at : at + 1] != [word]:
                    return _miss(sentence, at, f"`{word}`", (*skipped, word))
                at += 1
            case Option(word):
                values[word] = words[at : at + 1] == [word]
                at += int(values[word])
            case Slot(field, reader):
                took = reader.take(words[at:], _stop(sentence.pieces[number + 1 :]))
                if took is None:
                    return _miss(sentence, at, reader.wants, (*skipped, *reader.choices))
                values[field], length = took
                at += length
        skipped = (piece.word,) if isinstance(piece, Option) and not values[piece.word] else ()
    if at < len(words):
        return _miss(sentence, at, "the end of the line", skipped)
    return sentence.build(values)


def _miss(sentence: Sentence, at: int, wants: str, choices: tuple[str, ...]) -> Miss:
    return Miss(sentence, at, wants, choices)


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
