"""A watchdog that cuts the power of its hollow machine, unless it is broken."""

import asyncio
import math
from collections.abc import Callable
from contextvars import Context

from tests.simulation.self_fence.guarding import Guarding


class HollowDevice:
    """One for each node, over all its boots. It counts by the clock of its node, and whatever becomes of the agent."""

    def __init__(self, guarding: Guarding, rate: float, fed: Callable[[], None], fire: Callable[[], None]) -> None:
        self.kind = guarding.watchdog
        self.seconds = guarding.watchdog_seconds
        self.started_at = -math.inf  # when it was last armed or fed
        self._true_seconds = self.seconds / rate
        self._fed = fed
        self._fire = fire
        self._timer: asyncio.TimerHandle | None = None

    def feed(self) -> None:
        self._fed()
        self.start()

    def start(self) -> None:
        self.stop()
        self.started_at = asyncio.get_running_loop().time()
        # In no context: it counts on while its agent is frozen.
        self._timer = asyncio.get_running_loop().call_later(self._true_seconds, self._fire, context=Context())

    def disarm(self) -> bool:
        self.stop()
        return True

    def leave(self) -> None:
        """It counts on."""

    def stop(self) -> None:
        """As it does when its machine has no power."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
