"""How many machines of a check may be unhealthy at once before nothing is done about any: that may be our mistake."""

import re

import msgspec

from defib.decide.field import Field
from defib.model.amount import PERCENT

_TEXT = re.compile(r"(-?[0-9]{1,9})(%?)")
_LARGEST = 10**9


class Most(msgspec.Struct, frozen=True):
    """maxUnhealthy: a number, or a share of all, rounded down. A negative one means none."""

    value: int = PERCENT
    is_percent: bool = True

    def of(self, total: int) -> int:
        most = total * self.value // PERCENT if self.is_percent else self.value
        return max(most, 0)

    def __str__(self) -> str:
        return f"{self.value}%" if self.is_percent else str(self.value)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Whatever is not known to be healthy counts as unhealthy: what is being remediated, too."""

    expected: int
    healthy: int
    most: Most

    @property
    def unhealthy(self) -> int:
        return self.expected - self.healthy

    @property
    def left(self) -> int:
        """So many more could become unhealthy."""
        return max(self.most.of(self.expected) - self.unhealthy, 0)

    @property
    def is_exceeded(self) -> bool:
        return self.unhealthy > self.most.of(self.expected)

    @property
    def message(self) -> str:
        return f"{self.unhealthy} of {self.expected} machines are not healthy, and maxUnhealthy is {self.most}"


def read_most(field: Field) -> Most:
    """Not given, it is all of them. What makes no sense is noted, and must not be taken for a number."""
    value = field.value
    if value is None:
        return Most()
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST:
        return Most(value, is_percent=False)
    found = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        field.wrong('must be a number or a share, like 2, "2" or "40%"')
        return Most(0)
    return Most(int(found[1]), is_percent=bool(found[2]))
