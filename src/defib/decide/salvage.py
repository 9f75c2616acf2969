"""Reads back what we, or another operator before us, once wrote, as far as it makes sense: what does not, was not said.

It never raises. What remembers the past must not be lost as a whole because one part of it is garbled.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec

S = TypeVar("S", bound=msgspec.Struct)
Reader = Callable[[object], Any]

# Adding a duration to a time outside of these could leave the calendar.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_LARGEST = 2**63  # what a JSON encoder, and the API server, still takes for a whole number


def salvage(value: object, kind: type[S]) -> S | None:
    """None when it is no such thing at all, or lacks a part without which it means nothing."""
    if not isinstance(value, dict):
        return None
    found = {}
    for name, key, read, required in _fields(kind):
        part = None if (said := value.get(key)) is None else read(said)
        if part is not None:
            found[name] = part
        elif required:
            return None
    return kind(**found)


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Reader, bool], ...]:
    """Name, name on the wire, how it is read, and whether there is no default."""
    return tuple(
        (field.name, field.encode_name, _reader(_without_none(field.type)), field.required)
        for field in msgspec.structs.fields(kind)
    )


def _without_none(wanted: Any) -> Any:
    if not isinstance(wanted, UnionType):
        return wanted
    return next(option for option in get_args(wanted) if option is not NoneType)


def _reader(wanted: Any) -> Reader:
    """It gives None for what makes no sense."""
    if get_origin(wanted) is list:
        (kind,) = get_args(wanted)
        return partial(_listed, read=_reader(kind))
    return partial(salvage if issubclass(wanted, msgspec.Struct) else _scalar, kind=wanted)


def _listed(value: object, read: Reader) -> list[Any] | None:
    if not isinstance(value, list):
        return None
    return [part for entry in value if entry is not None and (part := read(entry)) is not None]


def _scalar(value: object, kind: Any) -> Any:
    try:
        read = msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None
    if isinstance(read, datetime):
        return read.astimezone(UTC) if read.tzinfo and _EARLIEST <= read < _LATEST else None
    return None if isinstance(read, int) and abs(read) >= _LARGEST else read
