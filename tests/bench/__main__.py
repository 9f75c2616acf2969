"""`python -m tests.bench`: what our operator costs and how quick it is, on a real API server.

Its parts: watching, beside the Python clients people use; the leases of all nodes; what agents cost the API server;
remediating, beside what the Go operator needed; moving the pods of failed nodes; many drains at once; handing over from one
replica to the next; sharing the work among several; asking the command line; opening the page; and growth, from 100 nodes to
15,000. Prints tables, the last of which has every bar, writes build/bench.json, and ends with 1 when a bound is broken. The
clients run in .venv-bench, which `make bench` makes. With --publish, docs/growth.md gets the numbers of leases and growth.
"""

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import NoControlPlane, Programs, control_plane_programs
from testbed.settings import Settings
from tests.bench import drained, growth, growth_page, moves, report, shares, successions
from tests.bench.agents import AGENTS
from tests.bench.agents_guarding import guard
from tests.bench.asking import ask
from tests.bench.draining import drain
from tests.bench.failover import move
from tests.bench.growing import grow
from tests.bench.handover import hand_over
from tests.bench.hearing import hear
from tests.bench.page import show
from tests.bench.processes import PEERS_PYTHON, ROOT, BenchFailed, say
from tests.bench.remediating import WATCHED_SECONDS, remediate
from tests.bench.report import PARTS
from tests.bench.results import Machine
from tests.bench.sharing import share
from tests.bench.successions import Ends
from tests.bench.watching import CLIENTS, EVENTS, NODES, Bench, Size

WATCHING = "watching"
PUBLISHED = {"leases", "growth"}
IDLE_SECONDS = 40.0

CLUSTER = Settings(
    api_only=True,  # nobody but the writer changes a node, so every event is counted
    etcd=("--quota-backend-bytes=8589934592",),  # so many versions of 5,000 nodes do not fit into the default
    apiserver=("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",),  # the nodes are ready
)


async def run(programs: Programs, asked: argparse.Namespace) -> report.Results:
    """Each part on a cluster of its own: what one leaves behind is no load on the other."""
    measured: dict[str, Any] = {}
    load, _, _ = os.getloadavg()
    for part in PARTS:
        if part in asked.parts:
            async with ControlPlane(programs, CLUSTER) as cluster:
                version = await cluster.version()
                measured[part] = await MEASURES[part](cluster, asked)
    machine = Machine(cores=os.cpu_count() or 0, load=load, python=platform.python_version(), kubernetes=version)
    return report.Results(machine=machine, **measured)


async def _watching(cluster: ControlPlane, asked: argparse.Namespace) -> report.Part:
    clients = tuple(asked.clients)
    size = Size(nodes=asked.nodes, events=asked.events, clients=clients, idle_seconds=asked.idle_seconds)
    return await Bench(cluster, size).run()


async def _moving(cluster: ControlPlane, asked: argparse.Namespace) -> report.Part:
    nodes = min(asked.nodes, moves.NODES)
    return await move(cluster, moves.Scale(nodes=nodes, failures=asked.failures, bystanders=asked.bystanders))


async def _draining(cluster: ControlPlane, asked: argparse.Namespace) -> report.Part:
    nodes = min(asked.nodes, drained.NODES)
    crowd = drained.Crowd(nodes=nodes, draining=max(drained.DRAINING * nodes // drained.NODES, 1))
    return await drain(cluster, crowd, asked.watched_seconds)


async def _handover(cluster: ControlPlane, asked: argparse.Namespace) -> report.Part:
    nodes = min(asked.nodes, successions.NODES)
    return await hand_over(cluster, Ends(nodes=nodes, orderly=asked.orderly_ends, crashes=asked.crashes))


async def _sharing(cluster: ControlPlane, asked: argparse.Namespace) -> report.Part:
    failures = max(shares.FAILURES * asked.nodes // shares.NODES, 1)
    return await share(cluster, shares.Fleet(nodes=asked.nodes, failures=failures), asked.watched_seconds)


async def _growth(cluster: ControlPlane, asked: argparse.Namespace) -> report.Part:
    sizes = growth.scaled(asked.nodes, NODES)
    return await grow(cluster, sizes, min(asked.watched_seconds, growth.SECONDS))


MEASURES: dict[str, Callable[[ControlPlane, argparse.Namespace], Awaitable[report.Part]]] = {
    WATCHING: _watching,
    "leases": lambda cluster, asked: hear(cluster, asked.nodes, asked.watched_seconds),
    "agents": lambda cluster, asked: guard(cluster, min(asked.nodes, AGENTS), asked.watched_seconds),
    "remediating": lambda cluster, asked: remediate(cluster, asked.nodes, asked.watched_seconds),
    "moving": _moving,
    "draining": _draining,
    "handover": _handover,
    "sharing": _sharing,
    "asking": lambda cluster, asked: ask(cluster, asked.nodes),
    "page": lambda _, asked: show(asked.nodes),
    "growth": _growth,
}


def keep(results: report.Results) -> Path:
    path = ROOT / "build" / "bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    return path


def main() -> int:
    asked = _arguments()
    if asked.publish and not set(asked.parts) >= PUBLISHED:
        say(f"--publish needs what it publishes: add --parts {' '.join(sorted(PUBLISHED))}")
        return 2
    if WATCHING in asked.parts and not PEERS_PYTHON.exists():
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
    if asked.publish:
        publish(results)
    return int(results.is_broken)


def publish(results: report.Results) -> None:
    leases, grown = results.leases, results.growth
    if leases is None or grown is None or not (leases.judged and grown.judged):
        say("not published: this was a trial; leave out --nodes and --watched-seconds")
        return
    published = growth_page.Published(machine=results.machine, leases=leases, growth=grown)
    for path in growth_page.publish(published):
        say(f"written: {path.relative_to(ROOT)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Defib's cost and speed, measured.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--nodes", type=int, default=NODES, help="fewer than all is a trial: no bound is judged")
    parser.add_argument("--events", type=int, default=EVENTS, help="a fifth of them for the slow clients")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--watched-seconds", type=float, default=WATCHED_SECONDS)
    parser.add_argument("--failures", type=int, default=moves.FAILURES, help="of nodes whose pods are moved")
    parser.add_argument("--bystanders", type=int, default=moves.BYSTANDERS, help="pods on nodes that stay well")
    parser.add_argument(
        "--orderly-ends", type=int, default=successions.ORDERLY_ENDS, help="how often a leader is asked to stop"
    )
    parser.add_argument("--crashes", type=int, default=successions.CRASHES, help="how often a leader is killed")
    parser.add_argument("--publish", action="store_true", help="write leases and growth into docs/growth.md")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
