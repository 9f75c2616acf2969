"""The page as it is served: the embedded API server, an operator that watches it, and the real web server, in a thread.

The browser's own thread waits for the browser, so all this turns in another one.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from defib.app import Operator
from defib.clock import SystemClock
from defib.config import Settings
from defib.kube.client import Client
from defib.manifests import definitions
from defib.model.secret import Secret
from defib.replica import dashboard_of
from defib.simulate.in_process import InProcess
from defib.simulate.kinds.crds import DEFINITIONS
from defib.simulate.server import ApiServer
from defib.telemetry.metrics import Metrics
from defib.web.dashboard import serving_dashboard

HOST = "127.0.0.1"
WITHIN = 30.0
LOOK_SECONDS = 0.02

T = TypeVar("T")
Put = tuple[str, dict[str, Any]]


class Stage:
    """What has `now` in its name, and what waits, is for its own thread; the rest for the thread of the test."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, settings: Settings, host: str) -> None:
        self.host = host
        self.began: Future[asyncio.AbstractEventLoop] = Future()
        self.end = asyncio.Event()
        self.clock = SystemClock()
        self.server = ApiServer(self.clock)
        for definition in definitions():
            self.server.put(DEFINITIONS, definition)
        self.operator = Operator(InProcess(self.server, client="operator"), self.clock, settings, Metrics())
        self.dashboard = dashboard_of(settings, self.operator, self._as_user, self.clock)
        self.port = 0
        self._served = AsyncExitStack()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def do(self, deed: Callable[[], T]) -> T:
        """In the thread of the server."""
        done: Future[T] = Future()
        self.loop.call_soon_threadsafe(lambda: done.set_result(deed()))
        return done.result(WITHIN)

    def put(self, *objects: Put) -> None:
        """Made, or made anew where they are there already."""

        def put_all() -> None:
            for one in objects:
                self.put_now(*one)

        self.do(put_all)

    def put_now(self, resource: str, item: dict[str, Any]) -> None:
        meta, store = item["metadata"], self.server.store
        key = "/".join(filter(None, (meta.get("namespace"), meta["name"])))
        known = store.get(resource, key) or self.server.put(resource, item)
        # Past the rules of writing, which leave no status to whoever creates and give each object its age.
        store.put(resource, {**known.object, **item, "metadata": {**known.object["metadata"], **meta}})
        self.server.settle()

    def until(self, holds: Callable[[], bool]) -> None:
        """Whether it holds is asked in the thread of the server."""

        async def wait() -> None:
            async with asyncio.timeout(WITHIN):
                while not holds():  # noqa: ASYNC110 - a picture tells nobody that it is there
                    await asyncio.sleep(LOOK_SECONDS)

        asyncio.run_coroutine_threadsafe(wait(), self.loop).result(WITHIN + 1)

    def go_away(self) -> None:
        asyncio.run_coroutine_threadsafe(self._served.aclose(), self.loop).result(WITHIN)

    def come_back(self) -> None:
        asyncio.run_coroutine_threadsafe(self.serve(), self.loop).result(WITHIN)

    async def serve(self) -> None:
        """On the port that we had, if we had one."""
        self.port = await self._served.enter_async_context(serving_dashboard(self.dashboard, self.host, self.port))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(self.operator.run())
            try:
                await self.serve()
                self.began.set_result(asyncio.get_running_loop())
                await self.end.wait()
            finally:
                await self._served.aclose()
                running.cancel()
        await self.operator.close()

    @asynccontextmanager
    async def _as_user(self, _: Secret) -> AsyncIterator[Client]:
        client = Client(InProcess(self.server, client="person"), self.clock)
        try:
            yield client
        finally:
            await client.close()


@contextmanager
def on_stage(settings: Settings, objects: Callable[[Stage], Iterable[Put]], *, host: str = HOST) -> Iterator[Stage]:
    """The cluster holds these objects before anybody looks."""
    stage = Stage(settings, host)
    for one in objects(stage):
        stage.put_now(*one)
    thread = threading.Thread(target=asyncio.run, args=(stage.run(),), name="stage")
    thread.start()
    try:
        stage.loop = stage.began.result(WITHIN)
        stage.until(lambda: bool(stage.operator.picture.cluster.nodes) and not stage.operator.picture.cluster.blind)
        yield stage
    finally:
        if stage.began.done():
            stage.began.result().call_soon_threadsafe(stage.end.set)
        thread.join(WITHIN)
