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
from defib.kube.credentials import Credentials, Exec, Presented
from defib.kube.errors import BadConfig, Unreachable
from defib.kube.kubeconfig import Connection, load_connection
from defib.kube.login import UNAUTHORIZED, Tls, explained, source_of
from defib.kube.transport import Request

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
        source = source_of(connection, clock)
        if isinstance(source, Exec):
            raise BadConfig(f"{connection.source}: an agent runs no exec plugin; give it a token or a certificate")
        self.connection = connection
        self._seconds = seconds
        self._credentials = Credentials(connection.user, source, clock)
        self._tls = Tls(connection, clock)
        self._kept: tuple[ssl.SSLContext | None, Line] | None = None

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator["Whole"]:
        presented = await self._credentials.current()
        answer = await self._exchange(request, presented)
        if answer.status == UNAUTHORIZED and (renewed := await self._credentials.renewed(presented)) != presented:
            answer = await self._exchange(request, renewed)
        body = answer.body
        if answer.status == UNAUTHORIZED:
            body = explained(body, self.connection.source, self._credentials.advice)
        yield Whole(answer.status, answer.headers, body)

    def describe(self) -> str:
        return f"{self.connection.server} ({self.connection.source})"

    async def close(self) -> None:
        if self._kept:
            self._kept[1].drop()
        self._kept = None

    async def _exchange(self, request: Request, presented: Presented) -> Answer:
        is_tls = self.connection.server.startswith("https:")
        tls = await self._tls.context(presented.key_pair) if is_tls else None
        line: Line | None = None
        try:
            line = self._take(tls) or await self._connect(tls)
            answer = await line.ask(self._head(request, presented), request.body)
        except BaseException as error:
            if line:
                line.drop()  # also when we gave up waiting: what was not sent by now never is
            if isinstance(error, ssl.SSLCertVerificationError):
                self._tls.doubt()
            if not isinstance(error, OSError | EOFError | BadAnswer):
                raise
            why = f"{request}: no answer from {self.describe()}: {error or type(error).__name__}"
            raise Unreachable(why) from None
        self._keep(tls, line)
        return answer

    def _take(self, tls: ssl.SSLContext | None) -> Line | None:
        """The line that was kept, unless it was opened with what has been replaced since: it would show the old."""
        kept, self._kept = self._kept, None
        if kept is None or kept[0] is tls:
            return kept[1] if kept else None
        kept[1].drop()
        return None

    def _keep(self, tls: ssl.SSLContext | None, line: Line) -> None:
        if line.is_open and self._kept is None:
            self._kept = (tls, line)
        elif line.is_open:
            line.drop()

    async def _connect(self, tls: ssl.SSLContext | None) -> Line:
        address = urlsplit(self.connection.server)
        host, port = address.hostname or "", address.port or (HTTPS_PORT if tls else HTTP_PORT)
        return await connect(host, port, tls, self.connection.tls_server_name or host, self._seconds)

    def _head(self, request: Request, presented: Presented) -> str:
        address = urlsplit(self.connection.server)
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

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        return self._body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        yield self._body
