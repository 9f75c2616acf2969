"""What is told outside the cluster, on its way: kept in order, tried again, bounded, and never waited for.

Whoever has something to tell puts it in and goes on. One thing is sent at a time. A place that is out of reach is tried
until what waits is too old to be of use; one that answers with an error gets the same thing only a few times, so that
nothing holds up what comes after it for ever. Where it goes may be a secret, and is never logged.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NoReturn

import msgspec
import structlog

from defib.clock import Clock
from defib.power.calls import Trouble
from defib.power.https import Answer, Https, Question, TlsOptions, url_of
from defib.telemetry.metrics import Metrics

log = structlog.get_logger("outbox")

WAITING_MAX = 1000
PAUSE_ASKED_MAX_SECONDS = 300.0
ASKS_FOR_LATER = frozenset({408, 425, 429})
TOO_MANY = 429
SERVER_FAILED = 500


class NoAddress(Exception):
    """It is not known where to send it. `str()` says why, without the address."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    answer_seconds: float = 10.0
    pause_seconds: float = 1.0  # after the first attempt; it doubles with each
    pause_max_seconds: float = 60.0
    attempts_max: int = 6  # of one that is answered with an error
    give_up_seconds: float = 3600.0  # what is older helps nobody


class Letter(msgspec.Struct, frozen=True):
    body: bytes
    put_at: float  # monotonic


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where things go. `name` is its name in logs and metrics; `address` raises NoAddress."""

    name: str
    content_type: str
    address: Callable[[], Awaitable[str]]


class _NotNow(msgspec.Struct, frozen=True):
    """`is_about_it`: the other side has seen it, and may never take it."""

    why: str
    asked_seconds: float = 0.0
    is_about_it: bool = False


class _Never(msgspec.Struct, frozen=True):
    why: str


class Outbox:
    def __init__(self, place: Place, clock: Clock, metrics: Metrics, patience: Patience | None = None) -> None:
        self._place = place
        self._clock = clock
        self._metrics = metrics
        self._patience = patience or Patience()
        self._https = Https()
        self._waiting: deque[Letter] = deque()
        self._arrived = asyncio.Event()
        self._trouble = ""  # as it was last told
        self._overflows = False  # which was told, and lasts until nothing waits any more
        metrics.delivers(place.name)

    def put(self, body: bytes) -> None:
        """At once. When too much waits, the oldest that is not on its way is given up: the newest says how things are."""
        if len(self._waiting) >= WAITING_MAX:
            del self._waiting[1]
            self._count("dropped")
            if not self._overflows:
                self._overflows = True
                self._warn("too much waits to be told")
        self._waiting.append(Letter(body, self._clock.monotonic()))
        self._metrics.to_deliver(self._place.name, len(self._waiting))
        self._arrived.set()

    async def run(self) -> NoReturn:
        try:
            while True:
                while not self._waiting:
                    self._arrived.clear()
                    await self._arrived.wait()
                await self._deliver(self._waiting[0])
        finally:
            if self._waiting:
                log.warning(
                    "not told any more, because this replica ends", to=self._place.name, lost=len(self._waiting)
                )

    async def _deliver(self, letter: Letter) -> None:
        answered = attempt = 0
        while True:
            match await self._attempt(letter):
                case None:
                    self._end("sent")
                    return self._told("")
                case _Never(why):
                    self._end("failed")
                    return self._told(why)
                case _NotNow() as later:
                    attempt += 1
                    answered += later.is_about_it
                    pause = max(self._pause(attempt), min(later.asked_seconds, PAUSE_ASKED_MAX_SECONDS))
                    self._told(later.why)
            if answered >= self._patience.attempts_max or self._age(letter) + pause > self._patience.give_up_seconds:
                return self._end("failed")
            await asyncio.sleep(pause)

    async def _attempt(self, letter: Letter) -> _NotNow | _Never | None:
        headers = {"Content-Type": self._place.content_type}
        try:
            async with asyncio.timeout(self._patience.answer_seconds):
                url = url_of(await self._place.address())
                question = Question(method="POST", url=url, headers=headers, body=letter.body)
                # Whoever gives an address that is not encrypted has chosen so; of any other the certificate is verified.
                options = TlsOptions(insecure=url.startswith("http:"))
                return _verdict(await self._https.ask(question, options, self._place.name))
        except TimeoutError:
            return _NotNow(f"no answer within {self._patience.answer_seconds:g} s")
        except NoAddress as error:
            return _NotNow(str(error))
        except Trouble as trouble:
            return _NotNow(str(trouble).partition("; ")[0])  # what comes then is advice about BMCs

    def _pause(self, attempt: int) -> float:
        pause = min(self._patience.pause_seconds * 2.0 ** min(attempt - 1, 20), self._patience.pause_max_seconds)
        return pause / 2 + self._clock.jitter(pause / 2)

    def _age(self, letter: Letter) -> float:
        return self._clock.monotonic() - letter.put_at

    def _end(self, result: str) -> None:
        """Of the first in line."""
        self._waiting.popleft()
        self._overflows = self._overflows and bool(self._waiting)
        self._count(result)

    def _count(self, result: str) -> None:
        self._metrics.delivered(self._place.name, result, len(self._waiting))

    def _told(self, why: str) -> None:
        """Once for each trouble, and once when it is over: the same with every attempt would hide everything else."""
        if why and why != self._trouble:
            self._warn(why)
        elif self._trouble and not why:
            log.info("it can be told again", to=self._place.name)
        self._trouble = why

    def _warn(self, why: str) -> None:
        log.warning("something cannot be told", to=self._place.name, why=why, waiting=len(self._waiting))


def _verdict(answer: Answer) -> _NotNow | _Never | None:
    if answer.is_good:
        return None
    why = f"it answers with {answer.status}"
    if answer.status in ASKS_FOR_LATER or answer.status >= SERVER_FAILED:
        return _NotNow(why, _seconds(answer.retry_after), is_about_it=answer.status != TOO_MANY)
    return _Never(f"{why}, so it does not take this: is its address still right?")


def _seconds(retry_after: str) -> float:
    """Only as a number: a date would take the other side's clock for ours."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
