"""A virtual event loop in which one replica can be frozen, as SIGSTOP does it: not a single step of it is taken.

Where asyncio would go by the address of an object, as in a set of tasks or among timers of one moment, this loop goes by
the order in which they were made: else a seed would not give the same run again.

Everything that a replica started carries its name in its context. While it is frozen, its steps and timers are put
aside; when it goes on, they are all there, late, as a process finds the world after a pause.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from defib.simulate.virtual_time import VirtualLoop

REPLICA: ContextVar[str] = ContextVar("replica", default="")
TURNS_MOST = 100_000  # in one moment: where there are more, somebody tries without a pause, and the day would never end


class TimeStandsStill(Exception):
    """Somebody is busy without end in one moment of the day."""


class _NumberedTask(asyncio.Task[Any]):
    """Sets of such tasks are in the same order in every run."""

    def __init__(self, work: Coroutine[Any, Any, Any], number: int, **more: Any) -> None:
        self._number = number  # before anybody asks for it
        super().__init__(work, **more)

    def __hash__(self) -> int:
        return self._number


class _Step:
    """A handle without what only debugging needs. Its names are asyncio's, which puts some of its own beside it."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")
    _source_traceback = None

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None  # it may stay in line for long, and what it holds need not
        self._args = ()

    def cancelled(self) -> bool:
        return self._cancelled


Timer = tuple[float, int, _Step]  # when, and which of those that are due then


class FreezingLoop(VirtualLoop):
    """Its turn is asyncio's own without what no virtual run needs: that cost as much as the work of a small cluster."""

    _ready: deque[_Step]
    _stopping: bool
    _clock_resolution: float

    def __init__(self, limit: timedelta) -> None:
        super().__init__(limit)
        self._frozen: set[str] = set()
        self._steps: deque[_Step] = deque()
        self._due: list[Timer] = []  # a heap, in place of the one that asyncio has
        self._timers: list[Timer] = []
        self._numbers = count()
        self._moment, self._turns = 0.0, 0
        self.rates: dict[str, float] = {}  # of replicas whose clock is fast or slow: their waits are short or long
        self.set_task_factory(lambda loop, work, **more: _NumberedTask(work, next(self._numbers), loop=loop, **more))

    def call_at(  # type: ignore[override]  # whatever the callback takes
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Step:
        if self.rates and context is None and (rate := self.rates.get(REPLICA.get())) is not None:
            when = self.time() + (when - self.time()) / rate
        timer = _Step(callback, args, context)
        heappush(self._due, (when, next(self._numbers), timer))
        return timer

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Step:
        step = _Step(callback, args, context)
        self._ready.append(step)
        return step

    def _asyncgen_firstiter_hook(self, agen: object) -> None:
        """Nobody need remember them: a run closes what it opens, and each request opens several."""

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
            heappush(self._due, timer)

    def _run_once(self) -> None:
        if self._frozen:
            self._put_aside()
        due, ready = self._due, self._ready
        while due and due[0][2]._cancelled:
            heappop(due)
        if not ready and not self._stopping:
            # Without a look at the outside world: nothing of a simulated day is there.
            self._jumps.jump(max(0.0, due[0][0] - self._jumps.elapsed) if due else None)
        now = self.time() + self._clock_resolution
        self._count_turn(now)
        while due and due[0][0] < now:
            ready.append(heappop(due)[2])
        for _ in range(len(ready)):  # what these begin has its turn in the next one
            step = ready.popleft()
            if step._callback is None:  # cancelled
                continue
            try:
                step._context.run(step._callback, *step._args)
            except Exception as error:  # noqa: BLE001 - as asyncio has it: whoever called it is not there to hear of it
                self.call_exception_handler({"message": f"in {step._callback}", "exception": error})

    def _count_turn(self, now: float) -> None:
        self._turns = self._turns + 1 if now == self._moment else 0
        self._moment = now
        if self._turns > TURNS_MOST:
            self._turns = 0  # whoever tidies up has turns left
            raise TimeStandsStill(f"at {now:.3f} s: {[step._callback for step in self._ready][:3]}")

    def _put_aside(self) -> None:
        """Before a turn, since what a turn began with it runs."""
        for _ in range(len(self._ready)):
            step = self._ready.popleft()
            (self._steps if self._is_frozen(step) else self._ready).append(step)
        timers = [timer for timer in self._due if self._is_frozen(timer[2])]
        if timers:
            self._timers += timers
            self._due[:] = [timer for timer in self._due if not self._is_frozen(timer[2])]
            heapify(self._due)

    def _is_frozen(self, step: _Step) -> bool:
        return step._context.get(REPLICA, "") in self._frozen
