"""The transport that reaches a real API server, on aiohttp.

It sends what it is given, once; only a 401 makes it fetch newer credentials and ask a second time, and only a read is
sent again when the connection drops. Every way in which no answer comes ends as one Unreachable line that says what to
do. An aiohttp error holds the request's headers, and so our credentials: none is ever chained to ours.
"""

import asyncio
import io
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from defib import __version__
from defib.clock import Clock
from defib.kube.credentials import Credentials, Exec, Presented
from defib.kube.errors import BadConfig, Unreachable
from defib.kube.exec_plugin import ExecPlugin
from defib.kube.kubeconfig import Connection, load_connection
from defib.kube.login import UNAUTHORIZED, Tls, explained, source_of
from defib.kube.transport import Request, Response
from defib.wire import DroppingResponse, open_socket

CONNECT_SECONDS_MAX = 5.0
KEEPALIVE_SECONDS = 30.0  # well below what API servers and load balancers allow
PROXY_AUTH_REQUIRED = 407
BODY_AT_ONCE_BYTES = 2**20
GATHER_SECONDS = 0.1
GATHER_NOT_BEFORE_SECONDS = 1.0  # a stream begins with a list or with what was missed, and somebody waits for that
READ_BYTES = 2**16
BACKLOG_BYTES = 2**17  # so much at once means that more is on its way: a list, or a storm
GATHER_BYTES_MAX = 2**20
CLOSED = -1

# The first that fits is told.
_TROUBLES: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ClientConnectorDNSError, "no such host; is the address in {source} right, and does DNS work?"),
    (aiohttp.ClientProxyConnectionError, "{why}; is the proxy running, and is proxy-url in {source} right?"),
    (ssl.SSLError, "TLS failed: {why}; does the address in {source} speak HTTPS?"),
    (TimeoutError, "no connection in time; is a firewall or a VPN in the way, and is the address in {source} right?"),
    (aiohttp.ClientConnectorError, "{why}; is the API server running, and is the address in {source} right?"),
    (aiohttp.ClientResponseError, "it does not speak HTTP; is the address in {source} right?"),
    (Exception, "it closed the connection without an answer ({why}); is it being restarted?"),
)

# By OpenSSL's number for why a certificate is not accepted (x509_vfy.h).
_WRONG_NAME = "its certificate is for another name; correct the address in {source}, or set tls-server-name there"
_DISTRUST = {
    9: "its certificate is not valid yet; is this machine's clock right?",
    10: "its certificate has expired; renew it on the server, or correct this machine's clock",
    62: _WRONG_NAME,
    64: _WRONG_NAME,
}
_UNKNOWN_CA = "its certificate is not signed by a CA that {source} names; put the cluster's CA there"


async def connect(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], clock: Clock
) -> "HttpTransport":
    """A transport to the cluster that these flags and this environment mean. Nothing is sent yet."""
    connection = await asyncio.to_thread(load_connection, kubeconfig, context, environ)
    return await open_transport(connection, environ, clock)


async def open_transport(connection: Connection, environ: Mapping[str, str], clock: Clock) -> "HttpTransport":
    """Raises BadConfig when the certificates at hand cannot be used."""
    source = source_of(connection, clock)
    login = ExecPlugin(connection, environ, clock) if isinstance(source, Exec) else source
    transport = HttpTransport(connection, Credentials(connection.user, login, clock), clock)
    try:
        await transport.check_certificates()
    except BadConfig:
        await transport.close()
        raise
    return transport


class HttpTransport:
    """One session with one API server. Make it inside the event loop that uses it."""

    def __init__(
        self,
        connection: Connection,
        credentials: Credentials,
        clock: Clock,
        *,
        connect_seconds_max: float = CONNECT_SECONDS_MAX,
    ) -> None:
        self.connection = connection
        self._credentials = credentials
        self._clock = clock
        self._tls = Tls(connection, clock)
        self._proxy = connection.proxy_url.reveal() if connection.proxy_url else None
        self._session = aiohttp.ClientSession(
            # The client above bounds what is in flight; a watch may hold its connection for as long as it likes.
            # Kept for a while after use: a burst is often followed by another one, and a TLS handshake costs more CPU
            # than the request that it is for.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS, socket_factory=open_socket),
            response_class=DroppingResponse,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_seconds_max),
            headers={
                "User-Agent": f"defib/{__version__}",
                # Unpacking costs more CPU than the bytes are worth inside a data centre.
                "Accept-Encoding": "identity",
            },
        )

    async def check_certificates(self) -> None:
        """Raises BadConfig when they cannot be used. Runs no plugin, sends nothing."""
        if self._is_tls:
            await self._tls.context(await self._credentials.own_key_pair())

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        answer = await self._answer(request)
        try:
            yield answer
        finally:
            answer.close()

    def describe(self) -> str:
        waits_for = self._credentials.waits_for()
        stuck = f", whose {waits_for} did not end" if waits_for else ""
        return f"{_way(self.connection)} ({self.connection.source}{stuck})"

    async def close(self) -> None:
        await self._session.close()

    @property
    def _is_tls(self) -> bool:
        return self.connection.server.startswith("https:")

    async def _answer(self, request: Request) -> "_Answer | _Refusal":
        presented = await self._credentials.current()
        answer = await self._exchange(request, presented)
        if answer.status != UNAUTHORIZED:
            return answer
        refusal = await self._refusal(answer)
        renewed = await self._credentials.renewed(presented)
        if renewed == presented:
            return refusal
        # A refused request was not carried out, so any may be repeated, also a write.
        answer = await self._exchange(request, renewed)
        return answer if answer.status != UNAUTHORIZED else await self._refusal(answer)

    async def _exchange(self, request: Request, presented: Presented) -> "_Answer":
        headers = CIMultiDict([("Accept", request.accept), *self._credentials.headers(presented)])
        if request.body:
            headers["Content-Type"] = request.content_type
        tls = await self._tls.context(presented.key_pair) if self._is_tls else True
        with self._told(request):
            response = await self._session.request(
                request.method,
                _url(self.connection.server, request),
                data=_payload(request.body),
                headers=headers,
                allow_redirects=False,  # they would take our credentials elsewhere
                ssl=tls,
                server_hostname=self.connection.tls_server_name or None,
                proxy=self._proxy,
                middlewares=() if request.method == "GET" else (_never_again,),
            )
        when_broken = f"{request}: the connection to {self.connection.server} broke in mid-answer"
        return _Answer(response, when_broken, self._clock)

    @contextmanager
    def _told(self, request: Request) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                self._tls.doubt()
            raise Unreachable(f"{request}: {_trouble(error, self.connection)}") from None

    async def _refusal(self, answer: "_Answer") -> "_Refusal":
        try:
            body = await answer.read()
        finally:
            answer.close()
        return _Refusal(answer.headers, explained(body, self.connection.source, self._credentials.advice))


