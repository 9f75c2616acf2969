"""The process that writes to the API server while others are measured: it makes the fleet, changes it, keeps it alive.

python -m tests.bench.writer nodes|heartbeats|changes|renewals --kubeconfig FILE --nodes N …
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import msgspec

from defib.clock import SystemClock
from defib.kube.http import connect
from defib.kube.kinds import LEASES, NODES
from defib.kube.transport import MERGE_PATCH, Request, Transport
from tests.bench import fleet

WRITERS = 64
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
RENEW_SECONDS = 10.0
STATUS_SHARE = 0.7  # the rest are annotations
SAY_EVERY_SECONDS = 5.0


class NotWritten(Exception):
    """The API server did not take a change, so what is measured would not be what is said."""


def node_creations(count: int) -> Iterator[Request]:
    for number in range(count):
        yield _creation(NODES.collection(), fleet.a_node(number))


def second_writers(count: int) -> Iterator[Request]:
    """Every node has two field managers, as in life: the kubelet, and one that adds a condition to it."""
    for number in range(count):
        yield _status_report(number, 0)


def heartbeat_creations(count: int) -> Iterator[Request]:
    for number in range(count):
        yield _creation(LEASES.collection(fleet.HEARTBEAT_NAMESPACE), fleet.a_heartbeat(number))


def changes(count: int, nodes: int, seed: int) -> Iterator[Request]:
    """Each is news: no two of one round write the same."""
    chance = Random(seed)
    for beat in range(seed * 1_000_000, seed * 1_000_000 + count):
        number = chance.randrange(nodes)
        if chance.random() < STATUS_SHARE:
            yield _status_report(number, beat)
        else:
            yield _patch(NODES.at(fleet.name_of(number)).path(), fleet.an_annotation(beat), "addon")


def renewals(nodes: int, beat: int) -> Iterator[Request]:
    for number in range(nodes):
        path = LEASES.at(fleet.name_of(number), fleet.HEARTBEAT_NAMESPACE).path()
        yield _patch(path, fleet.a_renewal(beat), fleet.KUBELET)


def _creation(path: str, body: fleet.Json) -> Request:
    encoded = msgspec.json.encode(body)
    return Request(method="POST", path=path, query={"fieldManager": fleet.KUBELET}, body=encoded)


def _status_report(number: int, beat: int) -> Request:
    path = NODES.at(fleet.name_of(number)).path("status")
    return _patch(path, fleet.a_status_report(beat), fleet.DETECTOR, STRATEGIC_PATCH)


def _patch(path: str, body: fleet.Json, manager: str, content_type: str = MERGE_PATCH) -> Request:
    return Request(
        method="PATCH",
        path=path,
        query={"fieldManager": manager},
        body=msgspec.json.encode(body),
        content_type=content_type,
    )


class Pen:
    """Sends many requests, so many at a time, and says how far it is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._clock = SystemClock()
        self._written = 0

    async def write(self, what: str, requests: Iterable[Request], count: int) -> None:
        began = self._clock.monotonic()
        self._written = 0
        due = iter(requests)
        async with asyncio.TaskGroup() as group:
            saying = group.create_task(self._say(what, began, count))
            async with asyncio.TaskGroup() as writers:
                for _ in range(WRITERS):
                    writers.create_task(self._write_in_turn(due))
            saying.cancel()
        spent = self._clock.monotonic() - began
        tell(f"{count:,} {what} in {spent:.0f} s ({count / spent:.0f}/s)")

    async def send(self, request: Request) -> None:
        async with self._transport.send(request) as response:
            answer = await response.read()
        if response.status >= 300:
            raise NotWritten(f"{request}: HTTP {response.status} {answer[:300].decode(errors='replace')}")
        self._written += 1

    async def _write_in_turn(self, due: Iterator[Request]) -> None:
        for request in due:
            await self.send(request)

    async def _say(self, what: str, began: float, count: int) -> None:
        while True:
            await asyncio.sleep(SAY_EVERY_SECONDS)  # a real run of minutes, and somebody who waits for it
            spent = self._clock.monotonic() - began
            tell(f"{self._written:,} of {count:,} {what}, {spent:.0f} s")


def tell(line: str) -> None:
    print(f"    {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress, for a person


async def renew_for(pen: Pen, nodes: int, seconds: float) -> None:
    """Every heartbeat once in 10 s, evenly spread, as kubelets do."""
    clock = SystemClock()
    began = clock.monotonic()
    due = (request for beat in range(1, sys.maxsize) for request in renewals(nodes, beat))
    async with asyncio.TaskGroup() as group:
        for place, request in enumerate(due):
            moment = place * RENEW_SECONDS / nodes
            if moment >= seconds:
                return
            await asyncio.sleep(max(began + moment - clock.monotonic(), 0.0))  # the pace is what is measured
            group.create_task(pen.send(request))


async def main(asked: argparse.Namespace) -> None:
    transport = await connect(Path(asked.kubeconfig), None, os.environ, SystemClock())
    pen = Pen(transport)
    try:
        match asked.what:
            case "nodes":
                await pen.write("nodes", node_creations(asked.nodes), asked.nodes)
                await pen.write("conditions of a second field manager", second_writers(asked.nodes), asked.nodes)
            case "heartbeats":
                await pen.write("heartbeats", heartbeat_creations(asked.nodes), asked.nodes)
            case "changes":
                await pen.write("changes", changes(asked.count, asked.nodes, asked.seed), asked.count)
            case "renewals":
                await renew_for(pen, asked.nodes, asked.seconds)
    finally:
        await transport.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.writer")
    parser.add_argument("what", choices=("nodes", "heartbeats", "changes", "renewals"))
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--count", type=int, default=0, help="how many changes")
    parser.add_argument("--seed", type=int, default=0, help="which changes")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long to renew")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(arguments()))
