"""Which news is worth an Event: the same is told once in a while, and of very much of one sort only the beginning."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from defib.model.action import TellEvent

AGAIN_AFTER_SECONDS = 10.0
TOLD_MAX = 1000
MANY = 50
TOLD_OF_MANY = 20


class News:
    """All moments are of the monotonic clock."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def worth_telling(self, events: Iterable[TellEvent], now: float) -> list[TellEvent]:
        """What is to be told of these, which counts as told then, as does what is only told as a number."""
        fresh = {}
        for event in events:
            if now - self._told.get(event.key, float("-inf")) >= AGAIN_AFTER_SECONDS:
                fresh[event.key] = event
        for key in fresh:
            self._told.pop(key, None)  # so that the oldest stays in front
            self._told[key] = now
        while len(self._told) > TOLD_MAX:
            del self._told[next(iter(self._told))]
        return _shortened(list(fresh.values()))

    def not_told(self, event: TellEvent) -> None:
        """It did not work out after all, so it may be asked for again at any time."""
        self._told.pop(event.key, None)


def _shortened(events: list[TellEvent]) -> list[TellEvent]:
    """Hundreds of nodes that fail at once are one incident; the status of the check names them all."""
    many = {sort for sort, count in Counter(map(_sort, events)).items() if count > MANY}
    seen: Counter[tuple[str, ...]] = Counter()
    last: dict[tuple[str, ...], TellEvent] = {}
    told = []
    for event in events:
        sort = _sort(event)
        seen[sort] += 1
        last[sort] = event
        if sort not in many or seen[sort] <= TOLD_OF_MANY:
            told.append(event)
    rest = [
        msgspec.structs.replace(event, message=f"and {seen[sort] - TOLD_OF_MANY} more nodes", node="")
        for sort, event in last.items()
        if sort in many
    ]
    return told + rest


def _sort(event: TellEvent) -> tuple[str, ...]:
    return event.namespace, event.check, event.reason
