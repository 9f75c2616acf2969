"""How many of something: a number, or a share of all."""

import re

import msgspec

_TEXT = re.compile(r"(100|[0-9]{1,2})%|[0-9]{1,10}")
PERCENT = 100
LARGEST = 10**9
_LEGIBLE = 40  # of a text that makes no sense, so many characters are repeated to whoever wrote it


class Amount(msgspec.Struct, frozen=True):
    value: int
    is_percent: bool = False

    def of(self, total: int) -> int:
        """Shares are rounded up, as upstream does: 49 % of 3 is 2."""
        return -(-total * self.value // PERCENT) if self.is_percent else self.value

    def __str__(self) -> str:
        return f"{self.value}%" if self.is_percent else str(self.value)


def read_amount(value: object) -> Amount:
    """`8`, `"8"` and `"49%"` mean what a person expects. Raises ValueError, worded to follow the name of the field."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(value)
    if not isinstance(value, str) or not _TEXT.fullmatch(value):
        # Only a text is repeated: a list may be nested deeper than it could be printed.
        shown = f", not {value[:_LEGIBLE]!r}" if isinstance(value, str) else ""
        raise ValueError(f'must be a number or a share from 0% to 100%, like 2, "2" or "40%"{shown}')
    return Amount(int(value[:-1]), is_percent=True) if value.endswith("%") else _number(int(value))


def _number(value: int) -> Amount:
    if value < 0:
        raise ValueError("must not be negative")
    if value > LARGEST:
        raise ValueError(f"must not be more than {LARGEST}")
    return Amount(value)
