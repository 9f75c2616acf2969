"""One value of an object as it came, and the path by which a person finds it.

Nothing here raises, whatever the value is: what is wrong is noted in a sentence that begins with the path, and reading
goes on, so that a person hears of all mistakes at once. The sentences go into a status, so they are few, short and
printable.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

MOST_PROBLEMS = 10
LONGEST_PROBLEM = 300
_LEGIBLE = 40  # of a text that makes no sense, so many characters are repeated to whoever wrote it
_SHAPES = {
    bool: "true or false",
    int: "a number",
    float: "a number with a fraction",
    str: "a text",
    list: "a list",
    dict: "a map",
}


class Word(msgspec.Struct, frozen=True):
    """A text that must look like something. `says` completes the sentence: it must be …"""

    says: str
    pattern: re.Pattern[str]
    longest: int

    def complaint(self, text: str) -> str:
        """What is wrong with a text; empty when nothing is."""
        if len(text) > self.longest:  # first, because it also bounds how long the pattern can search
            return f"is too long; at most {self.longest} characters"
        return "" if self.pattern.fullmatch(text) else f"must be {self.says}, not {text[:_LEGIBLE]!r}"


class Problems:
    """What is wrong with an object, in the order in which it was found."""

    def __init__(self) -> None:
        self._sentences: list[str] = []

    def note(self, path: str, what: str) -> None:
        if len(self._sentences) < MOST_PROBLEMS:
            self._sentences.append(_legible(f"{path}: {what}"))

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self._sentences)


class Field:
    """Absent and null are the same, as they are to the API server."""

    def __init__(self, path: str, value: Any, problems: Problems) -> None:
        self.path = path
        self.value = value
        self._problems = problems

    def __getitem__(self, name: str) -> "Field":
        """A field of this one; absent when this is no map."""
        value = self.value.get(name) if isinstance(self.value, dict) else None
        return Field(f"{self.path}.{name}", value, self._problems)

    @property
    def is_given(self) -> bool:
        return self.value is not None

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    def wrong(self, what: str) -> None:
        self._problems.note(self.path, what)

    def is_a(self, shape: type) -> bool:
        """Whether it has this shape; noted when not. True and False are no numbers."""
        if isinstance(self.value, shape) and isinstance(self.value, bool) == (shape is bool):
            return True
        got = _SHAPES.get(type(self.value), "something else")
        self.wrong(f"must be {_SHAPES[shape]}, not {got}" if self.is_given else "must be given")
        return False

    def entries(self, most: int) -> list["Field"]:
        """What the list holds; nothing when there is no list, or one that is too long to look at."""
        if not self.is_given or not self.is_a(list) or not self._is_short(most):
            return []
        return [Field(f"{self.path}[{place}]", value, self._problems) for place, value in enumerate(self.value)]

    def members(self, most: int) -> list[tuple[str, "Field"]]:
        """What the map holds, under keys that somebody chose; nothing when there is no map, or one that is too large."""
        if not self.is_given or not self.is_a(dict) or not self._is_short(most):
            return []
        return [(key, self._member(key)) for key in self.value]

    def member(self, key: str, most: int) -> list[tuple[str, "Field"]]:
        """The one under this key, if it is there, without a look at the others."""
        if not self.is_given or not self.is_a(dict) or not self._is_short(most):
            return []
        return [(key, self._member(key))] if key in self.value else []

    def _member(self, key: str) -> "Field":
        return Field(f"{self.path}[{key[:_LEGIBLE]}]", self.value[key], self._problems)

    def _is_short(self, most: int) -> bool:
        if len(self.value) > most:
            self.wrong(f"has {len(self.value)} entries; at most {most}")
        return len(self.value) <= most

    def text(self, word: Word) -> str:
        """The text; empty when it is wrong."""
        if not self.is_a(str):
            return ""
        complaint = word.complaint(self.value)
        if complaint:
            self.wrong(complaint)
        return "" if complaint else str(self.value)

    def whole(self, least: int, most: int) -> int | None:
        """The number; None when it is wrong."""
        if not self.is_a(int):
            return None
        if not least <= self.value <= most:
            self.wrong(f"must be from {least} to {most}")
            return None
        return int(self.value)

    def flag(self) -> bool:
        return self.is_given and self.is_a(bool) and bool(self.value)


def refuse_repeats(fields: Sequence[Field], keys: Sequence[object]) -> None:
    """Of several fields with the same key, all but the first are wrong. None is the key of a field that is wrong already."""
    seen = set()
    for field, key in zip(fields, keys, strict=True):
        if key is not None and key in seen:
            field.wrong(f"{key} is there already")
        seen.add(key)


def _legible(text: str) -> str:
    printable = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[: LONGEST_PROBLEM + 1])
    return printable if len(printable) <= LONGEST_PROBLEM else f"{printable[: LONGEST_PROBLEM - 1]}…"
