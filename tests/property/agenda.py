"""What happens next in a world whose time nobody in it can see. Nothing sleeps: moments are taken in their order."""

import heapq
from collections.abc import Callable

Event = Callable[[float], None]


class Agenda:
    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Event]] = []
        self._count = 0

    def at(self, moment: float, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._heap, (moment, self._count, event))

    def run(self, until: float) -> None:
        while self._heap and self._heap[0][0] <= until:
            moment, _, event = heapq.heappop(self._heap)
            event(moment)
