"""Follows somebody else's election: a sidecar that says over HTTP who leads. Whatever is not a clear yes is a no."""

import asyncio
import math
from collections.abc import Callable
from typing import Any, NoReturn

import aiohttp
import msgspec
import structlog

from defib.clock import Clock
from defib.coordinate.election import Candidate
from defib.model.mandate import Mandate

log = structlog.get_logger("coordinate")

ANSWER_MAX = 65536
LASTS = 2.0  # retry periods: so long what was told counts, if nothing else is


class Follower:
    """`changed` is called when we begin or cease to lead, and when another one leads."""

    def __init__(self, url: str, me: Candidate, clock: Clock, changed: Callable[[], None]) -> None:
        self._url = url
        self._me = me
        self._clock = clock
        self._changed = changed
        self._leader = ""
        self._until = -math.inf
        self._mandate: Mandate | None = None
        self._terms = 0

    @property
    def mandate(self) -> Mandate | None:
        return self._mandate if self._mandate is not None and self._mandate.holds(self._clock.monotonic()) else None

    @property
    def leader(self) -> str:
        return self._leader if self._clock.monotonic() < self._until else ""

    def not_alive(self) -> tuple[str, ...]:
        return ()

    async def release(self) -> None:
        """There is nothing of ours to release: it is the sidecar's."""

    async def run(self) -> NoReturn:
        timeout = aiohttp.ClientTimeout(total=self._me.terms.retry_seconds)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            while True:
                began = self._clock.monotonic()
                self._heard(await self._ask(session), began)
                await asyncio.sleep(max(began + self._me.terms.retry_seconds - self._clock.monotonic(), 0.0))

    async def _ask(self, session: aiohttp.ClientSession) -> str:
        """The name; empty when there is no good answer in time."""
        try:
            async with session.get(self._url, allow_redirects=False) as response:
                text = await response.content.read(ANSWER_MAX)
                return _name_in(text) if response.status == 200 else ""  # noqa: PLR2004  the one good answer
        except (aiohttp.ClientError, TimeoutError) as error:
            log.warning("nobody says who leads", url=self._url, why=str(error) or type(error).__name__)
            return ""

    def _heard(self, leader: str, began: float) -> None:
        """Counted from when it was asked: by the time the answer is here, it may be old."""
        before = self.leader
        self._leader, self._until = leader, began + LASTS * self._me.terms.retry_seconds
        if leader == self._me.name and self.mandate is not None:
            self.mandate.ends = self._until
        else:
            self._end_term()
        if leader == self._me.name and self.mandate is None:
            self._terms += 1
            self._mandate = Mandate(f"{leader}/{self._terms}", self._until)
        if before != leader:
            self._changed()

    def _end_term(self) -> None:
        if self._mandate is not None:
            self._mandate.take_back()
        self._mandate = None


def _name_in(text: bytes) -> str:
    try:
        answer: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return ""
    name = answer.get("name") if isinstance(answer, dict) else None
    return name if isinstance(name, str) else ""
