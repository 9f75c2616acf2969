"""An event loop whose time jumps instead of passing, and the Clock that belongs to it.

A day of a simulated cluster takes as long as its work takes. Nothing in such a run may wait for the outside world:
with no timer and nothing ready it could only wait for ever, so that is an error and not a hang.
"""

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2030, 1, 1, tzinfo=UTC)
LIMIT = timedelta(days=1)


class Stuck(RuntimeError):
    """The run waits for something that can no longer happen, or has gone on for longer than anybody meant."""


class _JumpingSelector(selectors.BaseSelector):
    """Asks the real selector without waiting; what asyncio wanted to wait is added to the virtual time."""

    def __init__(self, limit: float) -> None:
        self._real = selectors.DefaultSelector()
        self._limit = limit
        self.elapsed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            # Asking the kernel at every turn would cost more than a simulated request, and no run has outside IO.
            return []
        ready = self._real.select(0)
        if not ready:
            self.jump(timeout)
        return ready

    def jump(self, timeout: float | None) -> None:
        if timeout is None:
            raise Stuck(f"after {self.elapsed:.3f} s of virtual time nothing is ready and no timer is set")
        self.elapsed += timeout
        if self.elapsed > self._limit:
            raise Stuck(f"the run is still going after its limit of {self._limit:.0f} s of virtual time")

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, limit: timedelta = LIMIT) -> None:
        self._jumps = _JumpingSelector(limit.total_seconds())
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.elapsed


class VirtualClock:
    """The Clock of a virtual loop: one seed and one start give one run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int = 0, start: datetime = START) -> None:
        self._loop = loop
        self.monotonic: Callable[[], float] = loop.time  # asked at every turn, so without a step in between
        self._start = start
        self._random = random.Random(seed)  # noqa: S311 - a replayable run, not a secret
        self._read = (0.0, start)  # time stands still for as long as anybody works: most who ask get the same

    def now(self) -> datetime:
        elapsed = self._loop.time()
        if elapsed != self._read[0]:
            self._read = (elapsed, self._start + timedelta(seconds=elapsed))
        return self._read[1]

    def jitter(self, span: float) -> float:
        return self._random.random() * span


def run(
    main: Callable[[VirtualClock], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    start: datetime = START,
    limit: timedelta = LIMIT,
) -> T:
    """Like asyncio.run, in virtual time. `main` is handed the clock of the run."""

    def new_loop() -> asyncio.AbstractEventLoop:
        return VirtualLoop(limit)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main(VirtualClock(runner.get_loop(), seed, start)))
