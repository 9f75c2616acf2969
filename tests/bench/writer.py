"""The process that writes to the API server while others are measured: it makes the fleet, changes it, keeps it alive.

    python -m tests.bench.writer nodes|heartbeats|pods|bystanders|changes|renewals|life|failures|recoveries
        --kubeconfig FILE --nodes N …

Of failures and recoveries it tells the moment when each was answered.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from random import Random

import msgspec

from defib.clock import Clock, SystemClock
from defib.kube.http import connect
from defib.kube.kinds import LEASES, NODES, PODS
from defib.kube.transport import MERGE_PATCH, Request, Transport
from tests.bench import fleet
from tests.bench.moments import WRITTEN, Moment, tell_moment

MADE = ("nodes", "heartbeats", "pods", "bystanders")
CHANGED = ("changes", "renewals", "life", "failures", "recoveries")
WRITERS = 64
TURNERS = 16  # so few that each answer is noticed when it comes, not when its turn has come
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
REPORT_SECONDS = 300.0
STATUS_SHARE = 0.7  # the rest are annotations
SAY_EVERY_SECONDS = 5.0


class NotWritten(Exception):
    """The API server did not take a change, so what is measured would not be what is said."""


def node_creations(numbers: Iterable[int]) -> Iterator[Request]:
    for number in numbers:
        yield _creation(NODES.collection(), fleet.a_node(number))


def second_writers(numbers: Iterable[int]) -> Iterator[Request]:
    """Every node has two field managers, as in life: the kubelet, and one that adds a condition to it."""
    for number in numbers:
        yield _status_report(number, 0)


def heartbeat_creations(numbers: Iterable[int], clock: Clock) -> Iterator[Request]:
    for number in numbers:
        yield _creation(LEASES.collection(fleet.HEARTBEAT_NAMESPACE), fleet.a_heartbeat(number, clock.now()))


def pod_creations(numbers: Iterable[int], each: int) -> Iterator[Request]:
    for number in numbers:
        for place in range(each):
            yield _creation(PODS.collection(fleet.POD_NAMESPACE), fleet.a_pod(number, place))


def pod_reports(numbers: Iterable[int], each: int, clock: Clock) -> Iterator[Request]:
    for number in numbers:
        for place in range(each):
            path = PODS.at(fleet.pod_name(number, place), fleet.POD_NAMESPACE).path("status")
            yield _patch(path, fleet.a_running_pod(clock.now()), fleet.KUBELET, STRATEGIC_PATCH)


def changes(count: int, nodes: int, seed: int) -> Iterator[Request]:
    """Each is news: no two of one round write the same."""
    chance = Random(seed)
    for beat in range(seed * 1_000_000, seed * 1_000_000 + count):
        number = chance.randrange(nodes)
        if chance.random() < STATUS_SHARE:
            yield _status_report(number, beat)
        else:
            yield _patch(NODES.at(fleet.name_of(number)).path(), fleet.an_annotation(beat), "addon")


def renewals(nodes: int, pace: float, clock: Clock) -> Iterator[Request]:
    """Of one node after the other, for ever. Where the pace is slower than usual, all kubelets are set to renew less often."""
    every = max(nodes / pace, fleet.RENEW_SECONDS)
    for number in cycle(range(nodes)):
        path = LEASES.at(fleet.name_of(number), fleet.HEARTBEAT_NAMESPACE).path()
        yield _patch(path, fleet.a_renewal(clock.now(), every), fleet.KUBELET)


def kubelet_reports(nodes: int, clock: Clock) -> Iterator[Request]:
    """Of one node after the other, for ever."""
    for number in cycle(range(nodes)):
        yield _status_patch(number, fleet.a_kubelet_report(clock.now()), fleet.KUBELET)


def turns(numbers: Iterable[int], body: fleet.Json) -> Iterator[tuple[str, Request]]:
    """The same news about each of these nodes."""
    for number in numbers:
        yield fleet.name_of(number), _status_patch(number, body, fleet.KUBELET)


def taint(number: int, body: fleet.Json) -> Request:
    return _patch(NODES.at(fleet.name_of(number)).path(), body, fleet.LIFECYCLE)


def _creation(path: str, body: fleet.Json) -> Request:
    encoded = msgspec.json.encode(body)
    return Request(method="POST", path=path, query={"fieldManager": fleet.KUBELET}, body=encoded)


def _status_report(number: int, beat: int) -> Request:
    return _status_patch(number, fleet.a_status_report(beat), fleet.DETECTOR)


def _status_patch(number: int, body: fleet.Json, manager: str) -> Request:
    return _patch(NODES.at(fleet.name_of(number)).path("status"), body, manager, STRATEGIC_PATCH)


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


async def keep_pace(pen: Pen, due: Iterator[Request], per_second: float, seconds: float) -> None:
    """So many a second, evenly spread, as so many kubelets do. A server that cannot keep up is not overrun."""
    clock = SystemClock()
    began = clock.monotonic()
    places = iter(range(int(per_second * seconds)))

    async def send_in_turn() -> None:
        for place in places:
            moment = began + place / per_second
            await asyncio.sleep(max(moment - clock.monotonic(), 0.0))  # the pace is what is measured
            await pen.send(next(due))

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(send_in_turn())


async def live(pen: Pen, asked: argparse.Namespace) -> None:
    """All that a fleet writes while nothing happens."""
    clock = SystemClock()
    async with asyncio.TaskGroup() as group:
        group.create_task(keep_pace(pen, renewals(asked.nodes, asked.pace, clock), asked.pace, asked.seconds))
        reports = kubelet_reports(asked.nodes, clock)
        group.create_task(keep_pace(pen, reports, asked.nodes / REPORT_SECONDS, asked.seconds))


async def turn(pen: Pen, asked: argparse.Namespace, news: Callable[[datetime], fleet.Json]) -> None:
    """The same news about many nodes at once."""
    body = news(datetime.fromtimestamp(asked.at, UTC))
    due = turns(fleet.spread(asked.nodes, asked.count), body)
    async with asyncio.TaskGroup() as group:
        for _ in range(TURNERS):
            group.create_task(_turn_in_turn(pen, due))


async def _turn_in_turn(pen: Pen, due: Iterator[tuple[str, Request]]) -> None:
    clock = SystemClock()
    for node, request in due:
        await pen.send(request)
        tell_moment(Moment(WRITTEN, node, clock.now().timestamp()))


async def make_nodes(pen: Pen, numbers: range) -> None:
    await pen.write("nodes", node_creations(numbers), len(numbers))
    await pen.write("conditions of a second field manager", second_writers(numbers), len(numbers))


async def make_pods(pen: Pen, numbers: Collection[int], each: int) -> None:
    """So many on each of these nodes."""
    await pen.write("pods", pod_creations(numbers, each), len(numbers) * each)


async def let_pods_run(pen: Pen, numbers: Collection[int], each: int) -> None:
    """As their kubelets tell it."""
    await pen.write("statuses of pods", pod_reports(numbers, each, SystemClock()), len(numbers) * each)


async def make(pen: Pen, asked: argparse.Namespace) -> None:
    clock = SystemClock()
    failing = fleet.spread(asked.nodes, asked.count)
    match asked.what:
        case "nodes":
            await make_nodes(pen, range(asked.first, asked.nodes))
        case "heartbeats":
            numbers = range(asked.first, asked.nodes)
            await pen.write("heartbeats", heartbeat_creations(numbers, clock), len(numbers))
        case "pods":
            await make_pods(pen, failing, asked.each)
            await let_pods_run(pen, failing, asked.each)
        case "bystanders":
            # Nobody looks at these but to see whether they are looked at, so none is told to run.
            await make_pods(pen, sorted({*range(asked.nodes)} - {*failing}), asked.each)


async def change(pen: Pen, asked: argparse.Namespace) -> None:
    match asked.what:
        case "changes":
            await pen.write("changes", changes(asked.count, asked.nodes, asked.seed), asked.count)
        case "renewals":
            await keep_pace(pen, renewals(asked.nodes, asked.pace, SystemClock()), asked.pace, asked.seconds)
        case "life":
            await live(pen, asked)
        case "failures":
            await turn(pen, asked, fleet.a_failure)
        case "recoveries":
            await turn(pen, asked, fleet.a_recovery)


async def main(asked: argparse.Namespace) -> None:
    transport = await connect(asked.kubeconfig, None, os.environ, SystemClock())
    pen = Pen(transport)
    try:
        await (make(pen, asked) if asked.what in MADE else change(pen, asked))
    finally:
        await transport.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.writer")
    parser.add_argument("what", choices=(*MADE, *CHANGED))
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="how many nodes are there already")
    parser.add_argument(
        "--count", type=int, default=0, help="how many changes, failures, recoveries or nodes that fail"
    )
    parser.add_argument(
        "--each", type=int, default=0, help="how many pods on each of the nodes that fail, or of the others"
    )
    parser.add_argument("--seed", type=int, default=0, help="which changes")
    parser.add_argument("--pace", type=float, default=0.0, help="how many heartbeats a second")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long to keep that pace")
    parser.add_argument("--at", type=int, default=0, help="since when they are failed or back, in Unix time")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(arguments()))
