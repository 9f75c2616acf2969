"""Kinds that somebody names and that this program did not know when it was built: found, and followed while wanted.

    wanted ──▶ asked for ──▶ followed ──▶ no longer wanted for a minute: dropped
                 ▲  │ the server has no such kind: missing, asked for again every few seconds
                 └──┴─────── its watch says that the kind has gone

A kind may come and go with its CRD at any moment. Whatever discovery answers, this goes on.
"""

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from itertools import islice
from typing import NoReturn

import msgspec
import structlog

from defib.clock import Clock
from defib.kube.client import EVERYTHING, Scope
from defib.kube.discovery import Discovery
from defib.kube.errors import UNREADABLE, Forbidden, KubeError, UnknownKind
from defib.kube.kinds import Kind
from defib.kube.limits import backoff
from defib.model.cluster import Missing, Served, Wanted
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.observe.cache import Cache

log = structlog.get_logger("observe")

ROUND_SECONDS = 5.0
ASKED_AGAIN_SECONDS = 4.0  # less than a round, so that every round asks, and more than a pass, so that not each does
PATIENT_SECONDS = 60.0  # what most clusters never have need not be asked for all day
UNWANTED_SECONDS = 60.0  # an edit that takes a kind away and puts it back costs no new list
ANSWER_SECONDS = 10.0
ASKED_MAX = 20  # groups and versions in one round; the others have their turn in the next
GIVEN_UP_TIMES = 3  # whoever waits for an answer is told that there is none, after about ten seconds
TROUBLE_ATTEMPT = 5  # the backoff of a round that failed begins at seconds

_API_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _Wish(msgspec.Struct):
    """One kind that is wanted, or was a moment ago; in one namespace where that is enough."""

    namespace: str = ""
    can_wait: bool = False
    asked_at: float | None = None
    unwanted_since: float | None = None
    found: Kind[Unstructured] | None = None
    served: Served = Served("", namespaced=False)  # where what was found is kept
    missing: str = ""


class _Trouble(msgspec.Struct, frozen=True):
    """Discovery of a group and version failed so many times in a row; it rests until then."""

    times: int
    until: float
    why: str


