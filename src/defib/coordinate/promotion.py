"""From having a mandate to using it: first we must know what its last holder did with it.

A cache that is kept warm by a watch is a moment behind. Whoever has just been given a mandate therefore looks once more
at everything that others may have written under it, and only then does the first thing. What cannot be seen in time is
out of sight from then on, and whatever depends on it waits; the rest goes on.
"""

import asyncio
from typing import NoReturn, Protocol

import structlog

from defib.model.mandate import Mandate

log = structlog.get_logger("coordinate")


class Led(Protocol):
    """What is led, as it is seen from here."""

    def notice(self) -> None:
        """Who may do what has changed."""
        ...

    async def catch_up(self) -> None:
        """Know the cluster as it is now, or as it became later, or that some of it is out of sight; within seconds."""
        ...

    def is_busy(self, mandate: Mandate) -> bool:
        """Whether something that was begun by this mandate is still under way."""
        ...


class Promotion:
    def __init__(self, led: Led) -> None:
        self._led = led
        self._new: list[Mandate] = []
        self._good: list[Mandate] = []
        self._asked = asyncio.Event()

    def gained(self, mandate: Mandate) -> None:
        self._new.append(mandate)
        self._asked.set()

    def is_good(self, mandate: Mandate) -> bool:
        """Whether we have caught up since we got it."""
        return any(mandate is one for one in self._good)

    async def run(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            await self._asked.wait()
            self._asked.clear()
            new, self._new = self._new, []
            began = loop.time()
            await self._led.catch_up()
            kept = _lasting(new)
            self._good = [*_lasting(self._good), *kept]
            if kept:
                log.info("caught up, acting", seconds=round(loop.time() - began, 2))
            self._led.notice()


def _lasting(mandates: list[Mandate]) -> list[Mandate]:
    return [one for one in mandates if not one.is_taken_back]
