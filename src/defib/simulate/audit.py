"""Who asked for what, and what the server said: a bounded record that tests read."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime

import msgspec

_WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One request and its answer. Status 0 means that the client got none."""

    client: str
    verb: str
    path: str
    status: int
    time: datetime

    @property
    def is_write(self) -> bool:
        return self.verb in _WRITES


class Audit:
    def __init__(self, limit: int) -> None:
        self._asked: deque[Asked] = deque(maxlen=limit)

    def note(self, asked: Asked) -> None:
        self._asked.append(asked)

    def __iter__(self) -> Iterator[Asked]:
        return iter(self._asked)

    def writes(self, client: str | None = None) -> list[Asked]:
        return [a for a in self._asked if a.is_write and client in (None, a.client)]
