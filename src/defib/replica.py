"""One replica as a process: connected, in the election, serving its probes, and ended in order."""

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import msgspec
import structlog

from defib import __version__
from defib.announcements import announcements_of
from defib.app import FIRST_CONTACT_SECONDS, Operator, StartFailed
from defib.clock import Clock, SystemClock
from defib.config import BadSettings, Settings
from defib.coordinate.election import Candidate, Terms, problems_of
from defib.coordinate.elector import Elector
from defib.coordinate.follow import LASTS, Follower, lasts
from defib.coordinate.leadership import Alone, Election, Leadership, Single
from defib.coordinate.lock import EndpointsLock, LeaseLock
from defib.coordinate.outside import Outside
from defib.coordinate.sharded import Locks, Sharded
from defib.coordinate.store import NoStore, Store
from defib.kube.borrowed import with_token
from defib.kube.client import Client
from defib.kube.errors import KubeError, ServerFailed, Throttled, Unreachable
from defib.kube.http import HttpTransport, connect
from defib.kube.limits import backoff
from defib.kube.transport import Request, Transport
from defib.rules_of import rules_of
from defib.telemetry.metrics import Metrics
from defib.web.access import Access, AsUser
from defib.web.board import Site
from defib.web.board_work import Seats
from defib.web.dashboard import Dashboard, serving_dashboard
from defib.web.door import CannotListen
from defib.web.leader import serving_leader
from defib.web.live import Sight
from defib.web.server import serving

log = structlog.get_logger("app")

IN_A_POD = "KUBERNETES_SERVICE_HOST"
REACH_ATTEMPT_MAX = 4  # so that the pauses stay short
WITHOUT_CLUSTER = ("follow", "tooz")


async def run(settings: Settings) -> None:
    """Run an operator on the cluster that the settings name, until cancelled. Raises StartFailed and BadSettings."""
    if _is_elected(settings):
        # What is impossible is told before anything is asked of the cluster. From here on our name stays the same.
        settings = msgspec.structs.replace(settings, replica_name=candidate_of(settings).name)
    clock = SystemClock()
    transport = await _connect(settings, clock)
    metrics = Metrics()
    operator = Operator(transport, clock, settings, metrics)
    try:
        operator.announcements = await asyncio.to_thread(announcements_of, settings, clock, metrics)
        operator.leadership = leadership_of(settings, transport, clock, operator)
        is_in_a_pod = settings.kubeconfig is None and IN_A_POD in os.environ
        if not is_in_a_pod:
            await operator.first_contact()
        as_user = partial(with_token, transport.connection, clock=clock)
        async with _served(settings, operator), _shown(settings, dashboard_of(settings, operator, as_user, clock)):
            if is_in_a_pod:
                await _reach(operator, clock)
            await until_cancelled(operator)
    except CannotListen as error:
        raise StartFailed(str(error)) from error
    finally:
        await operator.close()


async def _reach(operator: Operator, clock: Clock) -> None:
    """A pod that ends because the API server is out is started again later and later: better to wait. Raises StartFailed."""
    attempt = 0
    while True:
        try:
            return await operator.first_contact()
        except StartFailed as error:
            if not isinstance(error.__cause__, Unreachable | ServerFailed | Throttled):
                raise
            log.warning("the API server is out of reach", why=str(error), advice="it is tried again")
        attempt += 1
        await asyncio.sleep(backoff(min(attempt, REACH_ATTEMPT_MAX), clock))


async def until_cancelled(operator: Operator) -> None:
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
        async with serving_leader(lambda: operator.leadership.leader, leader.host, leader.port) as told_on:
            log.info("who leads is told", leader=f"http://{leader.host}:{told_on}/")
            yield


@asynccontextmanager
async def _shown(settings: Settings, dashboard: Dashboard) -> AsyncIterator[None]:
    """That nobody can look is no reason for nodes to go without help."""
    async with AsyncExitStack() as stack:
        if settings.dashboard != "off":
            address = settings.dashboard_address
            try:
                port = await stack.enter_async_context(serving_dashboard(dashboard, address.host, address.port))
                log.info("dashboard is served", page=f"http://{address.host}:{port}/", can_act=dashboard.site.can_act)
            except CannotListen as error:
                log.warning("dashboard is not served", why=str(error))
        yield


