"""A process in which many agents, or as many kubelets, make their requests, each over a connection and with a token of its own.

    python -m tests.bench.agents_crowd --who agents --server URL --ca FILE --tokens FILE --agents COUNT --result FILE

Its stage: walking, when all have been answered. From SIGUSR1 on it takes notes; at SIGTERM it writes them
to the file and ends. Its agents have no watchdog and no peers to ask, which the API server does not notice. Its kubelets only
renew their heartbeats, as real ones do: the whole Lease, with the version that they know. But in JSON, and not with certificates.
"""

import argparse
import asyncio
import math
import os
import signal
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from defib import __version__
from defib.agent.api import LeanTransport
from defib.agent.lease import Leases
from defib.clock import SystemClock
from defib.kube.client import Client
from defib.kube.credentials import Token, User
from defib.kube.errors import KubeError
from defib.kube.kubeconfig import Connection
from defib.kube.transport import Request
from defib.model.secret import Secret
from defib.model.self_fence import Report, peers_every
from tests.bench.agents import AGENTS_WALK, HEARTBEAT_SECONDS, KUBELETS_WALK, PACE, Notes, together
from tests.bench.stages import tell

CLOCK = SystemClock()
NAMESPACE = "default"
HEARTBEATS = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
ZONES = ("zone-a", "zone-b", "zone-c")
KNOWN = dict.fromkeys(ZONES, 333)  # as much to write as in a cluster of 1,000
STARTED_WITHIN = 300.0
STEP = 7  # agents were started at many times, so their lists are spread over time
AT_ONCE = 4  # so many start at a time: a thousand handshakes at once are not what is measured
TCP_INFO_BYTES = 256
TCP_COUNTERS = struct.Struct("@120xQQ")  # linux/tcp.h: bytes acknowledged, bytes received


class Walker(ABC):
    """One client of the API server, with one request in each interval."""

    interval_seconds: ClassVar[float]

    def __init__(self, number: int, client: Client) -> None:
        self.notes = Notes()
        self._number = number
        self._client = client
        self._is_known = False

    async def begin(self) -> None:
        """Until it was answered once, so that all Leases are there and connections open."""
        while not self._is_known:
            await self._talk()

    async def walk(self) -> None:
        """One request in each interval, from some moment of the first one on: they were started at many times."""
        await asyncio.sleep(CLOCK.jitter(self.interval_seconds))
        while True:
            began = CLOCK.monotonic()
            await self._talk()
            await asyncio.sleep(max(0.0, began + self.interval_seconds - CLOCK.monotonic()))

    async def _talk(self) -> None:
        question, took = self._question()
        notes, began = self.notes, CLOCK.monotonic()
        try:
            async with asyncio.timeout(PACE.request_seconds):
                await question
        except (KubeError, TimeoutError) as error:
            name = type(error).__name__
            notes.failures[name] = notes.failures.get(name, 0) + 1
        else:
            took.append(CLOCK.monotonic() - began)
            self._is_known = True

    @abstractmethod
    def _question(self) -> tuple[Awaitable[object], list[float]]:
        """What is asked next, and where is noted how long it took."""


class WalkingAgent(Walker):
    """As `Agent` asks: renewals, and every so often a list of all."""

    interval_seconds = PACE.interval_seconds

    def __init__(self, number: int, client: Client, every: int) -> None:
        """`every`: so many requests are from one list to the next."""
        super().__init__(number, client)
        self._leases = Leases(client, NAMESPACE, f"worker-{number:04}", PACE.request_seconds, CLOCK)
        self._began = CLOCK.monotonic()
        self._requests = 0
        self._every = every
        self._list_at = 2 + number * STEP % every

    def _question(self) -> tuple[Awaitable[object], list[float]]:
        self._requests += 1
        if self._requests < self._list_at:
            return self._leases.renew(self._report()), self.notes.renewals
        self._list_at = self._requests + self._every
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
            version=__version__,
            answered_seconds=PACE.interval_seconds,
            steady_seconds=math.floor(CLOCK.monotonic() - self._began),
            known=KNOWN,
        )


class WalkingKubelet(Walker):
    """The heartbeat of a node."""

    interval_seconds = HEARTBEAT_SECONDS

    def __init__(self, number: int, client: Client, _every: int) -> None:
        super().__init__(number, client)
        self._lease: dict[str, Any] = {}

    def _question(self) -> tuple[Awaitable[object], list[float]]:
        return self._renew(), self.notes.renewals

    async def _renew(self) -> None:
        name = f"worker-{self._number:04}"
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": f"{CLOCK.now():%Y-%m-%dT%H:%M:%S.%fZ}"}
        known = self._lease.get("metadata")
        lease = {**LEASE, "metadata": known or {"name": name}, "spec": spec}
        request = Request(
            method="PUT" if known else "POST",
            path=f"{HEARTBEATS}/{name}" if known else HEARTBEATS,
            body=msgspec.json.encode(lease),
        )
        self._lease = msgspec.json.decode(await self._client.ask(request, deadline=PACE.request_seconds))


WALKERS: dict[str, Callable[[int, Client, int], Walker]] = {AGENTS_WALK: WalkingAgent, KUBELETS_WALK: WalkingKubelet}


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
    crowd = [
        WALKERS[asked.who](number, _client(asked.server, ca, Secret(token)), every) for number, token in tokens.items()
    ]
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


def _client(server: str, ca: Secret, token: Secret) -> Client:
    connection = Connection(server=server, source="the bench", ca=ca, user=User(name="walker", login=Token(token)))
    return Client(LeanTransport(connection, CLOCK, PACE.request_seconds), CLOCK)


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
    parser.add_argument("--who", required=True, choices=list(WALKERS))
    parser.add_argument("--server", required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--agents", required=True, type=int)
    parser.add_argument("--result", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(measure(_arguments()))
