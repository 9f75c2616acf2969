"""`python -m tests.bench`: what our operator costs and how quick it is, on a real API server.

Its parts: watching, beside the Python clients people use; remediating, beside what the Go operator needed; moving the pods
of failed nodes; many drains at once; handing over from one replica to the next; sharing the work among several; asking the
command line; and opening the page. Prints tables, writes build/bench.json, and ends with 1 when a bound is broken. The clients run in .venv-bench, which `make bench`
makes.
"""

import argparse
import asyncio
import os
import platform
import sys
from pathlib import Path
from typing import Any

import msgspec

from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.programs import NoControlPlane, Programs, control_plane_programs
from testbed.settings import Settings
from tests.bench import drained, moves, report, shares, successions
from tests.bench.asking import ask
from tests.bench.draining import drain
from tests.bench.failover import move
from tests.bench.handover import hand_over
from tests.bench.page import show
from tests.bench.processes import PEERS_PYTHON, ROOT, BenchFailed, say
from tests.bench.remediating import WATCHED_SECONDS, remediate
from tests.bench.results import Machine
from tests.bench.sharing import share
from tests.bench.successions import Ends
from tests.bench.watching import CLIENTS, EVENTS, NODES, Bench, Size

WATCHING = "watching"
PARTS = (WATCHING, "remediating", "moving", "draining", "handover", "sharing", "asking", "page")
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
                measured[part] = await measure(part, cluster, asked)
    machine = Machine(cores=os.cpu_count() or 0, load=load, python=platform.python_version(), kubernetes=version)
    return report.Results(machine=machine, **measured)


async def measure(part: str, cluster: ControlPlane, asked: argparse.Namespace) -> report.Part:  # noqa: PLR0911  one for each part
    match part:
        case "watching":
            clients = tuple(asked.clients)
            size = Size(nodes=asked.nodes, events=asked.events, clients=clients, idle_seconds=asked.idle_seconds)
            return await Bench(cluster, size).run()
        case "remediating":
            return await remediate(cluster, asked.nodes, asked.watched_seconds)
        case "moving":
            nodes = min(asked.nodes, moves.NODES)
            scale = moves.Scale(nodes=nodes, failures=asked.failures, bystanders=asked.bystanders)
            return await move(cluster, scale)
        case "draining":
            nodes = min(asked.nodes, drained.NODES)
            crowd = drained.Crowd(nodes=nodes, draining=max(drained.DRAINING * nodes // drained.NODES, 1))
            return await drain(cluster, crowd, asked.watched_seconds)
        case "handover":
            nodes = min(asked.nodes, successions.NODES)
            return await hand_over(cluster, Ends(nodes=nodes, orderly=asked.orderly_ends, crashes=asked.crashes))
        case "asking":
            return await ask(cluster, asked.nodes)
        case "page":
            return await show(asked.nodes)
        case _:
            size_of_all = shares.Fleet(
                nodes=asked.nodes, failures=max(shares.FAILURES * asked.nodes // shares.NODES, 1)
            )
            return await share(cluster, size_of_all, asked.watched_seconds)


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
    parser.add_argument(
        "--orderly-ends", type=int, default=successions.ORDERLY_ENDS, help="how often a leader is asked to stop"
    )
    parser.add_argument("--crashes", type=int, default=successions.CRASHES, help="how often a leader is killed")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
