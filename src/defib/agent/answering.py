"""Answering peers that ask about themselves: with what the API server says now of their Lease, or that it does not answer us either.

Whoever asks must show a certificate of the agents' authority, and gets nothing but that. One connection is one question.
"""

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import structlog

from defib.agent.certificates import Certificates
from defib.agent.exchange import HEAD_BYTES_MAX
from defib.agent.trouble import CannotRun
from defib.agent.words import PATH, Told, Word
from defib.clock import Clock
from defib.model.self_fence import Order

log = structlog.get_logger("agent")

QUESTION_SECONDS = 5.0
CONNECTIONS_MAX = 128
PER_ASKER_SECONDS = 0.25  # between two questions of one address
ASKERS_MAX = 1024
SHARED_SECONDS = 2.0  # for so long one look at a Lease answers all who ask
SHARED_MAX = 256
DOUBT_SECONDS = 5.0  # from one look to the next, while none is answered: longer than one takes
LOOKS_PER_SECOND = 10.0  # at the API server, for all peers together
LOOKS_BURST = 20.0
NONCE_MAX = 64
ROTATION_SECONDS = 5.0


class CannotAnswer(CannotRun):
    """The address cannot be listened on."""


class Found(msgspec.Struct, frozen=True):
    word: Word
    order: Order | None = None


Look = Callable[[str], Awaitable[Found]]


class Relay:
    """What the API server says of a node's Lease: one look for all who ask within a moment, and not too many looks.

    Whoever is told that we are cut off may live by that. So we remember when we last said it, and report that. While the API
    server does not answer we say so at once, however many ask: when it is down for all, all lives hang on that.
    """

    def __init__(self, look: Look, clock: Clock) -> None:
        self.steady_since = clock.monotonic()  # since then nobody was told that we are cut off
        self._look = look
        self._clock = clock
        self._shared: OrderedDict[str, tuple[float, asyncio.Future[Found]]] = OrderedDict()
        self._spare = LOOKS_BURST
        self._counted_at = clock.monotonic()
        self._doubts_until = -math.inf
        self._look_again_at = -math.inf

    async def ask(self, node: str) -> tuple[Found, float]:
        """And since when that is true."""
        found, began = await self._find(node)
        if found.word is not Word.CUT_OFF:
            return found, began
        self.steady_since = self._clock.monotonic()
        return found, self.steady_since

    async def _find(self, node: str) -> tuple[Found, float]:
        now = self._clock.monotonic()
        if now < min(self._doubts_until, self._look_again_at):
            return Found(Word.CUT_OFF), now
        began, found = self._shared.get(node, (0.0, None))
        if found is not None and now - began < SHARED_SECONDS:
            return await asyncio.shield(found), began
        if not self._may_look(now):
            return Found(Word.UNKNOWN), now
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._shared[node] = (now, future)
        self._shared.move_to_end(node)
        if len(self._shared) > SHARED_MAX:
            self._shared.popitem(last=False)
        self._look_again_at = now + DOUBT_SECONDS
        result = Found(Word.UNKNOWN)
        try:
            result = await self._look(node)
        finally:
            future.set_result(result)
        is_in_vain = result.word is Word.CUT_OFF
        self._doubts_until = self._clock.monotonic() + 2 * DOUBT_SECONDS if is_in_vain else -math.inf
        return result, now

    def _may_look(self, now: float) -> bool:
        self._spare = min(LOOKS_BURST, self._spare + (now - self._counted_at) * LOOKS_PER_SECOND)
        self._counted_at = now
        if self._spare < 1:
            return False
        self._spare -= 1
        return True


class Askers:
    """Who asked when: nobody may ask all the time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: OrderedDict[str, float] = OrderedDict()

    def may_ask(self, asker: str) -> bool:
        now = self._clock.monotonic()
        if now - self._last.get(asker, -PER_ASKER_SECONDS) < PER_ASKER_SECONDS:
            return False
        self._last[asker] = now
        self._last.move_to_end(asker)
        if len(self._last) > ASKERS_MAX:
            self._last.popitem(last=False)
        return True


class Desk:
    """Takes questions from connections."""

    def __init__(self, relay: Relay, clock: Clock) -> None:
        self._relay = relay
        self._clock = clock
        self._askers = Askers(clock)
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._open += 1
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            asker = writer.get_extra_info("peername")
            status, body = await self._answer(head, asker[0] if asker else "")
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n".encode()
                + body
            )
            async with asyncio.timeout(QUESTION_SECONDS):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            self._open -= 1

    async def _answer(self, head: bytes, asker: str) -> tuple[str, bytes]:
        question = _question(head)
        if question is None:
            return "404 Not Found", b""
        if not self._askers.may_ask(asker):
            return "429 Too Many Requests", b""
        node, nonce = question
        found, began = await self._relay.ask(node)
        told = Told(
            node=node,
            nonce=nonce,
            word=found.word,
            order=found.order,
            age_seconds=max(0.0, self._clock.monotonic() - began),
        )
        return "200 OK", msgspec.json.encode(told)


def _question(head: bytes) -> tuple[str, str] | None:
    """The node and the number; None for anything else."""
    method, _, rest = head.decode("latin-1").partition(" ")
    try:
        target = urlsplit(rest.partition(" ")[0])
    except ValueError:
        return None
    node = unquote(target.path.removeprefix(PATH))
    (nonce,) = parse_qs(target.query).get("nonce", [""])[:1]
    if method != "GET" or not target.path.startswith(PATH) or not node or "/" in node:
        return None
    return (node, nonce) if 0 < len(nonce) <= NONCE_MAX else None


@asynccontextmanager
async def answering(
    desk: Desk, host: str, port: int, certificates: Certificates, *, look_seconds: float = ROTATION_SECONDS
) -> AsyncIterator[int]:
    """Listen while the context lasts; gives the port. New certificates are shown from the next look on."""
    server = await _listen(desk, host, port, certificates)
    bound: int = server.sockets[0].getsockname()[1]

    async def renew() -> None:
        nonlocal server
        shown = certificates.current()
        while True:
            await asyncio.sleep(look_seconds)
            if certificates.current() is not shown:
                shown = certificates.current()
                server.close()
                server = await _listen(desk, host, bound, certificates)
                log.info("new certificates are shown to peers")

    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(renew())
        try:
            yield bound
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            server.close()


async def _listen(desk: Desk, host: str, port: int, certificates: Certificates) -> asyncio.Server:
    try:
        return await asyncio.start_server(
            desk.serve,
            host,
            port,
            ssl=certificates.current().answering,
            limit=HEAD_BYTES_MAX,
            ssl_handshake_timeout=QUESTION_SECONDS,
        )
    except OSError as error:
        raise CannotAnswer(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another with --address"
        ) from error
