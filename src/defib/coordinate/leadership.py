"""Who may act, and for what. Whoever asks gets mandates that end by themselves, or none."""

import asyncio
from collections.abc import Callable
from typing import NoReturn, Protocol

import structlog

from defib.coordinate.promotion import Led, Promotion
from defib.model.mandate import Mandate, Nobody, Permit
from defib.model.standing import Standing

log = structlog.get_logger("coordinate")

NOBODY = Nobody()
REST_SECONDS = 30.0  # whoever has stepped aside gives others so long


class Leadership(Protocol):
    @property
    def permit(self) -> Permit:
        """What we may do at this moment."""
        ...

    @property
    def leader(self) -> str:
        """Who leads, as far as we know; empty when nobody can say."""
        ...

    @property
    def standing(self) -> Standing:
        """Which part we play at this moment, for whoever watches us."""
        ...

    def not_alive(self) -> tuple[str, ...]:
        """Why this process should be restarted; nothing while all is well."""
        ...

    def looks_after(self, node: str) -> bool:
        """Whether what is done to this node is done by us, or will be when we lead."""
        ...

    def step_aside(self, why: str, node: str = "") -> bool:
        """Another replica is to act in our place, or for this node; nothing of that kind, if there is no reason.

        What was begun is ended first, and nothing is begun meanwhile. Whether it has come to that.
        """
        ...

    async def run(self) -> NoReturn:
        """Until cancelled. Being cancelled releases nothing: whoever still works would be overtaken."""
        ...

    async def release(self) -> None:
        """Let others go on. To be called when nothing that we began is under way any more, and `run` has ended."""
        ...


class Alone:
    """There is no other replica."""

    permit: Permit = Mandate("alone")
    leader = ""
    standing = Standing(leads=True)

    def not_alive(self) -> tuple[str, ...]:
        return ()

    def looks_after(self, node: str) -> bool:  # noqa: ARG002  after all of them
        return True

    def step_aside(self, why: str, node: str = "") -> bool:  # noqa: ARG002  nobody else would do it
        return False

    async def run(self) -> NoReturn:
        while True:
            await asyncio.Event().wait()

    async def release(self) -> None:
        return None


class Election(Protocol):
    """One of several is chosen, somehow. Whoever it is has a mandate, and hears of it by being called."""

    @property
    def mandate(self) -> Mandate | None: ...

    @property
    def leader(self) -> str: ...

    def not_alive(self) -> tuple[str, ...]: ...

    async def run(self) -> NoReturn: ...

    async def release(self) -> None: ...

    def rest(self, seconds: float) -> None: ...


class Single:
    """One replica leads in everything, the others stand by."""

    def __init__(self, led: Led, election: Callable[[Callable[[], None]], Election]) -> None:
        """`election` is given what to call when we begin or cease to lead, and when another one leads."""
        self._led = led
        self._promotion = Promotion(led)
        self._known: Mandate | None = None
        self._leaving: Mandate | None = None  # by which nothing new is begun
        self._left: Mandate | None = None  # which is being given back
        self._terms = 0
        self._election = election(self._changed)

    @property
    def permit(self) -> Permit:
        mandate = self._election.mandate
        if mandate is None or mandate in (self._leaving, self._left) or not self._promotion.is_good(mandate):
            return NOBODY
        return mandate

    @property
    def leader(self) -> str:
        return self._election.leader

    @property
    def standing(self) -> Standing:
        return Standing(leads=self.permit is not NOBODY, leader=self.leader, terms=self._terms)

    def not_alive(self) -> tuple[str, ...]:
        return self._election.not_alive()

    def looks_after(self, node: str) -> bool:  # noqa: ARG002  a standby knows everything that a leader must
        return True

    def step_aside(self, why: str, node: str = "") -> bool:  # noqa: ARG002  we lead in everything or in nothing
        mandate = self._election.mandate
        self._leaving = mandate if why else None
        if self._leaving is None or mandate is self._left or self._led.is_busy(self._leaving):
            return False
        log.info("another replica is to lead", why=why)
        self._left = mandate
        self._election.rest(REST_SECONDS)
        return True

    async def run(self) -> NoReturn:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._promotion.run(), name="promotion")
            await self._election.run()

    async def release(self) -> None:
        await self._election.release()

    def _changed(self) -> None:
        mandate, known = self._election.mandate, self._known
        self._known = mandate
        if mandate is not None and mandate is not known:
            log.info("leading", by=mandate.token)
            self._terms += 1
            self._promotion.gained(mandate)
        elif mandate is None and known is not None:
            log.info("no longer leading", by=known.token)
        self._led.notice()
