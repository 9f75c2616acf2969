"""The version that an API server tells: `{"major": "1", "minor": "28+"}`."""

import re

import msgspec

_DIGITS = re.compile(r"[0-9]{1,9}")


class _Told(msgspec.Struct, frozen=True):
    major: str = ""
    minor: str = ""


def read_version(answer: bytes) -> tuple[int, int]:
    """Vendors put a plus sign or more behind the number. Zero where there is none. Raises msgspec.DecodeError."""
    told = msgspec.json.decode(answer, type=_Told)
    return _number(told.major), _number(told.minor)


def _number(text: str) -> int:
    found = _DIGITS.match(text)
    return int(found[0]) if found else 0
