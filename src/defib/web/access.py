"""Who may look, and who somebody is: the API server decides, asked with the token that was shown.

On a loopback address everybody who can reach it may look, but not a page of another site that has its name resolve to
us: so the Host must be one of ours there. Anywhere else whoever looks shows a token that may list NodeHealthChecks.
"""

import asyncio
import ipaddress
import re
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Any

import msgspec
from aiohttp import web

from defib.clock import Clock
from defib.kube.client import Client
from defib.kube.errors import UNREADABLE, KubeError, Unauthorized
from defib.kube.transport import Request
from defib.model.secret import Secret

AsUser = Callable[[Secret], AbstractAsyncContextManager[Client]]

REMEMBERED_SECONDS = 60.0
REMEMBERED_MAX = 256
OUTAGE_SECONDS = 600.0
REVIEW_SECONDS = 10.0
REVIEWS_AT_ONCE = 8  # whoever tries tokens by the thousand does not get the API server to judge them all
NEW_AT_ONCE, NEW_PER_SECOND = 60.0, 2.0  # tokens that nobody has shown before: each costs us a connection of its own
TOKEN_MAX = 16384
HTTP_SERVER_FAILED = 503

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
LOOK = {"verb": "list", "group": "remediation.medik8s.io", "resource": "nodehealthchecks"}

_BEARER = re.compile(r"Bearer +([\x21-\x7e]+)", re.IGNORECASE)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:]*)(:\d{1,5})?")


class NotAllowed(Exception):
    """`str()` is one line for whoever asked, `status` the HTTP status that goes with it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def is_loopback(host: str) -> bool:
    """Of an address that we listen on. A name other than localhost may mean anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_local_name(header: str) -> bool:
    """Whether a Host header names this machine, with whichever port."""
    found = _HOST.fullmatch(header)
    return found is not None and found[1].lower() in LOCAL_HOSTS


def is_same_origin(request: web.Request) -> bool:
    """Whether a page of ours asks, or nobody's page. The scheme may differ where somebody else speaks TLS for us."""
    origin = request.headers.get("Origin")
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    return origin is None or origin.partition("://")[2] == request.headers.get("Host", "")


def token_of(request: web.Request) -> Secret | None:
    """The token that was shown, None when there was none. Raises NotAllowed."""
    shown = request.headers.get("Authorization")
    if shown is None:
        return None
    found = _BEARER.fullmatch(shown)
    if found is None or len(found[1]) > TOKEN_MAX:
        raise NotAllowed(web.HTTPUnauthorized.status_code, "the Authorization header must be: Bearer, and a token")
    return Secret(found[1])


def needed_token(request: web.Request) -> Secret:
    """Raises NotAllowed."""
    token = token_of(request)
    if token is None:
        raise NotAllowed(web.HTTPUnauthorized.status_code, "show a token of the cluster: kubectl create token NAME")
    return token


class _Allowed(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _Allowed = _Allowed()


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""


class _Self(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _UserInfo = _UserInfo()


class _SelfReview(msgspec.Struct, frozen=True):
    status: _Self = _Self()


class _Known(msgspec.Struct, frozen=True):
    """What the API server said about a token when it was last asked, and until when that is taken as it is."""

    ends: float
    refusal: NotAllowed | None
    asked_at: float


class Access:
    """Remembers for a minute what the API server said about a token; never the token itself."""

    def __init__(self, as_user: AsUser, clock: Clock, namespace: str) -> None:
        self._as_user = as_user
        self._clock = clock
        self._rights = rights_in(namespace)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._room = REVIEWS_AT_ONCE
        self._new_left = NEW_AT_ONCE
        self._counted_at = clock.monotonic()

    async def check(self, token: Secret) -> None:
        """Raises NotAllowed unless whoever has this token may look."""
        key = sha256(token.reveal().encode()).digest()
        known = self._known.get(key)
        if known is None or self._clock.monotonic() >= known.ends:
            if known is None:
                self._count_new()
            known = await self._judge(token, known)
            self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        if known.refusal is not None:
            raise NotAllowed(known.refusal.status, str(known.refusal))

    def _count_new(self) -> None:
        """Whoever goes through tokens costs those who are known already nothing. Raises NotAllowed."""
        now = self._clock.monotonic()
        self._new_left = min(NEW_AT_ONCE, self._new_left + (now - self._counted_at) * NEW_PER_SECOND)
        self._counted_at = now
        if self._new_left < 1:
            raise NotAllowed(HTTP_SERVER_FAILED, "too many tokens were shown; try again in a moment")
        self._new_left -= 1

    async def _judge(self, token: Secret, known: "_Known | None") -> "_Known":
        """While the API server is out, people need to see why: whoever could look a moment ago still can.

        Else, what is not the token's fault is raised, and so not remembered.
        """
        now = self._clock.monotonic()
        try:
            rights = await self._ask(token, {"look": LOOK})
        except NotAllowed as error:
            if error.status != HTTP_SERVER_FAILED:
                # Another one of the same words: this one leads to where it was raised, and so to the token.
                return _Known(now + REMEMBERED_SECONDS, NotAllowed(error.status, str(error)), now)
            if known is not None and known.refusal is None and now < known.asked_at + OUTAGE_SECONDS:
                return _Known(now + REMEMBERED_SECONDS, None, known.asked_at)
            raise
        why = f"{rights['user'] or 'this token'} may not list nodehealthchecks.remediation.medik8s.io"
        refusal = None if rights["can"]["look"] else NotAllowed(web.HTTPForbidden.status_code, why)
        return _Known(now + REMEMBERED_SECONDS, refusal, now)

    async def me(self, token: Secret) -> dict[str, Any]:
        """Who the token belongs to, and what they may do. Raises NotAllowed."""
        return await self._ask(token, self._rights)

    async def _ask(self, token: Secret, rights: dict[str, dict[str, str]]) -> dict[str, Any]:
        if self._room <= 0:
            raise NotAllowed(HTTP_SERVER_FAILED, "too many tokens are being looked at; try again in a moment")
        self._room -= 1
        try:
            async with asyncio.timeout(REVIEW_SECONDS), self._as_user(token) as client:
                user = await _who(client)
                can = {name: await _may(client, right) for name, right in rights.items()}
        except Unauthorized:
            status = web.HTTPUnauthorized.status_code
            raise NotAllowed(status, "the API server does not accept this token; it may have expired") from None
        except (KubeError, TimeoutError, *UNREADABLE) as error:
            why = f"the API server cannot be asked about this token: {error or 'no answer in time'}"
            raise NotAllowed(HTTP_SERVER_FAILED, why) from error
        finally:
            self._room += 1
        return {"user": user, "can": can}


def rights_in(namespace: str) -> dict[str, dict[str, str]]:
    """By what can be done on the page, what it takes."""
    brake = {"verb": "patch", "resource": "configmaps", "namespace": namespace, "name": "defib-brake"}
    return {
        "look": LOOK,
        "pause": brake,
        "resume": brake,
        "approve": {"verb": "patch", "resource": "nodes"},
        "confirm-down": {"verb": "patch", "group": "defib.dev", "resource": "nodeincidents"},
    }


async def _who(client: Client) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await _post(client, "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    return msgspec.json.decode(answer, type=_SelfReview).status.user_info.username


async def _may(client: Client, right: dict[str, str]) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": right},
    }
    answer = await _post(client, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    return msgspec.json.decode(answer, type=_AccessReview).status.allowed


async def _post(client: Client, path: str, body: dict[str, Any]) -> bytes:
    return await client.ask(Request(method="POST", path=path, body=msgspec.json.encode(body)), deadline=REVIEW_SECONDS)
