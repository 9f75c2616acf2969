"""Blocking work in threads that nobody has to wait for.

A thread cannot be ended from outside. One that hangs is left behind: its caller goes on at its deadline, its place gets
no second one while it lives, and it is counted. There is a bound for all of them together. They are daemons, so that
none can hold up the end of the process; the pools of the standard library would.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from defib.power.calls import Denied

THREADS_MAX = 128

T = TypeVar("T")


class Threads:
    def __init__(self, *, limit: int = THREADS_MAX) -> None:
        self._limit = limit
        self._running: dict[str, threading.Thread] = {}
        self._left_behind: set[str] = set()

    @property
    def left_behind(self) -> int:
        """How many run on though nobody waits for them any more."""
        return len(self._left_behind & set(self._running))

    async def run(self, place: str, work: Callable[[], T]) -> T:
        """What `work` returns or raises. Raises Denied when it cannot be begun."""
        if place in self._running:
            raise Denied("nothing was sent: an earlier call to it hangs")
        if len(self._running) >= self._limit:
            raise Denied(f"nothing was sent: {self._limit} earlier calls to other machines hang")
        answer: Future[T] = Future()
        answer.set_running_or_notify_cancel()  # from now on it cannot be cancelled, as little as the thread
        thread = threading.Thread(target=self._carry_out, args=(place, work, answer), name=place, daemon=True)
        self._left_behind = {one for one in self._left_behind if one in self._running}  # the others have ended since
        self._running[place] = thread
        thread.start()
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            self._left_behind.add(place)
            raise

    def _carry_out(self, place: str, work: Callable[[], T], answer: Future[T]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again for whoever waits, in the event loop
            del self._running[place]
            answer.set_exception(error)
        else:
            del self._running[place]
            answer.set_result(result)
