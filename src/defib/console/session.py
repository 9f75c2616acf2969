"""A connection for the length of one command. Whatever goes wrong ends as one line that says what to do."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

from defib.clock import Clock
from defib.config import Settings
from defib.console.acting_as import ActingAs
from defib.kube.client import Client
from defib.kube.credentials import Impersonation, is_clean_header
from defib.kube.errors import UNREADABLE, Forbidden, KubeError
from defib.kube.http import open_transport
from defib.kube.kubeconfig import Connection, load_connection
from defib.kube.transport import Request, Transport

TIME_SECONDS = 5.0
WHO_SECONDS = 5.0
IMPERSONATE = "impersonate"  # the verb, in which the server refuses to take us for somebody else
ALIKE = timedelta(seconds=3)  # a date is in whole seconds and takes its time to us: less says nothing


class NotDone(Exception):
    """It cannot be done. `str()` is one line that says why and what to do."""


class ServerClock:
    """The API server's clock, as far as we can tell: a laptop that is an hour ahead must not approve for an hour more."""

    def __init__(self, clock: Clock, ahead: timedelta) -> None:
        self._clock = clock
        self._ahead = ahead  # how much the server's is ahead of ours; negative when it is behind

    def now(self) -> datetime:
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def jitter(self, span: float) -> float:
        return self._clock.jitter(span)


class Session(msgspec.Struct, frozen=True):
    client: Client
    clock: Clock


@asynccontextmanager
async def connected(settings: Settings, clock: Clock) -> AsyncIterator[Session]:
    """Raises NotDone, also for what the API server refuses meanwhile and nobody has caught."""
    try:
        connection = await asyncio.to_thread(load_connection, settings.kubeconfig, settings.context, os.environ)
        if isinstance(settings, ActingAs):
            connection = _in_the_name_of(settings, connection)
        transport = await open_transport(connection, os.environ, clock)
        client = Client(transport, clock, repeats_throttled_writes=True)
        try:
            yield Session(client, ServerClock(clock, await _ahead(transport, clock)))
        finally:
            await client.close()
    except KubeError as error:
        raise NotDone(str(error)) from error


def _in_the_name_of(wanted: ActingAs, connection: Connection) -> Connection:
    """As kubectl does it: what the kubeconfig says about that is not added to, it is replaced."""
    if not all(map(is_clean_header, (wanted.as_user, *wanted.as_groups))):
        raise NotDone("--as or --as-group has characters that cannot be sent; give a name as the cluster knows it")
    impersonate = Impersonation(user=wanted.as_user, groups=wanted.as_groups)
    user = msgspec.structs.replace(connection.user, impersonate=impersonate)
    return msgspec.structs.replace(connection, user=user)


async def _ahead(transport: Transport, clock: Clock) -> timedelta:
    """Every HTTP answer is dated, also one that says no. Without one, the clocks are taken to be alike."""
    try:
        async with asyncio.timeout(TIME_SECONDS), transport.send(Request(method="GET", path="/version")) as response:
            dated = parsedate_to_datetime(response.headers.get("date", ""))
        ahead = dated - clock.now()
    except (KubeError, TimeoutError, ValueError, TypeError):  # TypeError: a date without a time zone
        return timedelta()
    return ahead if abs(ahead) > ALIKE else timedelta()


def forbidden(error: Forbidden, verb: str, resource: str, namespace: str = "") -> NotDone:
    """What the server said, and how to see whether it has changed."""
    if IMPERSONATE in str(error):
        ask = f"ask for the right to {IMPERSONATE}, or leave --as out (kubectl auth can-i {IMPERSONATE} users)"
        return NotDone(f"{error}; {ask}")
    where = f" -n {namespace}" if namespace else ""
    return NotDone(f"{error}; ask for the right to {verb} it (kubectl auth can-i {verb} {resource}{where})")


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _User = _User()


class _Reviewed(msgspec.Struct, frozen=True):
    status: _Review = _Review()


async def who(client: Client) -> str:
    """Who the API server says that we are. A server that cannot say must not keep anybody from pulling the brake."""
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    try:
        answer = await client.ask(
            Request(method="POST", path=path, body=msgspec.json.encode(kind)), deadline=WHO_SECONDS
        )
        return msgspec.json.decode(answer, type=_Reviewed).status.user_info.username
    except (KubeError, *UNREADABLE):
        return ""
