"""One list and watch, kept alive for as long as it is wanted: what is there, and a call for each change.

Simpler than the operator's own watcher on purpose: whoever tests the operator must not share its mistakes.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Generic, NoReturn

import structlog

from defib.clock import Clock
from defib.kube.client import EVERYTHING, Client, Scope
from defib.kube.decode import Event, UnreadableEvent
from defib.kube.errors import Gone, KubeError, Unreachable
from defib.kube.kinds import Kind, R
from defib.kube.limits import backoff

log = structlog.get_logger("hollow")

STREAM_SECONDS = 300
SILENCE_SECONDS = 90.0  # the API server sends a bookmark about once a minute
HEALTHY_SECONDS = 10.0
LISTING_SECONDS = 120.0


class Follow(Generic[R]):
    """`changed` hears (before, after) of every object: (None, x) when it appears and (x, None) when it is gone."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        kind: Kind[R],
        changed: Callable[[R | None, R | None], None],
        scope: Scope = EVERYTHING,
    ) -> None:
        self._client = client
        self._clock = clock
        self._kind = kind
        self._scope = scope
        self._changed = changed
        self._items: dict[str, R] = {}
        self._version = ""
        self.synced = asyncio.Event()

    @property
    def items(self) -> Mapping[str, R]:
        return self._items

    async def run(self) -> NoReturn:
        attempt = 0
        while True:
            started = self._clock.monotonic()
            try:
                await self._once()
            except KubeError as error:
                log.debug("watch interrupted", kind=str(self._kind), why=str(error))
                if isinstance(error, Gone | Unreachable):
                    self._version = ""  # what comes back may be restored from a backup, and its versions with it
            attempt = 0 if self._clock.monotonic() - started >= HEALTHY_SECONDS else attempt + 1
            await asyncio.sleep(backoff(attempt, self._clock))

    async def _once(self) -> None:
        if not self._version:
            page = await self._client.list_all(self._kind, self._scope, deadline=LISTING_SECONDS)
            self._replace({item.key: item for item in page.items})
            self._version = page.version
            self.synced.set()
        seconds = STREAM_SECONDS + int(self._clock.jitter(STREAM_SECONDS))
        loop = asyncio.get_running_loop()
        async with self._client.watch(self._kind, self._scope, since=self._version, seconds=seconds) as batches:
            try:
                async with asyncio.timeout(SILENCE_SECONDS) as silence:
                    async for batch in batches:
                        silence.reschedule(loop.time() + SILENCE_SECONDS)
                        for event in batch:
                            self._take(event)
            except TimeoutError as error:
                self._version = ""
                raise Unreachable(f"the watch was silent for {SILENCE_SECONDS:g} s") from error

    def _replace(self, fresh: dict[str, R]) -> None:
        for key in [key for key in self._items if key not in fresh]:
            self._put(key, None)
        for key, item in fresh.items():
            self._put(key, item)

    def _take(self, event: Event[R] | UnreadableEvent) -> None:
        if isinstance(event, UnreadableEvent):
            log.warning("object set aside", kind=str(self._kind), key=event.item.key, why=event.item.why)
            return
        self._version = event.object.metadata.resource_version
        if event.type != "BOOKMARK":
            self._put(event.object.key, None if event.type == "DELETED" else event.object)

    def _put(self, key: str, item: R | None) -> None:
        before = self._items.pop(key, None)
        if item is not None:
            self._items[key] = item
        if before and item and before.uid != item.uid:  # a namesake: the old one went while we did not look
            self._changed(before, None)
            before = None
        if before is not item:
            self._changed(before, item)
