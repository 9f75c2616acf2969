"""The verbs of the API server, typed, each with a deadline and limits.

What the server refuses is raised as an error of the tree in errors.py; what is an ordinary end of the matter
(an eviction that a budget blocks) is a value. Nothing here decides; nothing here remembers objects.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from typing import Any

import msgspec

from defib.clock import Clock
from defib.kube.decode import (
    Event,
    LineBuffer,
    Page,
    UnreadableEvent,
    decode_events,
    decode_object,
    decode_page,
    decoder,
)
from defib.kube.errors import UNREADABLE, DeadlineExceeded, KubeError, Status, Throttled, refusal
from defib.kube.kinds import Kind, R, Ref
from defib.kube.limits import Limiter, Limits, pause_before_retry
from defib.kube.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, Request, Response, Transport
from defib.model.meta import Resource

DEADLINE_SECONDS = 30.0
# What destroys something was decided by what was read right before. If it cannot be sent soon, that must be read again.
REMOVAL_TURN_SECONDS = 1.0
PAGE_SIZE = 500
HTTP_GOOD = range(200, 300)
HTTP_REDIRECTS = range(300, 400)
FIELD_MANAGER = "defib"

Body = Mapping[str, Any]
Send = Callable[[], AbstractAsyncContextManager[Response]]


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a kind: all of them, or those in a namespace, with labels, with fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        return {
            name: value for name, value in (("labelSelector", self.labels), ("fieldSelector", self.fields)) if value
        }


EVERYTHING = Scope()


class Merge(msgspec.Struct, frozen=True):
    """A merge patch. With `metadata.resourceVersion` in it, it is a compare-and-swap."""

    body: Body


class JsonPatch(msgspec.Struct, frozen=True):
    """A JSON patch; a `test` operation makes it conditional."""

    operations: list[Body]


class Apply(msgspec.Struct, frozen=True, kw_only=True):
    """A server-side apply: what we want to own, and nothing else."""

    body: Body
    manager: str = FIELD_MANAGER
    force: bool = False


Patch = Merge | JsonPatch | Apply


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """How to delete, and of which incarnation: without a UID a namesake could be hit."""

    uid: str
    version: str = ""
    grace_seconds: int | None = None
    propagation: str = ""

    def options(self) -> Body:
        preconditions = {"uid": self.uid} | ({"resourceVersion": self.version} if self.version else {})
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        if self.grace_seconds is not None:
            options["gracePeriodSeconds"] = self.grace_seconds
        if self.propagation:
            options["propagationPolicy"] = self.propagation
        return options


class Evicted(msgspec.Struct, frozen=True):
    """The API server accepted the eviction; the pod is on its way out."""


class Blocked(msgspec.Struct, frozen=True):
    """A disruption budget does not allow it now."""

    why: str


class Answer(msgspec.Struct, frozen=True):
    """One finished request, for metrics."""

    verb: str
    code: str
    seconds: float


class _Opened:
    """An answer from its head on. Whoever counts hears of it, and of the answers that never came."""

    def __init__(self, send: Send, verb: str, clock: Clock, on_answer: Callable[[Answer], None] | None) -> None:
        self._send = send
        self._verb = verb
        self._clock = clock
        self._on_answer = on_answer

    async def __aenter__(self) -> Response:
        started = self._clock.monotonic()
        code = "none"
        try:
            self._sending = self._send()
            response = await self._sending.__aenter__()
            code = str(response.status)
        finally:
            if self._on_answer:
                self._on_answer(Answer(self._verb, code, self._clock.monotonic() - started))
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._sending.__aexit__(kind, error, trace)


class Client:
    """Talks to one API server. `on_answer` hears of every finished request.

    `repeats_throttled_writes` is for a person's word, which counts some seconds later too. Whoever decides by what it
    reads must read again before it writes again.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        limits: Limits | None = None,
        on_answer: Callable[[Answer], None] | None = None,
        repeats_throttled_writes: bool = False,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._limiter = Limiter(limits or Limits(), clock)
        self._on_answer = on_answer
        self._repeats_throttled_writes = repeats_throttled_writes

    async def close(self) -> None:
        await self._transport.close()

    async def get(self, ref: Ref[R], *, deadline: float = DEADLINE_SECONDS) -> R:
        """A live read: the newest state, never a cached one."""
        request = Request(method="GET", path=ref.path(), accept=_accept(ref.kind, "PartialObjectMetadata"))
        return decode_object(await self.ask(request, deadline=deadline), ref.kind.type)

    async def list_all(
        self,
        kind: Kind[R],
        scope: Scope = EVERYTHING,
        *,
        deadline: float = 2 * DEADLINE_SECONDS,
        page_size: int = PAGE_SIZE,
    ) -> Page[R]:
        """All of them, fetched in pages. Raises Gone when the server forgets the list before its end."""
        ends = self._clock.monotonic() + deadline
        items: list[R] = []
        set_aside: list[Any] = []
        token = ""
        while True:
            query = scope.query() | {"limit": str(page_size)} | ({"continue": token} if token else {})
            request = Request(
                method="GET",
                path=kind.collection(scope.namespace),
                query=query,
                accept=_accept(kind, "PartialObjectMetadataList"),
            )
            page = decode_page(await self.ask(request, deadline=ends - self._clock.monotonic()), kind.type)
            items += page.items
            set_aside += page.set_aside
            token = page.continue_
            if not token:
                return Page(items, page.version, "", tuple(set_aside))

    @asynccontextmanager
    async def watch(
        self,
        kind: Kind[R],
        scope: Scope = EVERYTHING,
        *,
        since: str,
        seconds: int,
    ) -> AsyncIterator[AsyncIterator[list[Event[R] | UnreadableEvent]]]:
        """Changes after version `since`; with an empty one, first every object as ADDED, then a marked bookmark.

        The server ends the stream after `seconds`. The caller must bound its own waiting for the next batch:
        a stream that is silent may be dead.
        """
        query = scope.query() | {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        query |= (
            {"resourceVersion": since}
            if since
            else {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        )
        request = Request(
            method="GET",
            path=kind.collection(scope.namespace),
            query=query,
            accept=_accept(kind, "PartialObjectMetadata"),
        )
        await self._limiter.pace()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS) as opening, self._opened(request, "WATCH") as response:
                if response.status not in HTTP_GOOD:
                    raise self._refusal(request, response, await response.read())
                opening.reschedule(None)  # the head came in time; the body may last
                async with aclosing(_events(response, kind)) as events:
                    yield events
        except TimeoutError as error:
            if not opening.expired():
                raise
            raise self._too_late(request, DEADLINE_SECONDS) from error

    async def create(self, kind: Kind[R], body: Body, *, namespace: str = "", deadline: float = DEADLINE_SECONDS) -> R:
        request = Request(
            method="POST",
            path=kind.collection(namespace),
            query={"fieldManager": FIELD_MANAGER},
            body=msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.name, **body}),
        )
        return decode_object(await self.ask(request, deadline=deadline), kind.type)

    async def patch(self, ref: Ref[R], patch: Patch, *, subresource: str = "", deadline: float = DEADLINE_SECONDS) -> R:
        """Change some fields; `subresource` is `status` or `scale` where that is what is meant."""
        request = _patch_request(ref, patch, subresource)
        return decode_object(await self.ask(request, deadline=deadline), ref.kind.type)

    async def delete(self, ref: Ref[R], how: Deletion, *, deadline: float = DEADLINE_SECONDS) -> None:
        request = Request(method="DELETE", path=ref.path(), body=msgspec.json.encode(how.options()))
        await self.ask(request, deadline=deadline, turn=REMOVAL_TURN_SECONDS)

    async def evict(self, ref: Ref[R], how: Deletion, *, deadline: float = DEADLINE_SECONDS) -> Evicted | Blocked:
        """Ask for a pod to leave, within its disruption budgets, which the API server judges."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
            "deleteOptions": how.options(),
        }
        request = Request(method="POST", path=ref.path("eviction"), body=msgspec.json.encode(body))
        try:
            await self.ask(request, deadline=deadline, turn=REMOVAL_TURN_SECONDS)
        except Throttled as error:
            if not _is_budget(error):
                raise
            return Blocked("; ".join(cause.message for cause in error.status.causes if cause.message) or str(error))
        return Evicted()

    async def ask(self, request: Request, *, deadline: float = DEADLINE_SECONDS, turn: float | None = None) -> bytes:
        """Send one request within the limits, again where that is safe; the body of the good answer.

        The deadline is the server's: waiting for our own turn comes on top, for `turn` seconds, or else as long again
        at most. This is also the raw access for whatever has no verb here.
        """
        left = deadline
        patience = deadline if turn is None else turn
        attempt = 0
        while True:
            asked = self._clock.monotonic()
            await self._begin(request, patience)
            began = self._clock.monotonic()
            try:
                return await self._ask_once(request, left, deadline)
            except KubeError as error:
                left -= self._clock.monotonic() - began
                pause = self._pause(request, error, attempt)
                if pause is None or pause >= left:
                    raise
            finally:
                self._limiter.end()
            patience -= began - asked
            left -= pause
            attempt += 1
            await asyncio.sleep(pause)

    def _pause(self, request: Request, error: KubeError, attempt: int) -> float | None:
        """How long to wait before it is sent again; None means that it must not be.

        After a 5xx or a lost answer a write may have been carried out. A throttled one was not, but in the pause its
        reason may go, or the brake be pulled: whoever decided it looks at the world again.
        """
        is_safe = request.method == "GET" or (self._repeats_throttled_writes and isinstance(error, Throttled))
        if not is_safe or _is_budget(error):
            return None
        return pause_before_retry(error, attempt, self._clock)

    async def _begin(self, request: Request, seconds: float) -> None:
        try:
            await self._limiter.begin(seconds)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{request}: not sent, our other requests took longer than {seconds:g} s") from error

    async def _ask_once(self, request: Request, seconds: float, deadline: float) -> bytes:
        try:
            async with asyncio.timeout(seconds), self._opened(request, request.method) as response:
                body = await response.read()
        except TimeoutError as error:
            raise self._too_late(request, deadline) from error
        if response.status not in HTTP_GOOD:
            raise self._refusal(request, response, body)
        return body

    def _opened(self, request: Request, verb: str) -> "_Opened":
        return _Opened(partial(self._transport.send, request), verb, self._clock, self._on_answer)

    def _too_late(self, request: Request, deadline: float) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"{request}: no answer from {self._transport.describe()} within {deadline:g} s; "
            "is it up, and is a firewall or VPN in the way?"
        )

    def _refusal(self, request: Request, response: Response, body: bytes) -> KubeError:
        """A body that is not the server's Status is dropped: a proxy's page explains nothing and may hold anything."""
        try:
            status: Status = decoder(Status).decode(body)
        except UNREADABLE:
            status = Status()
        if response.status in HTTP_REDIRECTS:
            status = Status(message=f"HTTP {response.status} points elsewhere; is the server address right?")
        status = msgspec.structs.replace(status, code=response.status)
        retry_after = _retry_after(response.headers.get("retry-after", ""), self._clock.now())
        return refusal(status, request=str(request), retry_after=retry_after)


def _accept(kind: Kind[R], shape: str) -> str:
    return f"{JSON};as={shape};g=meta.k8s.io;v=v1" if kind.type is Resource else JSON


def _patch_request(ref: Ref[R], patch: Patch, subresource: str) -> Request:
    query = {"fieldManager": FIELD_MANAGER}
    match patch:
        case Merge(body):
            content_type, encoded = MERGE_PATCH, msgspec.json.encode(body)
        case JsonPatch(operations):
            content_type, encoded = JSON_PATCH, msgspec.json.encode(operations)
        case Apply():
            metadata = {"name": ref.name, **patch.body.get("metadata", {})}  # without it nothing can be created
            whole = {"apiVersion": ref.kind.api_version, "kind": ref.kind.name, **patch.body, "metadata": metadata}
            content_type, encoded = APPLY_PATCH, msgspec.json.encode(whole)
            query = {"fieldManager": patch.manager} | ({"force": "true"} if patch.force else {})
    return Request(method="PATCH", path=ref.path(subresource), query=query, body=encoded, content_type=content_type)


def _is_budget(error: KubeError) -> bool:
    """429 has two meanings: the server is busy, or a disruption budget says no. Only the first is worth repeating."""
    return isinstance(error, Throttled) and any(c.reason == "DisruptionBudget" for c in error.status.causes)


def _retry_after(text: str, now: datetime) -> float | None:
    """Seconds, given as a number or as a date; None when it is neither."""
    if text.isdecimal():
        return float(text)
    try:
        return max((parsedate_to_datetime(text) - now).total_seconds(), 0.0)
    except (ValueError, TypeError):  # TypeError: a date without a time zone
        return None


async def _events(response: Response, kind: Kind[R]) -> AsyncGenerator[list[Event[R] | UnreadableEvent], None]:
    buffer = LineBuffer()
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            if lines := buffer.feed(chunk):
                yield decode_events(lines, kind.type)
