"""The embedded server behind the client's own seam: bytes in, bytes out, no socket."""

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType, coroutine

from defib.kube.errors import Unreachable
from defib.kube.transport import Request, Response
from defib.simulate.answers import Answer
from defib.simulate.exchange import Exchange
from defib.simulate.server import ApiServer


class _Received:
    """An answer as a Response."""

    def __init__(self, exchange: Exchange, answer: Answer) -> None:
        self._exchange = exchange
        self._answer = answer

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer.headers

    async def read(self) -> bytes:
        if self._answer.watch is None:
            return self._answer.body
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._exchange.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ConnectionError as error:
            raise Unreachable(f"the connection to the API server broke: {error}") from error


@coroutine
def _a_turn_for_others() -> Generator[None, None, None]:
    """As asyncio.sleep(0), with a step less: each request does it twice."""
    yield


class _Sending:
    def __init__(self, server: ApiServer, request: Request, client: str) -> None:
        self._exchange = Exchange(server, request, client)
        self._request = request

    async def __aenter__(self) -> Response:
        # A request over a network never comes back without somebody else having had a turn. Nor does this one.
        await _a_turn_for_others()
        try:
            answer = await self._exchange.answer()
        except ConnectionError as error:
            raise Unreachable(f"{self._request}: {error}") from error
        await _a_turn_for_others()
        return _Received(self._exchange, answer)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exchange.close()


class InProcess:
    """A Transport straight into an embedded server, under a client's name."""

    def __init__(self, server: ApiServer, client: str = "defib") -> None:
        self._server = server
        self._client = client

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        return _Sending(self._server, request, self._client)

    def describe(self) -> str:
        return "the embedded API server"

    async def close(self) -> None:
        """Nothing to close: there is no connection."""
