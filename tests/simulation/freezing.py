"""A virtual event loop in which one replica can be frozen, as SIGSTOP does it: not a single step of it is taken.

Where asyncio would go by the address of an object, as in a set of tasks or among timers of one moment, this loop goes by
the order in which they were made: else a seed would not give the same run again.

Everything that a replica started carries its name in its context. While it is frozen, its steps and timers are put
aside; when it goes on, they are all there, late, as a process finds the world after a pause.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from datetime import timedelta
from itertools import count
from typing import Any

from defib.simulate.virtual_time import VirtualLoop

REPLICA: ContextVar[str] = ContextVar("replica", default="")


class _NumberedTask(asyncio.Task[Any]):
    """Sets of such tasks are in the same order in every run."""

    def __init__(self, work: Coroutine[Any, Any, Any], number: int, **more: Any) -> None:
        self._number = number  # before anybody asks for it
        super().__init__(work, **more)

    def __hash__(self) -> int:
        return self._number


class _NumberedTimer(asyncio.TimerHandle):
    __slots__ = ("_number",)

    def __init__(self, number: int, *more: Any) -> None:
        super().__init__(*more)
        self._number = number

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        mine, theirs = self.when(), other.when()
        return mine < theirs or (mine == theirs and isinstance(other, _NumberedTimer) and self._number < other._number)


class FreezingLoop(VirtualLoop):
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, limit: timedelta) -> None:
        super().__init__(limit)
        self._frozen: set[str] = set()
        self._steps: deque[asyncio.Handle] = deque()
        self._timers: list[asyncio.TimerHandle] = []
        self._numbers = count()
        self.set_task_factory(lambda loop, work, **more: _NumberedTask(work, next(self._numbers), loop=loop, **more))

    def call_at(  # type: ignore[override]  # whatever the callback takes
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _NumberedTimer(next(self._numbers), when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]  # as asyncio marks what is in its heap
        heapq.heappush(self._scheduled, timer)
        return timer

    def freeze(self, replica: str, seconds: float | None = None) -> None:
        """From the next turn of the loop on, until it is thawed, or for so long."""
        self._frozen.add(replica)
        if seconds is not None:
            self.call_later(seconds, self.thaw, replica, context=Context())  # else it would be put aside, too

    def thaw(self, replica: str) -> None:
        """It goes on where it was; what others put aside stays so."""
        self._frozen.discard(replica)
        steps, self._steps = self._steps, deque()
        timers, self._timers = self._timers, []
        self._ready.extend(steps)
        for timer in timers:
            heapq.heappush(self._scheduled, timer)

    def _run_once(self) -> None:
        if self._frozen:
            self._put_aside()
        super()._run_once()  # type: ignore[misc]  # the type stubs leave out what is private to asyncio

    def _put_aside(self) -> None:
        """Before a turn, since what a turn began with it runs."""
        for _ in range(len(self._ready)):
            step = self._ready.popleft()
            (self._steps if self._is_frozen(step) else self._ready).append(step)
        timers = [timer for timer in self._scheduled if self._is_frozen(timer)]
        if timers:
            self._timers += timers
            self._scheduled[:] = [timer for timer in self._scheduled if not self._is_frozen(timer)]
            heapq.heapify(self._scheduled)

    def _is_frozen(self, step: asyncio.Handle) -> bool:
        context = step._context  # type: ignore[attr-defined]  # nothing else says whose step it is
        return context.get(REPLICA, "") in self._frozen
