"""Follows somebody else's election: a sidecar that says over HTTP who leads. Whatever is not a clear yes is a no."""

import asyncio
import math
from collections.abc import Callable
from typing import NoReturn

import aiohttp
import msgspec
import structlog

from defib.clock import Clock
from defib.coordinate.election import Candidate, Terms
from defib.model.mandate import Mandate

log = structlog.get_logger("coordinate")

ANSWER_MAX = 65536
LASTS = 2.0  # retry periods: so long what was told counts, if nothing else is
HTTP_OK = 200


class _Answer(msgspec.Struct, frozen=True):
    name: str


class NotSaid(Exception):
    """Why there is no good answer."""


def lasts(terms: Terms) -> float:
    """For how many seconds what was told counts."""
    return LASTS * terms.retry_seconds


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
        self._trouble = ""  # as it was last told

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

    def rest(self, seconds: float) -> None:
        """The same."""

    async def run(self) -> NoReturn:
        timeout = aiohttp.ClientTimeout(total=self._me.terms.retry_seconds)
        async with aiohttp.ClientSession(
            timeout=timeout, trust_env=False, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            while True:
                began = self._clock.monotonic()
                self._heard(await self._ask(session), began)
                await asyncio.sleep(max(began + self._me.terms.retry_seconds - self._clock.monotonic(), 0.0))

    async def _ask(self, session: aiohttp.ClientSession) -> str:
        """The name; empty when nobody leads, or there is no good answer in time."""
        try:
            async with session.get(self._url, allow_redirects=False) as response:
                name = await _name_in(response)
        except (NotSaid, aiohttp.ClientError, OSError) as error:
            why = str(error) or type(error).__name__
            if why != self._trouble:  # the same every two seconds would hide everything else
                log.warning(
                    "nobody says who leads", by="--leader-url", why=why, advice="nothing is done until somebody does"
                )
            self._trouble = why
            return ""
        if self._trouble:
            log.info("it is said again who leads")
        self._trouble = ""
        return name

    def _heard(self, leader: str, began: float) -> None:
        """Counted from when it was asked: by the time the answer is here, it may be old."""
        before = (self._leader, self._mandate)
        self._leader, self._until = leader, began + lasts(self._me.terms)
        if leader != self._me.name or not leader:
            self._end_term()
        elif self.mandate is not None:
            self.mandate.ends = self._until
        else:
            self._end_term()
            self._terms += 1
            self._mandate = Mandate(f"{leader}/{self._terms}", self._until)
        if before != (self._leader, self._mandate):
            self._changed()

    def _end_term(self) -> None:
        if self._mandate is not None:
            self._mandate.take_back()
        self._mandate = None


async def _name_in(response: aiohttp.ClientResponse) -> str:
    """Raises NotSaid."""
    if response.status != HTTP_OK:
        raise NotSaid(f"it answers with {response.status}")
    text = bytearray()
    async for chunk in response.content.iter_any():
        text += chunk
        if len(text) > ANSWER_MAX:
            raise NotSaid(f"its answer has more than {ANSWER_MAX} bytes")
    try:
        return msgspec.json.decode(text.decode(), type=_Answer).name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotSaid("its answer is no JSON object with a name") from None
