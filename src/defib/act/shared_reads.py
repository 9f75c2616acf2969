"""Many actions at once that must all see the same object as it is now: one read answers all who asked before it began.

That is as good as a read for each. What an action needs to know is how the object is after the action was decided and
begun, and a read that begins later still tells just that. An answer to an earlier read is never given to anybody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")


class _Queue:
    """Who waits for one object. The answer is kept for them alone."""

    def __init__(self) -> None:
        self.one_at_a_time = asyncio.Lock()
        self.waiting = 0
        self.began = -1
        self.answer: Any = None


class SharedReads:
    def __init__(self) -> None:
        self._queues: dict[Hashable, _Queue] = {}
        self._order = count()

    async def ask(self, what: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """What a read says that begins after now. A read that raises answers nobody but the one who made it."""
        asked = next(self._order)
        queue = self._queues.setdefault(what, _Queue())
        queue.waiting += 1
        try:
            await asyncio.sleep(0)  # the others who ask in this moment are to be answered too
            async with queue.one_at_a_time:
                if queue.began < asked:
                    began = next(self._order)
                    answer = await read()
                    queue.began, queue.answer = began, answer  # together: a read that was given up is no answer
                found: T = queue.answer
                return found
        finally:
            queue.waiting -= 1
            if not queue.waiting:
                del self._queues[what]