def dashboard_of(settings: Settings, operator: Operator, as_user: AsUser, clock: Clock) -> Dashboard:
    """`as_user` asks the API server in the name of whoever has a token."""
    rules, can_act = rules_of(settings), settings.dashboard == "act"
    me = settings.replica_name or socket.gethostname()
    carry_out = None
    if can_act:
        from defib.console.page import hands

        carry_out = hands(as_user, clock, rules)
    return Dashboard(
        sight=Sight(picture=lambda: operator.picture, seats=lambda: seats_of(settings, operator.leadership)),
        site=Site(replica=me, version=__version__, can_act=can_act, rules=rules),
        clock=clock,
        access=Access(as_user, clock, settings.namespace),
        carry_out=carry_out,
    )


def seats_of(settings: Settings, leadership: Leadership) -> Seats:
    standing = leadership.standing
    return Seats(
        mode=settings.election if _is_elected(settings) else "off",
        leader=standing.leader,
        leads=standing.leads,
        holders=leadership.holders if isinstance(leadership, Sharded) else {},
        unowned=standing.unowned,
    )


def leadership_of(settings: Settings, transport: Transport, clock: Clock, operator: Operator) -> Leadership:
    """Raises BadSettings."""
    if not _is_elected(settings):
        return Alone()
    me = candidate_of(settings)
    # On a client of its own: however busy the others are, this must not wait.
    client = Client(transport, clock, on_answer=operator.counted)
    if settings.election == "shards":
        locks = Locks(client=client, namespace=settings.namespace, leader=settings.leader_lock)
        return Sharded(locks, me, clock, operator)
    return Single(operator, lambda changed: election_of(settings, client, me, clock, changed))


def _is_elected(settings: Settings) -> bool:
    """Whoever only watches needs nobody's permission."""
    return settings.election != "off" and settings.watch_only == "off"


def candidate_of(settings: Settings) -> Candidate:
    """Raises BadSettings."""
    terms = Terms(
        lease_seconds=settings.lease_duration_seconds,
        renew_seconds=settings.renew_deadline_seconds,
        retry_seconds=settings.retry_period_seconds,
    )
    # A sidecar knows us by the name of our host; where we write the name ourselves, each process needs its own.
    host = socket.gethostname()
    name = settings.replica_name or (host if settings.election == "follow" else f"{host}_{uuid.uuid4().hex[:8]}")
    problems = [*problems_of(terms)]
    if not name:
        problems.append("--replica-name: name this replica, since its host has no name")
    if settings.election == "follow" and (spare := terms.lease_seconds - terms.renew_seconds) < lasts(terms):
        problems.append(
            f"--retry-period: what a sidecar says counts for {lasts(terms):g} s, two retry periods, and must be over "
            f"before another one can lead: choose {spare / LASTS:g} s or less"
        )
    if problems:
        raise BadSettings(problems)
    return Candidate(name, terms)


@asynccontextmanager
async def taking_part(
    settings: Settings, me: Candidate, clock: Clock, changed: Callable[[], None]
) -> AsyncIterator[Election]:
    """The election alone, without an operator, and who leads over HTTP if that is wished. Raises StartFailed."""
    async with AsyncExitStack() as stack:
        client = None
        if settings.election not in WITHOUT_CLUSTER:
            client = Client(await _connect(settings, clock), clock)
            stack.push_async_callback(client.close)
        election = election_of(settings, client, me, clock, changed)
        if settings.leader_address is not None:
            try:
                address = settings.leader_address
                await stack.enter_async_context(serving_leader(lambda: election.leader, address.host, address.port))
            except CannotListen as error:
                raise StartFailed(str(error)) from error
        yield election


def election_of(
    settings: Settings, client: Client | None, me: Candidate, clock: Clock, changed: Callable[[], None]
) -> Election:
    if settings.election == "follow":
        return Follower(settings.leader_url, me, clock, changed)
    if settings.election == "tooz":
        try:
            return Outside(Store(settings.tooz_url, settings.leader_lock, me), me, clock, changed)
        except NoStore as error:
            raise StartFailed(str(error)) from error
    assert client is not None, "these locks are objects of a cluster"
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


async def _connect(settings: Settings, clock: Clock) -> HttpTransport:
    try:
        return await connect(settings.kubeconfig, settings.context, os.environ, clock)
    except KubeError as error:
        raise StartFailed(str(error)) from error
