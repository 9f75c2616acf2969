"""One replica as a process: connected, in the election, serving its probes, and ended in order."""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import structlog

from defib import __version__
from defib.app import FIRST_CONTACT_SECONDS, Operator, StartFailed
from defib.clock import Clock, SystemClock
from defib.config import Settings
from defib.coordinate.election import Candidate, Terms, problems_of
from defib.coordinate.elector import Elector
from defib.coordinate.follow import Follower
from defib.coordinate.leadership import Alone, Election, Leadership, Single
from defib.coordinate.lock import EndpointsLock, LeaseLock
from defib.coordinate.sharded import Sharded
from defib.kube.client import Client
from defib.kube.errors import KubeError
from defib.kube.http import connect
from defib.kube.transport import Request, Transport
from defib.telemetry.metrics import Metrics
from defib.web.leader import serving_leader
from defib.web.server import CannotListen, serving

log = structlog.get_logger("app")


async def run(settings: Settings) -> None:
    """Run an operator on the cluster that the settings name, until cancelled. Raises StartFailed."""
    clock = SystemClock()
    transport = await _connect(settings, clock)
    operator = Operator(transport, clock, settings, Metrics())
    try:
        operator.leadership = leadership_of(settings, transport, clock, operator)
        await operator.first_contact()
        async with _served(settings, operator):
            await _until_cancelled(operator)
    except CannotListen as error:
        raise StartFailed(str(error)) from error
    finally:
        await operator.close()


async def _until_cancelled(operator: Operator) -> None:
    """When it is to end, it first ends what it has begun, while it still leads; then another one may."""
    has_finished = False
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(operator.run())
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                has_finished = await operator.finish()
                raise
    finally:
        # What was cut off may still reach the API server: whoever comes next waits until our time is over.
        if has_finished:
            await operator.leadership.release()
        log.info("operator stopped")


@asynccontextmanager
async def _served(settings: Settings, operator: Operator) -> AsyncIterator[None]:
    address, leader = settings.probes_address, settings.leader_address
    async with serving(operator.probes(), address.host, address.port) as port:
        log.info("operator started", version=__version__, probes=f"http://{address.host}:{port}/")
        if leader is None:
            yield
            return
        async with serving_leader(lambda: operator.leadership.leader, leader.host, leader.port):
            yield


def leadership_of(settings: Settings, transport: Transport, clock: Clock, operator: Operator) -> Leadership:
    """Whoever only watches needs nobody's permission. Raises StartFailed."""
    if settings.election == "off" or settings.watch_only == "on":
        return Alone()
    me = candidate_of(settings)
    # On a client of its own: however busy the others are, this must not wait.
    client = Client(transport, clock)
    if settings.election == "shards":
        return Sharded(client, settings.namespace, me, clock, operator)
    return Single(operator, lambda changed: election_of(settings, client, me, clock, changed))


def candidate_of(settings: Settings) -> Candidate:
    """Raises StartFailed."""
    terms = Terms(
        lease_seconds=settings.lease_duration_seconds,
        renew_seconds=settings.renew_deadline_seconds,
        retry_seconds=settings.retry_period_seconds,
    )
    if problems := problems_of(terms):
        raise StartFailed(f"nobody could lead with these settings: {'; '.join(problems)}")
    return Candidate(settings.replica_name or f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}", terms)


def election_of(
    settings: Settings, client: Client, me: Candidate, clock: Clock, changed: Callable[[], None]
) -> Election:
    if settings.election == "follow":
        return Follower(settings.leader_url, me, clock, changed)
    kind = EndpointsLock if settings.election == "endpoints" else LeaseLock
    return Elector(kind(client, settings.namespace, settings.leader_lock), me, clock, changed)


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
