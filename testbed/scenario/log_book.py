"""What was seen while a story ran, in order, as a ship's log: for the person who has to find out why it failed."""

import msgspec

from defib.clock import Clock


class Entry(msgspec.Struct, frozen=True):
    at: float
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.at:8.1f}s  {self.subject:<28}  {self.text}"


class LogBook:
    """Seconds count from `start`; what came before it is at negative ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zero = clock.monotonic()
        self._entries: list[Entry] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(msgspec.structs.replace(entry, at=entry.at - self._zero) for entry in self._entries)

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self._zero

    def start(self) -> None:
        self._zero = self._clock.monotonic()

    def note(self, subject: str, text: str) -> None:
        self._entries.append(Entry(self._clock.monotonic(), subject, text))

    def __str__(self) -> str:
        return "\n".join(str(entry) for entry in self.entries)
