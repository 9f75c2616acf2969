"""One HTTP request with one answer, for drivers: TLS that is verified, a size that is bounded, credentials that stay here.

A connection lives for one request: the small servers in BMCs have few of them to give. Nothing is followed,
unpacked or sent twice, and no proxy of the environment is used. An aiohttp error holds the request's headers, and so
our credentials: none is ever chained to ours.
"""

import asyncio
import functools
import os
import re
import socket
import ssl
from collections.abc import Callable

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from defib import __version__
from defib.power.calls import Denied, Doubtful, S, T
from defib.power.threads import Threads
from defib.wire import DroppingResponse, open_socket

BODY_BYTES_MAX = 2**20
READ_BYTES = 2**16
HTTP_GOOD = range(200, 300)

# What decoding hostile or broken bytes can raise.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_PATH = re.compile(r"/(?!/)[!-~]*")


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ca`: certificates in PEM to trust instead of the system's. `insecure`: also plain HTTP or any certificate."""

    ca: str = ""
    insecure: bool = False


class Question(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    url: str
    headers: dict[str, str]
    body: bytes = b""


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    retry_after: str = ""  # as it says it

    @property
    def is_good(self) -> bool:
        return self.status in HTTP_GOOD


class Https:
    """Looks names up in its own threads: those of the event loop are few, and DNS may hang for many machines at once."""

    def __init__(self, threads: Threads | None = None) -> None:
        self._threads = threads or Threads()

    async def ask(self, question: Question, options: TlsOptions, place: str) -> Answer:
        """Raises Denied when nothing was sent, and Doubtful when it was and no whole answer came."""
        _expect_safe(question.url, options)
        try:
            tls = await asyncio.to_thread(_tls_context, options)
        except ssl.SSLError:
            raise Denied("its option `ca` holds no certificates in PEM that can be read") from None
        connector = aiohttp.TCPConnector(
            limit=1,
            force_close=True,
            use_dns_cache=False,
            resolver=_Resolver(self._threads, place),
            ssl=tls,
            socket_factory=open_socket,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            response_class=DroppingResponse,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # the caller's deadline is the only one
            auto_decompress=False,
            headers={"User-Agent": f"defib/{__version__}", "Accept-Encoding": "identity"},
        ) as session:
            try:
                return await _exchange(session, question)
            except (aiohttp.ClientError, OSError) as error:
                raise _trouble(error) from None


async def _exchange(session: aiohttp.ClientSession, question: Question) -> Answer:
    async with session.request(
        question.method,
        URL(question.url, encoded=True),
        headers=question.headers,
        data=question.body or None,
        allow_redirects=False,  # they would take our credentials elsewhere
    ) as response:
        body = bytearray()
        async for chunk in response.content.iter_chunked(READ_BYTES):
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                response.close()
                raise Doubtful(f"it answered with more than {BODY_BYTES_MAX} bytes")
        return Answer(response.status, bytes(body), response.headers.get("Retry-After", ""))


def decoded(answer: Answer, kind: type[S]) -> S:
    """Raises Doubtful when the answer is not of this kind."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except UNREADABLE as error:
        why = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
        raise Doubtful(f"its answer makes no sense: {why}") from None


def origin_of(address: str) -> str:
    """Scheme, host and port: what a BMC is, whatever path of it is meant. Raises Denied when it is no such address."""
    return str(_url(address).origin())


def path_of(address: str) -> str:
    return _url(address).raw_path.rstrip("/")


def url_of(address: str) -> str:
    """The address as it may be sent: what has no place in a URL is quoted."""
    return str(_url(address))


def is_path(link: str) -> bool:
    """A link that stays on the server it came from. Anything else would take our credentials there."""
    return _PATH.fullmatch(link) is not None


def _url(address: str) -> URL:
    try:
        url = URL(address)
        host = url.host
    except ValueError:  # also of a name that is written as an international one, and is none
        raise Denied("its address is no URL") from None
    if url.scheme not in {"http", "https"} or not host:
        raise Denied("its address is no URL that begins with https://")
    if url.raw_user or url.raw_password:
        raise Denied("its address holds a user name or a password: they belong into the Secret")
    return url


def _expect_safe(url: str, options: TlsOptions) -> None:
    if not url.startswith("https:") and not options.insecure:
        raise Denied("its address is not https://, so its secrets could be read on the way; set `insecure` to allow it")


@functools.lru_cache(maxsize=64)
def _tls_context(options: TlsOptions) -> ssl.SSLContext:
    """Reads files: not for the event loop."""
    if options.insecure:
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        return trusting
    ca = options.ca.encode("ascii", "ignore").decode()  # bundles name their authorities in comments, in any language
    if options.ca and not ca:
        raise ssl.SSLError
    return ssl.create_default_context(cadata=ca or None)


class _Resolver(AbstractResolver):
    def __init__(self, threads: Threads, place: str) -> None:
        self._threads = threads
        self._place = f"look up {place}"

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        look_up = functools.partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
        return [
            ResolveResult(
                hostname=host,
                host=str(at[0]),
                port=int(at[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
            )
            for kind, _, protocol, _, at in await self._look_up(look_up)
        ]

    async def _look_up(self, look_up: Callable[[], T]) -> T:
        try:
            return await self._threads.run(self._place, look_up)
        except UnicodeError as error:
            raise OSError(str(error)) from None  # no name at all, which aiohttp does not expect

    async def close(self) -> None:
        """Nothing is kept."""


def _trouble(error: aiohttp.ClientError | OSError) -> Denied | Doubtful:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "") or "it is not trusted"
            return Denied(f"its certificate is not accepted: {why}; is its CA in the option `ca`?")
        case aiohttp.ClientConnectorDNSError():
            return Denied("the name in its address cannot be looked up: is the address right, and does DNS work?")
        case aiohttp.ClientSSLError():
            return Denied(f"TLS failed: {_reason(error)}; does its address speak HTTPS?")
        case aiohttp.ClientConnectorError():
            return Denied(f"it cannot be reached: {_reason(error)}")
        case aiohttp.ClientResponseError():
            return Doubtful("it does not answer in HTTP: is the address right?")
        case _:
            return Doubtful("it broke off in mid-answer")


def _reason(error: aiohttp.ClientConnectorError) -> str:
    """The system's own words, without the address and what else is added to them on the way."""
    cause = error.os_error
    return getattr(cause, "reason", "") or (os.strerror(cause.errno) if cause.errno else type(cause).__name__)
