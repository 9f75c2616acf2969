"""From having a mandate to using it: first we must know what its last holder did with it.

A cache that is kept warm by a watch is a moment behind. Whoever has just been given a mandate therefore looks once more
at everything that others may have written under it, and only then does the first thing.
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
        """Know the cluster as it is now, or as it became later. Raises TimeoutError."""
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
        while True:
            await self._asked.wait()
            self._asked.clear()
            new, self._new = self._new, []
            try:
                await self._led.catch_up()
            except TimeoutError:
                log.warning("not caught up yet", advice="nothing is done before we know what was done last")
                for mandate in _lasting(new):
                    self.gained(mandate)
                continue
            self._good = [*_lasting(self._good), *_lasting(new)]
            self._led.notice()


def _lasting(mandates: list[Mandate]) -> list[Mandate]:
    return [one for one in mandates if not one.is_taken_back]
