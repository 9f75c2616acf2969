"""`python -m tests.bench`: what our operator costs and how quick it is, on a real API server.

Three parts: watching, beside the Python clients people use; remediating, beside what the Go operator needed; and moving
the pods of failed nodes. Prints tables, writes build/bench.json, and ends with 1 when a bound is broken. The clients run
in .venv-bench, which `make bench` makes.
"""

import argparse
import asyncio
import os
import platform
import sys
from pathlib import Path

import msgspec

from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import NoControlPlane, Programs, control_plane_programs
from testbed.settings import Settings
from tests.bench import moves, report
from tests.bench.failover import move
from tests.bench.processes import PEERS_PYTHON, ROOT, BenchFailed, say
from tests.bench.remediating import WATCHED_SECONDS, remediate
from tests.bench.results import Machine
from tests.bench.watching import CLIENTS, EVENTS, NODES, Bench, Size

WATCHING = "watching"
REMEDIATING = "remediating"
MOVING = "moving"
PARTS = (WATCHING, REMEDIATING, MOVING)
IDLE_SECONDS = 40.0

CLUSTER = Settings(
    api_only=True,  # nobody but the writer changes a node, so every event is counted
    etcd=("--quota-backend-bytes=8589934592",),  # so many versions of 5,000 nodes do not fit into the default
    apiserver=("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",),  # the nodes are ready
)


async def run(programs: Programs, asked: argparse.Namespace) -> report.Results:
    """Each part on a cluster of its own: what one leaves behind is no load on the other."""
    watching = remediating = moving = None
    load, _, _ = os.getloadavg()
    size = Size(nodes=asked.nodes, events=asked.events, clients=tuple(asked.clients), idle_seconds=asked.idle_seconds)
    if WATCHING in asked.parts:
        async with ControlPlane(programs, CLUSTER) as cluster:
            version = await cluster.version()
            watching = await Bench(cluster, size).run()
    if REMEDIATING in asked.parts:
        async with ControlPlane(programs, CLUSTER) as cluster:
            version = await cluster.version()
            remediating = await remediate(cluster, asked.nodes, asked.watched_seconds)
    if MOVING in asked.parts:
        scale = moves.Scale(nodes=min(asked.nodes, moves.NODES), failures=asked.failures, bystanders=asked.bystanders)
        async with ControlPlane(programs, CLUSTER) as cluster:
            version = await cluster.version()
            moving = await move(cluster, scale)
    machine = Machine(cores=os.cpu_count() or 0, load=load, python=platform.python_version(), kubernetes=version)
    return report.Results(machine=machine, watching=watching, remediating=remediating, moving=moving)


def keep(results: report.Results) -> Path:
    path = ROOT / "build" / "bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    return path


def main() -> int:
    asked = _arguments()
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
    return int(results.is_broken)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Defib's cost and speed, measured.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--nodes", type=int, default=NODES, help="fewer than all is a trial: no bound is judged")
    parser.add_argument("--events", type=int, default=EVENTS, help="a fifth of them for the slow clients")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--watched-seconds", type=float, default=WATCHED_SECONDS)
    parser.add_argument("--failures", type=int, default=moves.FAILURES, help="of nodes whose pods are moved")
    parser.add_argument("--bystanders", type=int, default=moves.BYSTANDERS, help="pods on nodes that stay well")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
