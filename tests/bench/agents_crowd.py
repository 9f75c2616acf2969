"""A process in which many agents make their requests, each over a connection and with a token of its own.

    python -m tests.bench.agents_crowd --server URL --ca FILE --tokens FILE --agents COUNT --result FILE

Its stage: walking, when all have been answered. From SIGUSR1 on it takes notes; at SIGTERM it writes them
to the file and ends. Its agents have no watchdog and no peers to ask, which the API server does not notice.
"""

import argparse
import asyncio
import os
import signal
import socket
import struct
from collections.abc import Awaitable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from defib import __version__
from defib.agent.api import LeanTransport
from defib.agent.lease import Leases
from defib.clock import SystemClock
from defib.decide.self_fence.memory import Memory, ask_again, was_answered
from defib.kube.client import Client
from defib.kube.credentials import Token, User
from defib.kube.errors import KubeError
from defib.kube.kubeconfig import Connection
from defib.model.secret import Secret
from defib.model.self_fence import Report, peers_every
from tests.bench.agents import PACE, Notes, together
from tests.bench.stages import tell

CLOCK = SystemClock()
NAMESPACE = "default"
ZONES = ("zone-a", "zone-b", "zone-c")
KNOWN = dict.fromkeys(ZONES, 333)  # as much to write as in a cluster of 1,000
STARTED_WITHIN = 300.0
STEP = 7  # agents were started at many times, so their lists are spread over time
AT_ONCE = 4  # so many start at a time: a thousand handshakes at once are not what is measured
TCP_INFO_BYTES = 256
TCP_COUNTERS = struct.Struct("@120xQQ")  # linux/tcp.h: bytes acknowledged, bytes received


class Walker:
    """One agent as the API server sees it."""

    def __init__(self, number: int, server: str, ca: Secret, token: Secret, every: int) -> None:
        """`every`: so many requests are from one list to the next."""
        user = User(name="agent", login=Token(token))
        connection = Connection(server=server, source="the bench", ca=ca, user=user)
        client = Client(LeanTransport(connection, CLOCK, PACE.request_seconds), CLOCK)
        self.notes = Notes()
        self._number = number
        self._leases = Leases(client, NAMESPACE, f"worker-{number:04}", PACE.request_seconds, CLOCK)
        self._memory = Memory()
        self._every = every
        self._list_at = 2 + number * STEP % every

    async def begin(self) -> None:
        """Until it was answered once, so that all Leases are there and connections open."""
        while not self._memory.answered:
            await self._talk()

    async def walk(self) -> None:
        """One request in each interval, as `Agent` makes them."""
        await asyncio.sleep(CLOCK.jitter(2 * PACE.interval_seconds))  # so that one half renews while the other reads
        while True:
            began = CLOCK.monotonic()
            await self._talk()
            await asyncio.sleep(max(0.0, began + PACE.interval_seconds - CLOCK.monotonic()))

    async def _talk(self) -> None:
        self._memory = ask_again(self._memory)
        question, took = self._question()
        notes, began = self.notes, CLOCK.monotonic()
        try:
            async with asyncio.timeout(PACE.request_seconds):
                await question
        except (KubeError, TimeoutError) as error:
            name = type(error).__name__
            notes.failures[name] = notes.failures.get(name, 0) + 1
        else:
            now = CLOCK.monotonic()
            took.append(now - began)
            self._memory = was_answered(self._memory, PACE, asked_at=began, now=now, has_order=False)

    def _question(self) -> tuple[Awaitable[object], list[float]]:
        """What is asked next, and where is noted how long it took."""
        if self._memory.renews:
            return self._leases.renew(self._report()), self.notes.renewals
        if self._memory.sequence < self._list_at:
            return self._leases.read(self._report()), self.notes.reads
        self._list_at = self._memory.sequence + self._every
        return self._leases.all(), self.notes.lists

    def _report(self) -> Report:
        return Report(
            pace=PACE,
            watchdog="device",
            watchdog_seconds=15.0,
            feed_seconds=3.75,
            armed=True,
            boot_id=f"6f1d0c9e-3a52-4c57-9d8e-{self._number:012}",
            address=f"10.0.{self._number // 250}.{self._number % 250}",
            port=9640,
            domain=ZONES[self._number % len(ZONES)],
            control_plane=False,
            version=__version__,
            sequence=self._memory.sequence,
            answered=self._memory.answered,
            steady_seconds=round(self._memory.steady_seconds(CLOCK.monotonic()), 1),
            known=KNOWN,
        )


def on_the_wire(port: int) -> dict[str, tuple[int, int]]:
    """Bytes sent and received so far on each of our connections to it, as the kernel counts them."""
    found: dict[str, tuple[int, int]] = {}
    for opened in list(Path("/proc/self/fd").iterdir()):
        try:
            inode = str(opened.readlink())  # ports are used again, these are not
            with socket.socket(fileno=os.dup(int(opened.name))) as wire:
                if wire.family == socket.AF_INET and wire.getpeername()[1] == port:
                    counted = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
                    sent, received = TCP_COUNTERS.unpack_from(counted)
                    found[inode] = (sent, received)
        except OSError:
            continue  # no socket, or not a connected one
    return found


def bytes_between(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Sent and received on all that are still open."""
    begun = [before.get(connection, (0, 0)) for connection in after]
    sent = sum(now for now, _ in after.values()) - sum(then for then, _ in begun)
    received = sum(now for _, now in after.values()) - sum(then for _, then in begun)
    return sent, received


async def measure(asked: argparse.Namespace) -> None:
    tokens: dict[int, str] = msgspec.json.decode(
        await asyncio.to_thread(Path(asked.tokens).read_bytes), type=dict[int, str]
    )
    ca = Secret(await asyncio.to_thread(Path(asked.ca).read_text))
    port = urlsplit(asked.server).port or 0
    begun, ended = (_on(number) for number in (signal.SIGUSR1, signal.SIGTERM))
    every = peers_every(asked.agents)
    crowd = [Walker(number, asked.server, ca, Secret(token), every) for number, token in tokens.items()]
    async with asyncio.timeout(STARTED_WITHIN):
        await _begin(crowd)
    async with asyncio.TaskGroup() as group:
        walking = [group.create_task(walker.walk()) for walker in crowd]
        tell("walking")
        await begun.wait()
        for walker in crowd:
            walker.notes = Notes()
        before = on_the_wire(port)
        await ended.wait()
        after = on_the_wire(port)
        for task in walking:
            task.cancel()
    sent, received = bytes_between(before, after)
    notes = together([*(walker.notes for walker in crowd), Notes(bytes_sent=sent, bytes_received=received)])
    await asyncio.to_thread(Path(asked.result).write_bytes, msgspec.json.encode(notes))


def _on(number: signal.Signals) -> asyncio.Event:
    came = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(number, came.set)
    return came


async def _begin(crowd: list[Walker]) -> None:
    waiting = list(crowd)

    async def begin_some() -> None:
        while waiting:
            await waiting.pop().begin()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(begin_some())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agents_crowd")
    parser.add_argument("--server", required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--agents", required=True, type=int)
    parser.add_argument("--result", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(measure(_arguments()))