class _Lost(aiohttp.ClientError):
    """The connection dropped after the request was sent. Whether it was carried out, nobody knows."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.os_error = error


async def _never_again(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Left to itself aiohttp sends a DELETE or PUT a second time after these errors, but not after another."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise  # nothing was sent
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Lost(error) from None


class _Answer:
    """A response whose body is still on its way."""

    def __init__(self, response: aiohttp.ClientResponse, when_broken: str, clock: Clock) -> None:
        self._response = response
        self._when_broken = when_broken
        self._clock = clock
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}

    async def read(self) -> bytes:
        with self._told():
            return await self._response.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        burst = 0
        gathers_from = self._clock.monotonic() + GATHER_NOT_BEFORE_SECONDS
        while True:
            with self._told():
                chunk = await self._response.content.read(READ_BYTES)
            if not chunk:
                return
            burst += len(chunk)
            yield chunk
            if len(chunk) == READ_BYTES:
                continue  # more is here already
            if burst < BACKLOG_BYTES and self._clock.monotonic() >= gathers_from:
                await self._let_more_arrive()
            burst = 0

    async def _let_more_arrive(self) -> None:
        """A busy watch is read ten times a second, not once for every event, which costs half as much.

        The kernel is told not to wake us for less than a lot; the end of the stream wakes us all the same.
        """
        connection = self._response.connection
        wire = connection.transport.get_extra_info("socket") if connection and connection.transport else None
        if wire is None:
            return
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, GATHER_BYTES_MAX)
        try:
            await asyncio.sleep(GATHER_SECONDS)
        finally:
            if wire.fileno() != CLOSED:
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def close(self) -> None:
        """A body that was read to its end has given its connection back already; any other loses it here."""
        self._response.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, OSError):
            raise Unreachable(self._when_broken) from None


class _Refusal:
    """A 401 that came even with the newest credentials: the server's own words, and what to do."""

    status = UNAUTHORIZED

    def __init__(self, headers: Mapping[str, str], body: bytes) -> None:
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body

    def close(self) -> None:
        """Nothing is open."""


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    """What is big goes as a stream: written in one go it would hold up the event loop."""
    if len(body) > BODY_AT_ONCE_BYTES:
        return io.BytesIO(body)
    return body or None


def _url(server: str, request: Request) -> URL:
    query = f"?{urlencode(request.query)}" if request.query else ""
    return URL(f"{server}{quote(request.path, safe='/:')}{query}", encoded=True)


def _trouble(error: Exception, connection: Connection) -> str:
    """Why no answer came, and what to do about it."""
    source, proxy, way = connection.source, _proxy_address(connection), _way(connection)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        is_proxy = bool(proxy) and urlsplit(f"//{proxy}").hostname == error.host
        who = f"proxy {proxy}" if is_proxy else connection.server
        code = getattr(error.certificate_error, "verify_code", 0)
        return f"cannot trust {who}: {_DISTRUST.get(code, _UNKNOWN_CA).format(source=source)}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        what = "wants another user name and password" if error.status == PROXY_AUTH_REQUIRED else f"said {error.status}"
        return f"cannot reach {way}: the proxy {what}; correct proxy-url in {source}"
    cause = getattr(error, "os_error", error)  # the kernel may be the first to give a connection up
    text = next(text for kind, text in _TROUBLES if isinstance(error, kind) or isinstance(cause, kind))
    return f"cannot reach {way}: {text.format(source=source, why=_why(error))}"


def _why(error: Exception) -> str:
    origin = getattr(error, "os_error", error)
    if isinstance(origin, ssl.SSLError):
        return (origin.reason or "TLS error").lower().replace("_", " ")
    return os.strerror(origin.errno).lower() if isinstance(origin, OSError) and origin.errno else type(origin).__name__


def _way(connection: Connection) -> str:
    proxy = _proxy_address(connection)
    return f"{connection.server} through proxy {proxy}" if proxy else connection.server


def _proxy_address(connection: Connection) -> str:
    """Host and port; the rest may be a password."""
    return urlsplit(connection.proxy_url.reveal()).netloc.rpartition("@")[2] if connection.proxy_url else ""
