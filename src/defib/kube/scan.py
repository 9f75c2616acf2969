"""Takes JSON apart without reading what is in it, and without descending: for answers of which some part is bad.

Nesting without end, wrong text encoding or a wrong type somewhere must cost one object, not the whole answer. This is
slow, and used only after the decoder has refused.
"""

import re
from collections.abc import Iterator

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_SCALAR = re.compile(_STRING + rb"|[^\s,\]}\"]+", re.DOTALL)
_KEY = re.compile(rb"[\s,]*(" + _STRING + rb")\s*:\s*", re.DOTALL)
_GAP = re.compile(rb"[\s,]*")


def members(body: bytes) -> dict[bytes, bytes]:
    """The members of an object, each value as it was written. Raises ValueError when it is no object."""
    found: dict[bytes, bytes] = {}
    place = _open(body, b"{")
    while key := _KEY.match(body, place):
        place = _end(body, key.end())
        found[key[1][1:-1]] = body[key.end() : place]
    _close(body, place, b"}")
    return found


def elements(body: bytes) -> Iterator[bytes]:
    """The elements of an array, each as it was written. Raises ValueError when it is no array."""
    place = _after_gap(body, _open(body, b"["))
    while body[place : place + 1] not in (b"]", b""):
        end = _end(body, place)
        yield body[place:end]
        place = _after_gap(body, end)
    _close(body, place, b"]")


def _open(body: bytes, bracket: bytes) -> int:
    start = _after_gap(body, 0)
    if body[start : start + 1] != bracket:
        raise ValueError(f"expected {bracket.decode()} at the beginning")
    return start + 1


def _close(body: bytes, place: int, bracket: bytes) -> None:
    end = _after_gap(body, place)
    if body[end : end + 1] != bracket:
        raise ValueError(f"expected {bracket.decode()} at byte {end}")


def _after_gap(body: bytes, place: int) -> int:
    gap = _GAP.match(body, place)
    assert gap is not None, "it matches nothing at all, too"
    return gap.end()


def _end(body: bytes, begin: int) -> int:
    """Where the value that begins here ends."""
    if body[begin : begin + 1] not in (b"{", b"["):
        scalar = _SCALAR.match(body, begin)
        if scalar is None:
            raise ValueError(f"expected a value at byte {begin}")
        return scalar.end()
    depth = 0
    for token in _TOKEN.finditer(body, begin):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    raise ValueError(f"what begins at byte {begin} does not end")
