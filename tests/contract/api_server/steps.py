"""What the contract tests do over and over: send raw requests, wait for something with a deadline, read a watch."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Generic

import msgspec

from defib.kube.client import EVERYTHING, Client, Deletion, Scope
from defib.kube.decode import Event, UnreadableEvent
from defib.kube.errors import AlreadyExists, NotFound, Throttled
from defib.kube.kinds import Kind, R, Ref
from defib.kube.transport import JSON, Request
from defib.model.meta import Unstructured
from tests.contract.api_server.objects import CRDS, Body

PATIENCE_SECONDS = 10.0
POLL_SECONDS = 0.02
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


async def raw(
    client: Client,
    method: str,
    path: str,
    body: Any = None,
    *,
    content_type: str = JSON,
    accept: str = JSON,
    **query: str,
) -> Any:
    """The server's whole answer, with the fields that our structs leave out."""
    encoded = b"" if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
    request = Request(method=method, path=path, query=query, body=encoded, content_type=content_type, accept=accept)
    return msgspec.json.decode(await client.ask(request))


async def delete(client: Client, ref: Ref[R], *, grace_seconds: int | None = None) -> None:
    """Delete whatever has that name now."""
    item = await client.get(ref)
    await client.delete(ref, Deletion(uid=item.uid, grace_seconds=grace_seconds))


async def is_gone(client: Client, ref: Ref[R]) -> bool:
    try:
        await client.get(ref)
    except NotFound:
        return True
    return False


async def eventually(question: Callable[[], Awaitable[bool]], *, within: float = PATIENCE_SECONDS) -> None:
    """For what the server does in its own time; most of it needs no waiting, and then this does not wait."""
    async with asyncio.timeout(within):
        while not await question():  # noqa: ASYNC110 - the server is another process: nothing here can wake us
            await asyncio.sleep(POLL_SECONDS)


async def install(client: Client, crd: Body) -> Kind[Unstructured]:
    """Create a CRD, unless another test did, and wait until its first version is served."""
    with suppress(AlreadyExists):
        await client.create(CRDS, crd)
    spec = crd["spec"]
    kind = Kind(
        group=spec["group"],
        version=spec["versions"][0]["name"],
        plural=spec["names"]["plural"],
        name=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
        type=Unstructured,
    )

    async def is_served() -> bool:
        try:
            await client.list_all(kind)
        except NotFound:
            return False
        return True

    await eventually(is_served)
    return kind


class Changes(Generic[R]):
    """An open watch, read one event at a time, never waiting for ever."""

    def __init__(self, batches: AsyncIterator[list[Event[R] | UnreadableEvent]]) -> None:
        self._batches = batches
        self._waiting: list[Event[R] | UnreadableEvent] = []

    async def next(self, *, bookmarks: bool = False) -> Event[R]:
        """The next change; StopAsyncIteration when the server has ended the watch."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                while not self._waiting:
                    self._waiting = list(await anext(self._batches))
                event = self._waiting.pop(0)
                assert isinstance(event, Event), event
                if bookmarks or event.type != "BOOKMARK":
                    return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        """The next changes, as type and name."""
        events = [await self.next() for _ in range(count)]
        return [(event.type, event.object.name) for event in events]

    async def rest(self) -> list[Event[R]]:
        """Everything, bookmarks too, until the server ends the watch."""
        events = []
        while True:
            try:
                events.append(await self.next(bookmarks=True))
            except StopAsyncIteration:
                return events


@asynccontextmanager
async def watching(
    client: Client, kind: Kind[R], scope: Scope = EVERYTHING, *, since: str, seconds: int = 30
) -> AsyncIterator[Changes[R]]:
    """A server that has just been given a kind may ask us to come later, even when it has already listed it."""
    async with AsyncExitStack() as stack:
        opened: list[AsyncIterator[list[Event[R] | UnreadableEvent]]] = []

        async def is_open() -> bool:
            try:
                opened.append(await stack.enter_async_context(client.watch(kind, scope, since=since, seconds=seconds)))
            except Throttled:
                return False
            return True

        await eventually(is_open)
        yield Changes(opened[0])
