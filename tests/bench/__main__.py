"""`python -m tests.bench`: what our watching costs on a real API server, beside the Python clients people use.

Prints a table, writes build/bench.json, and ends with 1 when a bound is broken. The clients run in .venv-bench, which
`make bench` makes.
"""

import argparse
import asyncio
import os
import platform
import sys
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from defib.kube import kinds
from defib.kube.client import Client
from defib.kube.http import connect
from defib.kube.transport import Request
from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import NoControlPlane, Programs, control_plane_programs
from testbed.settings import Settings
from tests.bench import report
from tests.bench.idle import WARM_UP_SECONDS
from tests.bench.processes import PEERS_PYTHON, ROOT, BenchFailed, running, stages_until, write, writing
from tests.bench.results import OURS, Idle, Machine, Measured, Results, idle, measured, verdicts
from tests.bench.writer import RENEW_SECONDS

NODES = 5_000
EVENTS = 50_000
# These need milliseconds for an event: with all of them, the run would take half an hour and tell the same.
SLOW_SHARE = {"kubernetes_asyncio": 5, "kubernetes_asyncio_dynamic": 5, "kopf": 5}
CLIENTS = (OURS, "lightkube", *SLOW_SHARE)
IDLE_SECONDS = 40.0

CLUSTER = Settings(
    api_only=True,  # nobody but the writer changes a node, so every event is counted
    etcd=("--quota-backend-bytes=8589934592",),  # so many versions of 5,000 nodes do not fit into the default
    apiserver=("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",),  # the nodes are ready
)


class Bench:
    def __init__(self, cluster: ControlPlane, nodes: int, events: int) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._events = events
        self._rounds = 0

    async def fill(self) -> None:
        say(f"Making {self._nodes:,} nodes with two field managers")
        await write("nodes", self._cluster.kubeconfig, nodes=self._nodes)

    async def measure(self, client: str) -> Measured:
        """It lists; then the writer makes changes until it has seen them all."""
        events = self._events // SLOW_SHARE.get(client, 1)
        self._rounds += 1
        say(f"{client}: list, then {events:,} events")
        wanted = ("--kubeconfig", str(self._cluster.kubeconfig), "--nodes", str(self._nodes), "--events", str(events))
        async with running(PEERS_PYTHON, "tests.bench.child", client, *wanted) as process:
            stages = await stages_until(process, "listed")
            await write("changes", self._cluster.kubeconfig, nodes=self._nodes, count=events, seed=self._rounds)
            stages |= await stages_until(process, "watched")
        return measured(client, stages, events)

    async def rest(self, seconds: float) -> Idle:
        say(f"Our whole operator with {self._nodes:,} heartbeats, each renewed every 10 s, for {seconds:.0f} s")
        await write("heartbeats", self._cluster.kubeconfig, nodes=self._nodes)
        wanted = ("--kubeconfig", str(self._cluster.kubeconfig), "--nodes", str(self._nodes), "--seconds", str(seconds))
        async with running(PEERS_PYTHON, "tests.bench.idle", *wanted) as process:
            await stages_until(process, "listed")
            length = seconds + 2 * WARM_UP_SECONDS
            async with writing("renewals", self._cluster.kubeconfig, nodes=self._nodes, seconds=length):
                stages = await stages_until(process, "ended")
        return idle(stages, seconds, self._nodes / RENEW_SECONDS)

    async def node_bytes(self) -> int:
        """How large a node is, as it is served."""
        transport = await connect(self._cluster.kubeconfig, None, os.environ, SystemClock())
        client = Client(transport, SystemClock())
        try:
            answer = await client.ask(Request(method="GET", path=kinds.NODES.collection(), query={"limit": "100"}))
        finally:
            await client.close()
        items = msgspec.json.decode(answer, type=RawList).items
        return sum(len(bytes(item)) for item in items) // len(items)


class RawList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]


async def run(programs: Programs, asked: argparse.Namespace) -> Results:
    async with ControlPlane(programs, CLUSTER) as cluster:
        machine = Machine(
            cores=os.cpu_count() or 0, python=platform.python_version(), kubernetes=await cluster.version()
        )
        bench = Bench(cluster, asked.nodes, asked.events)
        await bench.fill()
        clients = [await bench.measure(client) for client in asked.clients]
        resting = await bench.rest(asked.idle_seconds) if OURS in asked.clients else None
        return Results(
            machine=machine,
            nodes=asked.nodes,
            node_bytes=await bench.node_bytes(),
            judged=asked.nodes >= NODES and asked.events >= EVENTS and set(asked.clients) == set(CLIENTS),
            clients=clients,
            idle=resting,
            verdicts=verdicts(clients, resting),
        )


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress, for a person


def keep(results: Results) -> Path:
    path = ROOT / "build" / "bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    return path


def main() -> int:
    asked = _arguments()
    if not PEERS_PYTHON.exists():
        say("the clients to compare with are not installed; `make bench` does that")
        return 2
    try:
        results = asyncio.run(run(control_plane_programs(api_only=True), asked))
    except (BenchFailed, ControlPlaneFailed, NoControlPlane) as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"\n{report.text(results)}\n\nAlso in {keep(results).relative_to(ROOT)}.")  # noqa: T201 - the result
    return int(results.judged and not all(verdict.ok for verdict in results.verdicts))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Defib's watching, measured.")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--events", type=int, default=EVENTS, help="a fifth of them for the slow clients")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
