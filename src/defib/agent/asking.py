"""Asking the peers about ourselves: all of them, in every domain, so many at a time that it is over in time."""

import asyncio
import math
import ssl
import uuid
from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from defib.agent.certificates import NAME, BadCertificates, Certificates
from defib.agent.exchange import BadAnswer, connect
from defib.agent.words import FIND_SECONDS, PATH, Told, says
from defib.clock import Clock
from defib.decide.self_fence.verdict import Round, Says
from defib.model.self_fence import Pace

ANSWER_SECONDS = FIND_SECONDS + 1.0  # what the peer takes to ask the API server, and the way there and back
AT_ONCE_MIN, AT_ONCE_MAX = 16, 512
AGE_SECONDS_MAX = 10.0
HTTP_OK = 200


class Address(msgspec.Struct, frozen=True):
    """Where the agent of a node answers."""

    node: str
    host: str
    port: int


class Asking(msgspec.Struct, frozen=True):
    """What does not change from one round to the next."""

    node: str
    boot_id: str
    pace: Pace
    certificates: Certificates
    clock: Clock


def at_once(peers: int, pace: Pace) -> int:
    """So many that all are asked twice in the time for peers, if none answers."""
    batches = max(1, math.floor(pace.peer_seconds / (2 * ANSWER_SECONDS)))
    return min(AT_ONCE_MAX, max(AT_ONCE_MIN, math.ceil(peers / batches)))


async def ask_all(asking: Asking, peers: Iterable[Address]) -> Round:
    """What they say. Its beginning is that of the oldest word in it."""
    waiting = list(peers)
    heard: dict[str, tuple[Says, float]] = {}
    width = at_once(len(waiting), asking.pace)
    began = asking.clock.monotonic()

    async def ask_on() -> None:
        while waiting:
            peer = waiting.pop()
            found = await _ask(asking, peer)
            if found is not None:
                heard[peer.node] = found

    async with asyncio.TaskGroup() as group:
        for _ in range(min(width, len(waiting))):
            group.create_task(ask_on())
    oldest = min((at for _, at in heard.values()), default=began)
    return Round(began_at=min(began, oldest), words={node: said for node, (said, _) in heard.items()})


async def _ask(asking: Asking, peer: Address) -> tuple[Says, float] | None:
    """What it says, and since when that is true at least. None for silence, and for what is as good as silence."""
    began = asking.clock.monotonic()
    nonce = uuid.uuid4().hex
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            told = await _told(asking, peer, nonce)
    except (OSError, EOFError, TimeoutError, BadAnswer, BadCertificates, msgspec.DecodeError):
        return None
    if (told.node, told.nonce) != (asking.node, nonce) or not 0 <= told.age_seconds <= AGE_SECONDS_MAX:
        return None
    said = says(told, asking.boot_id)
    return None if said is None else (said, began - told.age_seconds)


async def _told(asking: Asking, peer: Address, nonce: str) -> Told:
    tls: ssl.SSLContext = asking.certificates.current().asking
    line = await connect(peer.host, peer.port, tls, NAME, ANSWER_SECONDS)
    try:
        path = f"{PATH}{quote(asking.node)}?nonce={nonce}"
        answer = await line.ask(f"GET {path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n")
    finally:
        line.drop()
    if answer.status != HTTP_OK:
        raise BadAnswer(f"HTTP {answer.status}")
    return msgspec.json.decode(answer.body, type=Told)
