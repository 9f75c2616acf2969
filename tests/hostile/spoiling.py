"""Takes an object that is right and puts something into it that is not. The same seed spoils it in the same way."""

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import defib.decide
import defib.model

Object = dict[str, Any]

STEERS = "\x1b]0;owned\x07\x1b[2J\u202e\u2066\r\n"
MARKUP = "<img src=x onerror=alert(1)>'\"&{{7*7}}${jndi:x}"
HOSTILE_TEXTS = (
    "",
    " ",
    STEERS,
    MARKUP,
    "\x00",
    "../../../etc/passwd",
    "n1",
    "n5",
    "x" * 5_000,
    "é" * 300,
    "0",
    "-1",
    "1e999",
    "NaN",
    "²",
    "٣",
    "101%",
    "-5%",
    "0%",
    "99999999999999999999%",
    "-1s",
    "0s",
    "9223372036854775807h",
    "999999999999999999999999h",
    "1h1h1h",
    "true",
    "null",
    "[0-2]",
    "[9-1]",
    "{",
    '{"nodeID": 7}',
    "[" * 2_000,
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "2030-01-01T00:00:00.123456789Z",
    "2030-02-31T00:00:00Z",
    "tomorrow",
)
HOSTILE_NUMBERS = (0, 1, -1, 2, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, 5e-324)
MUCH = 300  # entries of a list, parts of a map
DEEP = 400


def hostile(chance: Random) -> Any:
    return chance.choice(_HOSTILE)(chance)


def _deep(chance: Random) -> Any:
    found: Any = hostile(chance) if chance.random() < 0.5 else chance.choice(HOSTILE_TEXTS)
    for _ in range(chance.choice((3, DEEP))):
        found = [found] if chance.random() < 0.5 else {chance.choice(words()): found}
    return found


@cache
def words() -> tuple[str, ...]:
    """Every word that our deciding code knows, from its own text: what is read somewhere is worth to be written there."""
    found: set[str] = set()
    for package in (defib.decide, defib.model):
        for root in package.__path__:
            for file in sorted(Path(root).rglob("*.py")):
                constants = (
                    one.value for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Constant)
                )
                found.update(one for one in constants if isinstance(one, str) and re.fullmatch(r"[\w./-]{2,60}", one))
    return tuple(sorted(found))


_HOSTILE: tuple[Callable[[Random], Any], ...] = (
    *(lambda chance: chance.choice(HOSTILE_TEXTS),) * 4,
    *(lambda chance: chance.choice(HOSTILE_NUMBERS),) * 2,
    lambda chance: chance.choice((None, True, False)),
    lambda chance: [hostile(chance) for _ in range(chance.randrange(4))],
    lambda chance: {chance.choice(words()): hostile(chance) for _ in range(chance.randrange(4))},
    lambda chance: {chance.choice(HOSTILE_TEXTS): hostile(chance)},
    lambda chance: [chance.choice(HOSTILE_TEXTS)] * MUCH,
    _deep,
)


def spoil(item: Object, chance: Random) -> list[str]:
    """In place; what was done, for whoever has to understand it."""
    return [_spoil_once(item, chance) for _ in range(chance.choice((1, 1, 1, 2, 3, 6)))]


def _spoil_once(item: Object, chance: Random) -> str:
    place, path = _somewhere(item, chance)
    key = _key(place, chance)
    was = place[key] if isinstance(place, list) else place.get(key)
    match chance.randrange(10):
        case 0 if isinstance(place, dict):
            place.pop(key, None)
            return f"{path}.{key} taken away"
        case 1 if isinstance(place, dict):
            word, value = chance.choice(words()), hostile(chance)
            place[word] = value
            return f"{path}.{word} = {_short(value)}"
        case 2 if isinstance(was, list):
            place[key] = was * (MUCH // max(1, len(was)))
            return f"{path}.{key} repeated"
        case 3 if isinstance(was, dict):
            place[key] = [was]
            return f"{path}.{key} in a list"
        case _:
            place[key] = value = hostile(chance)
            return f"{path}.{key} = {_short(value)}"


def _key(place: Any, chance: Random) -> Any:
    if isinstance(place, list):
        return chance.randrange(len(place))
    return chance.choice(sorted(place)) if place else chance.choice(words())


def _somewhere(item: Object, chance: Random) -> tuple[Any, str]:
    """A map or a list that is not empty, at any depth. Of the metadata, mostly what the API server lets anybody write."""
    place: Any = item
    path = ""
    while True:
        inner = list(place.items() if isinstance(place, dict) else enumerate(place))
        deeper = [(key, one) for key, one in inner if isinstance(one, dict) or (isinstance(one, list) and one)]
        if path == ".metadata" and chance.random() < 0.9:
            deeper = [(key, one) for key, one in deeper if key in ("annotations", "labels")]
            if not deeper:
                place, path = item, ""
                continue
        if not deeper or (path and chance.random() < 0.3):
            return place, path
        key, place = chance.choice(deeper)
        path += f".{key}"


def _short(value: Any) -> str:
    try:
        return repr(value)[:120]
    except RecursionError:
        return "something very deep"
