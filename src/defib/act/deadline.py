"""How long something that was begun may last: a time of its own, and never longer than the mandate by which it is done."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

from defib.clock import Clock
from defib.model.mandate import Mandate
from defib.wire import may_leave

T = TypeVar("T")

LOOK_SECONDS = 0.5  # a mandate can be moved on, and can be taken back: it is looked at so often


@asynccontextmanager
async def within(seconds: float, mandate: Mandate, clock: Clock) -> AsyncIterator[asyncio.Timeout]:
    """Raises TimeoutError when either is over; whether it was this that ran out, the timeout says. Then nothing leaves any more."""
    loop = asyncio.get_running_loop()
    ends = clock.monotonic() + seconds
    async with asyncio.timeout(None) as limit:
        waiting: list[asyncio.TimerHandle] = []

        def look() -> None:
            left = min(ends, mandate.ends) - clock.monotonic()
            if left <= 0:
                limit.reschedule(loop.time())
            else:
                waiting[:] = [loop.call_later(min(left, LOOK_SECONDS), look)]

        look()
        asked = may_leave.set(lambda: clock.monotonic() < min(ends, mandate.ends))
        try:
            yield limit
        finally:
            may_leave.reset(asked)
            for handle in waiting:
                handle.cancel()


class StepByStep(Generic[T]):
    """What is awaited through this takes no further step when the mandate has ended; then it raises TimeoutError.

    A timer is not enough: a process that was frozen wakes with an answer and with its timers, all of them late, and goes
    on with the answer first. The next request would be sent under a mandate that is somebody else's by then.
    """

    def __init__(self, deed: Coroutine[Any, Any, T], mandate: Mandate, clock: Clock) -> None:
        self._deed = deed
        self._mandate = mandate
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        assert task is not None, "only a task takes steps"
        before = task.cancelling()
        error: BaseException | None = None
        is_stopped = False
        while True:
            try:
                waits_for = self._deed.send(None) if error is None else self._deed.throw(error)
            except StopIteration as end:
                result: T = end.value
                return result
            except asyncio.CancelledError:
                if is_stopped and task.cancelling() == before:  # else somebody else stopped it too, and waits for that
                    raise TimeoutError from None
                raise
            error = yield from _until_awake(waits_for)
            # Whoever is leaving already may tidy up.
            if not is_stopped and task.cancelling() == before and not self._mandate.holds(self._clock.monotonic()):
                is_stopped, error = True, asyncio.CancelledError()


def _until_awake(waits_for: Any) -> Generator[Any, Any, BaseException | None]:
    """How what was waited for has ended: with an error, which is for the one who waited, or without."""
    try:
        yield waits_for
    except BaseException as error:  # noqa: BLE001 - it is handed on as it is
        return error
    return None
