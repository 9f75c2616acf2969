"""The composition root: builds everything, runs it in one TaskGroup, and makes the passes.

Observing, deciding and acting know nothing of each other; they meet here.
"""

import asyncio
import os
from collections import deque
from datetime import datetime
from typing import NoReturn

import msgspec
import structlog

from defib import __version__
from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.decide.changes import Change, What, changes
from defib.kube.client import Answer, Client
from defib.kube.errors import Forbidden, KubeError
from defib.kube.http import connect
from defib.kube.kinds import LEASES, NODES
from defib.kube.limits import Limits
from defib.kube.transport import Request, Transport
from defib.model.cluster import HEARTBEAT_NAMESPACE, Cluster
from defib.observe.cache import HEARTBEATS_NAME, Cache
from defib.observe.trigger import Trigger
from defib.observe.watch import Patience
from defib.telemetry.metrics import Metrics
from defib.web.server import CannotListen, Probes, overdue, serving

log = structlog.get_logger("app")

FIRST_CONTACT_SECONDS = 10.0
STORY_LENGTH = 100


class StartFailed(Exception):
    """The operator cannot start. `str()` is one line that says why and what to do."""


class Told(msgspec.Struct, frozen=True):
    """A change, and when we saw it."""

    at: datetime
    change: Change


class Picture(msgspec.Struct, frozen=True):
    """What the operator sees, for whoever looks at it: probes, the demo, later the dashboard."""

    cluster: Cluster
    story: tuple[Told, ...] = ()


class Operator:
    """One replica. Everything it needs is handed in, so that it runs the same on any server and any clock."""

    def __init__(self, transport: Transport, clock: Clock, settings: Settings, metrics: Metrics) -> None:
        self._clock = clock
        self._settings = settings
        self._metrics = metrics
        self._trigger = Trigger(clock, resync_seconds=settings.resync_seconds)
        self._client = Client(
            transport,
            clock,
            limits=Limits(in_flight=settings.requests_in_flight, per_second=settings.requests_per_second),
            on_answer=self._answered,
        )
        self._cache = Cache(self._client, clock, self, Patience(stall_seconds=settings.watch_stall_seconds))
        self._story: deque[Told] = deque(maxlen=STORY_LENGTH)
        self._last_pass = clock.monotonic()
        self._measured: set[str] = set()
        self.picture = Picture(self._cache.snapshot(clock.now()))

    async def first_contact(self) -> None:
        """Ask once for what we are going to watch, so that what can be told now is not found out later from a log."""
        for kind, namespace in ((NODES, ""), (LEASES, HEARTBEAT_NAMESPACE)):
            request = Request(method="GET", path=kind.collection(namespace), query={"limit": "1"})
            try:
                await self._client.ask(request, deadline=FIRST_CONTACT_SECONDS)
            except Forbidden as error:
                where = f" -n {namespace}" if namespace else ""
                raise StartFailed(
                    f"{error}; grant get, list and watch on it to our account "
                    f"(kubectl auth can-i list {kind}{where} shows when that is done)"
                ) from error
            except KubeError as error:
                raise StartFailed(str(error)) from error

    async def run(self) -> None:
        """Watch and make passes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._cache.run(), name="cache")
            group.create_task(self._passes(), name="passes")

    async def close(self) -> None:
        await self._client.close()

    def probes(self) -> Probes:
        return Probes(not_alive=self._not_alive, not_ready=self._not_ready, scrape=self._metrics.render)

    async def _passes(self) -> NoReturn:
        while True:
            self._one_pass()
            await self._trigger.wait()

    def _one_pass(self) -> None:
        started = self._clock.monotonic()
        cluster = self._cache.snapshot(self._clock.now())
        for change in changes(self.picture.cluster, cluster):
            self._story.append(Told(cluster.now, change))
            # Every node joins once at each start: that is for a table, not for a log of 5,000 lines.
            tell = log.debug if change.what is What.JOINED else log.info
            tell("cluster changed", subject=change.subject, what=change.what, why=change.why)
        self.picture = Picture(cluster, tuple(self._story))
        self._measure(cluster)
        self._last_pass = self._clock.monotonic()
        self._metrics.passed(self._last_pass - started)

    def _measure(self, cluster: Cluster) -> None:
        blind = {blindness.kind: blindness.since for blindness in cluster.blind}
        held = {"nodes": cluster.nodes, HEARTBEATS_NAME: cluster.heartbeats, **cluster.others}
        for kind in self._measured - held.keys():
            self._metrics.forget(kind)
        self._measured = set(held)
        for kind, objects in held.items():
            aside = sum(1 for item in cluster.unread if item.kind == kind)
            self._metrics.holds(kind, cached=len(objects), set_aside=aside)
            self._metrics.blind(kind, blind.get(kind))

    def _not_alive(self) -> tuple[str, ...]:
        limit = 2 * self._settings.resync_seconds + FIRST_CONTACT_SECONDS
        return overdue(self._last_pass, self._clock.monotonic(), limit)

    def _not_ready(self) -> tuple[str, ...]:
        return tuple(
            f"{blindness.kind}: blind since {blindness.since:%H:%M:%S}: {blindness.why}"
            for blindness in self._cache.snapshot(self._clock.now()).blind
        )

    def _answered(self, answer: Answer) -> None:
        self._metrics.answered(answer.verb, answer.code, answer.seconds)

    # The cache's witness: what it sees is counted, and wakes the next pass.

    def heard(self, name: str, events: int, news: int) -> None:
        self._metrics.watched(name, events)
        if news and name != HEARTBEATS_NAME:  # hundreds a second, and each only says that nothing happened
            self._trigger.changed()

    def relisted(self, name: str, reason: str) -> None:
        self._metrics.relisted(name, reason)
        self._trigger.changed()

    def sight_changed(self, name: str) -> None:  # noqa: ARG002  whichever it was, the next pass looks at all
        self._trigger.changed()


async def run(settings: Settings) -> None:
    """Run an operator on the cluster that the settings name, until cancelled. Raises StartFailed."""
    clock = SystemClock()
    operator = Operator(await _connect(settings, clock), clock, settings, Metrics())
    try:
        await operator.first_contact()
        address = settings.probes_address
        async with serving(operator.probes(), address.host, address.port) as port:
            log.info("operator started", version=__version__, probes=f"http://{address.host}:{port}/")
            try:
                await operator.run()
            finally:
                log.info("operator stopped")
    except CannotListen as error:
        raise StartFailed(str(error)) from error
    finally:
        await operator.close()


async def server_version(settings: Settings) -> str:
    """What the API server calls itself. Raises StartFailed."""
    clock = SystemClock()
    client = Client(await _connect(settings, clock), clock)
    try:
        answer = await client.ask(Request(method="GET", path="/version"), deadline=FIRST_CONTACT_SECONDS)
        return msgspec.json.decode(answer, type=_ServerVersion).git_version
    except (KubeError, msgspec.DecodeError) as error:
        raise StartFailed(str(error)) from error
    finally:
        await client.close()


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str


async def _connect(settings: Settings, clock: Clock) -> Transport:
    try:
        return await connect(settings.kubeconfig, settings.context, os.environ, clock)
    except KubeError as error:
        raise StartFailed(str(error)) from error