class Remediators:
    """Remediations, their templates, and whatever else is followed only where a cluster has it."""

    def __init__(
        self,
        cache: Cache,
        discovery: Discovery,
        clock: Clock,
        on_change: Callable[[], None],
        switched_off: Mapping[KindRef, Missing] | None = None,
    ) -> None:
        """What is switched off is never asked for, whoever wants it."""
        self._switched_off = switched_off or {}
        self._cache = cache
        self._discovery = discovery
        self._clock = clock
        self._on_change = on_change
        self._wanted: Mapping[KindRef, Wanted] = {}
        self._wishes: dict[KindRef, _Wish] = {}
        self._troubles: dict[str, _Trouble] = {}
        self._woken = asyncio.Event()

    def want(self, kinds: Mapping[KindRef, Wanted]) -> None:
        """These, and from now on no others."""
        if kinds != self._wanted:
            self._wanted = kinds
            self._wish_for(kinds)
        if self._due():
            self._woken.set()

    def _wish_for(self, kinds: Mapping[KindRef, Wanted]) -> None:
        now = self._clock.monotonic()
        for ref, wanted in kinds.items():
            if ref in self._switched_off:
                continue
            if ref not in self._wishes:
                self._wishes[ref] = _wish(ref)
            wish = self._wishes[ref]
            wish.unwanted_since = None
            wish.can_wait = wanted.can_wait
            if wish.namespace != wanted.namespace:
                wish.namespace = wanted.namespace
                self._follow_anew(wish)
        for ref, wish in self._wishes.items():
            if ref not in kinds and wish.unwanted_since is None:
                wish.unwanted_since = now

    @property
    def kinds(self) -> Mapping[KindRef, Served | Missing]:
        """What became of each. One that is found counts as served when we have seen its objects, or may not see them."""
        answers: dict[KindRef, Served | Missing] = dict(self._switched_off)
        for ref, wish in self._wishes.items():
            answer = self._answer(wish)
            if answer is not None:
                answers[ref] = answer
        return answers

    async def run(self) -> NoReturn:
        while True:
            before = self.kinds
            self._drop_unwanted()
            async with asyncio.TaskGroup() as group:
                for api_version, refs in self._due().items():
                    group.create_task(self._ask(api_version, refs), name=f"find kinds of {api_version}")
            if self.kinds != before:
                self._on_change()
            await self._wait_for_round()

    async def _wait_for_round(self) -> None:
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    def _due(self) -> dict[str, list[KindRef]]:
        """What to ask now, by group and version; who has waited longest comes first."""
        now = self._clock.monotonic()
        due: dict[str, list[KindRef]] = {}
        waiting = [(ref, wish) for ref, wish in self._wishes.items() if self._is_due(wish, now)]
        if not waiting:
            return due
        for ref, _ in sorted(waiting, key=lambda one: _last_asked(one[1])):
            trouble = self._troubles.get(ref.api_version)
            if trouble is None or trouble.until <= now:
                due.setdefault(ref.api_version, []).append(ref)
        return dict(islice(due.items(), ASKED_MAX))

    def _is_due(self, wish: _Wish, now: float) -> bool:
        if wish.unwanted_since is not None:
            return False
        if wish.asked_at is not None:
            pause = PATIENT_SECONDS if wish.can_wait and wish.missing else ASKED_AGAIN_SECONDS
            if now < wish.asked_at + pause:
                return False
        return wish.found is None or self._cache.is_gone(wish.served.collection)

    async def _ask(self, api_version: str, refs: list[KindRef]) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                for ref in refs:
                    is_new = self._wishes[ref].asked_at is None
                    await self._find(ref, self._wishes[ref])
                    if self._wishes[ref].missing and not is_new:
                        break  # one question a round for those that were missing before: the next one asks for the next
        except (KubeError, TimeoutError, *UNREADABLE) as error:  # also of a server that answers nonsense
            self._failed(api_version, refs, error)
        else:
            self._troubles.pop(api_version, None)

    async def _find(self, ref: KindRef, wish: _Wish) -> None:
        if wish.found is not None:
            self._discovery.forget(wish.found)
        try:
            found = await self._discovery.find(ref.group, ref.name, ref.version)
        except UnknownKind as error:
            self._lose(wish)
            wish.missing = str(error)
        else:
            if found != wish.found:
                self._lose(wish)
            wish.found, wish.missing = found, ""
            wish.served = Served(_collection(found), found.namespaced)
            self._follow(wish, found)
            if self._cache.is_gone(_collection(found)):
                self._cache.retry(_collection(found))  # it is back, or discovery has not noticed yet
        wish.asked_at = self._clock.monotonic()

    def _failed(self, api_version: str, refs: list[KindRef], error: Exception) -> None:
        """What was known stays known. For what is not, being forbidden to ask, or failing for long, is an answer too."""
        why = str(error) or f"no answer within {ANSWER_SECONDS:g} s"
        before = self._troubles.get(api_version, _Trouble(0, 0.0, ""))
        pause = backoff(TROUBLE_ATTEMPT + before.times, self._clock)
        self._troubles[api_version] = _Trouble(before.times + 1, self._clock.monotonic() + pause, why)
        if why != before.why:
            log.warning("cannot find out about kinds", api_version=api_version, why=why)
        for wish in (self._wishes[ref] for ref in refs):
            if wish.found is None and (isinstance(error, Forbidden) or before.times + 1 >= GIVEN_UP_TIMES):
                wish.missing = wish.missing or why

    def _drop_unwanted(self) -> None:
        limit = self._clock.monotonic() - UNWANTED_SECONDS
        for ref, wish in list(self._wishes.items()):
            if wish.unwanted_since is not None and wish.unwanted_since <= limit:
                self._lose(wish)
                del self._wishes[ref]
        versions = {ref.api_version for ref in self._wishes}
        self._troubles = {version: trouble for version, trouble in self._troubles.items() if version in versions}

    def _follow(self, wish: _Wish, found: Kind[Unstructured]) -> None:
        scope = Scope(namespace=wish.namespace) if found.namespaced else EVERYTHING
        self._cache.follow(found, scope, name=_collection(found), optional=True)

    def _follow_anew(self, wish: _Wish) -> None:
        if (found := wish.found) is not None:
            self._cache.drop(found, _collection(found))
            self._follow(wish, found)

    def _lose(self, wish: _Wish) -> None:
        if wish.found is not None:
            self._cache.drop(wish.found, _collection(wish.found))
            wish.found = None

    def _answer(self, wish: _Wish) -> Served | Missing | None:
        if wish.found is None:
            return Missing(wish.missing) if wish.missing else None
        if self._cache.is_gone(wish.served.collection):  # discovery will say so in a moment
            return Missing(str(UnknownKind(wish.found.name, wish.found.group, wish.found.version)))
        return wish.served if self._cache.is_settled(wish.served.collection) else None


def _wish(ref: KindRef) -> _Wish:
    """It becomes part of an address, so what cannot be an apiVersion is not asked for, ever."""
    if _API_VERSION.fullmatch(ref.api_version):
        return _Wish()
    return _Wish(asked_at=math.inf, missing=f"{ref.api_version!r} is not an apiVersion")


def _last_asked(wish: _Wish) -> float:
    return -math.inf if wish.asked_at is None else wish.asked_at


def _collection(kind: Kind[Unstructured]) -> str:
    """By kind and version: two versions of a kind are followed side by side, and never in place of one we always do."""
    return f"{kind.name}.{kind.version}.{kind.group}".rstrip(".")
