"""One request on its way to the server and back, with everything that can befall it. In process and HTTP alike."""

import asyncio
from collections.abc import AsyncGenerator

from defib.kube.transport import Request
from defib.simulate.answers import Answer, refused
from defib.simulate.audit import Asked
from defib.simulate.faults import (
    Hang,
    LoseAnswer,
    LoseRequest,
    Refuse,
    RequestEffect,
    Slow,
    StaleRead,
    WatchEffect,
    reason_of,
)
from defib.simulate.refusals import Refusal
from defib.simulate.routing import Call, understand
from defib.simulate.server import ApiServer
from defib.simulate.stream_faults import broken, for_ever


class Exchange:
    """Valid from `answer` to `close`. ConnectionError means that the client lost the server."""

    def __init__(self, server: ApiServer, request: Request, client: str) -> None:
        self._server = server
        self._request = request
        self._client = client
        self._answer: Answer | None = None
        self._verb = ""
        self._effects: list[RequestEffect | WatchEffect] = []

    async def answer(self) -> Answer:
        self._server.check_reachable(self._client)
        if not self._server.faults.any_set:
            self._answer = self._server.answer(self._request, self._client)
        else:
            self._answer = await self._through_faults()
        if self._answer.watch:
            self._server.watches.opened(self._client, self._answer.watch)
        return self._answer

    async def _through_faults(self) -> Answer:
        call = self._understood()
        self._verb = call.verb if call else self._request.method.lower()
        self._effects = self._server.faults.strike(call) if call else []
        stale = 0
        for effect in self._effects:
            if isinstance(effect, StaleRead) and self._request.query.get("resourceVersion") == "0":
                stale = self._server.earlier(call, effect.revisions) if call else 0
            refusal = await self._prevented(effect)
            if refusal:
                return refusal
        answer = self._server.answer(self._request, self._client, stale=stale)
        for effect in self._effects:
            await self._delayed(effect)
        self._server.check_reachable(self._client)  # it may have gone down while the answer was on its way
        return answer

    def _understood(self) -> Call | None:
        try:
            return understand(self._server.catalog, self._request, self._client)
        except Refusal:
            return None

    async def _prevented(self, effect: RequestEffect | WatchEffect) -> Answer | None:
        """What keeps the server from seeing the request."""
        match effect:
            case Refuse():
                self._note(effect.code)
                details = {"retryAfterSeconds": effect.retry_after_seconds} if effect.retry_after_seconds else {}
                return refused(Refusal(effect.code, effect.reason or reason_of(effect.code), effect.message, details))
            case LoseRequest():
                self._note(0)
                raise ConnectionError("the request was lost by a fault")
            case Hang(applied=False):
                self._note(0)
                await for_ever()
        return None

    async def _delayed(self, effect: RequestEffect | WatchEffect) -> None:
        """What keeps the client from seeing the answer."""
        match effect:
            case Slow(seconds=seconds, jitter_seconds=jitter):
                await asyncio.sleep(seconds + self._server.clock.jitter(jitter) if jitter else seconds)
            case LoseAnswer():
                raise ConnectionError("the answer was lost by a fault")
            case Hang(applied=True):
                await for_ever()

    def _note(self, status: int) -> None:
        self._server.audit.note(Asked(self._client, self._verb, self._request.path, status, self._server.clock.now()))

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body: at once, or as the watch goes on."""
        assert self._answer, "there is no body before there is an answer"
        if self._answer.watch is None:
            yield self._answer.body
            return
        streams = [self._answer.watch.batches()]
        for effect in self._effects:
            if isinstance(effect, WatchEffect):
                streams.append(broken(streams[-1], effect, self._server.clock))
        try:
            async for batch in streams[-1]:
                if not self._server.faults.is_partitioned(self._client):
                    yield b"".join(batch)
        finally:
            # Closed here and now, from the outermost in: left to the garbage collector, a run would not repeat.
            for stream in reversed(streams):
                await stream.aclose()

    def close(self) -> None:
        if self._answer and self._answer.watch:
            self._answer.watch.end()
            self._server.watches.closed(self._answer.watch)
