"""The way to the API server for an agent: the transport of the client, in little memory, over one connection."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from defib import __version__
from defib.agent.exchange import Answer, BadAnswer, Line, connect
from defib.clock import Clock
from defib.kube.credentials import (
    Credentials,
    Fixed,
    FromTokenFile,
    KeyPair,
    Password,
    Presented,
    Source,
    Token,
    TokenFile,
    WatchedText,
    basic,
    bearer,
    tls_context,
)
from defib.kube.errors import BadConfig, Unreachable
from defib.kube.kubeconfig import Connection, load_connection
from defib.kube.transport import Request
from defib.model.secret import Secret

UNAUTHORIZED = 401
HTTPS_PORT, HTTP_PORT = 443, 80


async def reach(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str], clock: Clock, seconds: float
) -> "LeanTransport":
    """A transport to the cluster that is meant. Nothing is sent yet. Raises BadConfig."""
    connection = await asyncio.to_thread(load_connection, kubeconfig, context, environ)
    if connection.proxy_url is not None:
        raise BadConfig(f"{connection.source}: an agent uses no proxy; give it a direct way to the API server")
    return LeanTransport(connection, clock, seconds)


class LeanTransport:
    """One connection is kept for the next request. Requests at the same time have one each, and one of them is kept."""

    def __init__(self, connection: Connection, clock: Clock, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._credentials = Credentials(connection.user, _source(connection, clock), clock)
        self._ca = WatchedText(connection.ca, clock) if connection.ca else None
        self._tls: ssl.SSLContext | None = None
        self._made_of: tuple[Secret | None, KeyPair | None] | None = None
        self._idle: list[Line] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator["Whole"]:
        presented = await self._credentials.current()
        answer = await self._exchange(request, presented)
        if answer.status == UNAUTHORIZED and (renewed := await self._credentials.renewed(presented)) != presented:
            answer = await self._exchange(request, renewed)
        yield Whole(answer)

    def describe(self) -> str:
        return f"{self._connection.server} ({self._connection.source})"

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().drop()

    async def _exchange(self, request: Request, presented: Presented) -> Answer:
        line: Line | None = None
        try:
            line = self._idle.pop() if self._idle else await self._connect(presented.key_pair)
            answer = await line.ask(self._head(request, presented), request.body)
        except BaseException as error:
            if line:
                line.drop()  # also when we gave up waiting: what was not sent by now never is
            if not isinstance(error, OSError | EOFError | BadAnswer):
                raise
            why = f"{request}: no answer from {self.describe()}: {error or type(error).__name__}"
            raise Unreachable(why) from None
        if line.is_open and not self._idle:
            self._idle.append(line)
        elif line.is_open:
            line.drop()
        return answer

    async def _connect(self, key_pair: KeyPair | None) -> Line:
        address = urlsplit(self._connection.server)
        is_tls = address.scheme == "https"
        host, port = address.hostname or "", address.port or (HTTPS_PORT if is_tls else HTTP_PORT)
        tls = await self._context(key_pair) if is_tls else None
        return await connect(host, port, tls, self._connection.tls_server_name or host, self._seconds)

    async def _context(self, key_pair: KeyPair | None) -> ssl.SSLContext:
        ca = await self._ca.content() if self._ca else None
        if self._tls is None or self._made_of != (ca, key_pair):
            verify = not self._connection.insecure_skip_tls_verify
            self._tls = await asyncio.to_thread(tls_context, self._connection.source, ca, key_pair, verify=verify)
            self._made_of = (ca, key_pair)
        return self._tls

    def _head(self, request: Request, presented: Presented) -> str:
        address = urlsplit(self._connection.server)
        query = f"?{urlencode(request.query)}" if request.query else ""
        lines = [
            f"{request.method} {address.path.rstrip('/')}{quote(request.path, safe='/:')}{query} HTTP/1.1",
            f"Host: {address.netloc}",
            f"User-Agent: defib-agent/{__version__}",
            f"Accept: {request.accept}",
            f"Content-Length: {len(request.body)}",
            *([f"Content-Type: {request.content_type}"] if request.body else ()),
            *(f"{name}: {value}" for name, value in self._credentials.headers(presented)),
        ]
        return "\r\n".join([*lines, "", ""])


class Whole:
    """An answer that has been read to its end."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body


def _source(connection: Connection, clock: Clock) -> Source:
    match connection.user.login:
        case Token(token):
            return Fixed(bearer(token))
        case TokenFile(path):
            return FromTokenFile(path, clock)
        case Password() as login:
            return Fixed(basic(login))
        case None:
            return Fixed(Presented())
    raise BadConfig(f"{connection.source}: an agent runs no exec plugin; give it a token or a certificate")
