"""The links between nodes, and to the API server, each direction by itself; and what is sent over them.

What is sent over a link that is cut is lost, and nobody is told. Whoever waits for it has a deadline of their own.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from typing import Any

import msgspec

from defib.kube.transport import Request, Response, Transport
from defib.model.self_fence import lease_name
from tests.simulation.freezing import REPLICA, FreezingLoop

API = "api"
AGENT = "agent-"  # and the node: as whom an agent talks, and is frozen
ON_THE_WAY_SECONDS = 0.001
TOO_MANY, SERVER_FAILS = 429, 500

Link = tuple[str, str]  # from, to
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Desk(msgspec.Struct, frozen=True):
    """Whoever answers at an address. It does so in a context of its own: its steps are put aside while it is frozen."""

    node: str
    serve: Serve
    context: Context
    is_there: Callable[[], bool]


class Network:
    """A link that was cut twice must be mended twice."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.desks: dict[str, Desk | None] = {}  # by host; None refuses, and where nothing stands all is silence
        self._now = now
        self._cuts: Counter[Link] = Counter()
        self._mended_at = -math.inf

    def cut(self, links: Iterable[Link]) -> None:
        self._cuts.update(links)

    def mend(self, links: Iterable[Link]) -> None:
        self._cuts.subtract(links)
        self._mended_at = self._now()

    def passes(self, one: str, other: str) -> bool:
        return not self._cuts[one, other]

    def nodes_talk_since(self) -> float:
        """Since when every node surely reaches every other; never, while one does not."""
        is_whole = not any(times and API not in link for link, times in self._cuts.items())
        return self._mended_at if is_whole else math.inf


class AgentLine:
    """The way of one agent to the API server. Whoever looks on hears what was answered to it, but not for its peers."""

    def __init__(self, transport: Transport, network: Network, node: str, heard: Callable[[bytes], None]) -> None:
        self._transport = transport
        self._network = network
        self._node = node
        self._heard = heard

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        await self._pass(self._node, API)
        async with self._transport.send(request) as response:
            await self._pass(API, self._node)
            is_own = request.method != "GET" or request.path.endswith(("/leases", f"/{lease_name(self._node)}"))
            if is_own and response.status < SERVER_FAILS and response.status != TOO_MANY:
                self._heard(await response.read())
            yield response

    def describe(self) -> str:
        return self._transport.describe()

    async def close(self) -> None:
        await self._transport.close()

    async def _pass(self, one: str, other: str) -> None:
        if not self._network.passes(one, other):
            await asyncio.Event().wait()


class TalkingLoop(FreezingLoop):
    """Its connections lead over the network of the day to whoever answers there."""

    network: Network | None = None

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # noqa: ARG002
        """The asker is known by its context. TLS is left out: who may ask is tried elsewhere."""
        assert self.network is not None, "agents talk where there is a network"
        network, asker = self.network, REPLICA.get().removeprefix(AGENT)
        await asyncio.sleep(ON_THE_WAY_SECONDS)
        if host not in network.desks:
            await asyncio.Event().wait()
        desk = network.desks[host]
        if desk is None:
            raise ConnectionRefusedError(f"nobody listens at {host}")
        if not (network.passes(asker, desk.node) and network.passes(desk.node, asker)):
            await asyncio.Event().wait()
        return self._connect(network, asker, desk, protocol_factory())

    def _connect(self, network: Network, asker: str, desk: Desk, asking: asyncio.Protocol) -> tuple["End", Any]:
        answering = asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=self), desk.serve, loop=self)
        ours = End(lambda: network.passes(asker, desk.node), desk.node, asking, copy_context())
        its = End(lambda: desk.is_there() and network.passes(desk.node, asker), asker, answering, desk.context)
        ours.other, its.other = its, ours
        asking.connection_made(ours)
        self.call_soon(answering.connection_made, its, context=desk.context)
        return ours, asking


class End(asyncio.Transport):
    """One end of a connection: what is written here is read there, if the link is whole at that moment."""

    other: "End"

    def __init__(self, passes: Callable[[], bool], to: str, protocol: asyncio.Protocol, context: Context) -> None:
        super().__init__({"socket": _Wire(), "peername": (to, 0)})
        self._passes = passes
        self._protocol = protocol
        self._context = context
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._deliver(self.other._receive, bytes(data))

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self._is_closed:
            self._deliver(self.other._end)
            self._end()

    def abort(self) -> None:
        self.close()

    def _deliver(self, take: Callable[..., None], *what: bytes) -> None:
        if not self._is_closed and self._passes():
            loop = asyncio.get_running_loop()
            loop.call_later(ON_THE_WAY_SECONDS, take, *what, context=self.other._context)

    def _receive(self, data: bytes) -> None:
        if not self._is_closed:
            self._protocol.data_received(data)

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None, context=self._context)


class _Wire:
    """A socket of which nothing is wanted."""

    def setsockopt(self, *_: Any) -> None:
        """Links are cut here by the network alone."""
