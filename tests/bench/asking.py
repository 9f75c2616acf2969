"""Somebody asks the command line about one node of thousands, again and again: how long that takes on a real API server.

Each command is a process of its own, from a cold start, as in a shell. Some of the nodes are ill, so that there is
something to think about. Between the commands, the same lists are fetched by a process that does nothing with them.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from defib.clock import SystemClock
from testbed.cluster import ControlPlane
from tests.bench import fleet
from tests.bench.asked import BARE, NODES, TIMES, WHY, Asked, Asking, answered, verdicts
from tests.bench.moments import moments_of
from tests.bench.processes import ROOT, WRITTEN_WITHIN, BenchFailed, say, write, writing
from tests.bench.ward import warded

ILL = 20
ASKED_WITHIN = 60.0
FINE = (0, 3)  # exit codes: here is the answer; and it is not a good one


async def ask(cluster: ControlPlane, nodes: int) -> Asking:
    load_before, _, _ = os.getloadavg()
    say(f"Making {nodes:,} nodes with heartbeats, {ILL} of them ill")
    await write("nodes", cluster.kubeconfig, nodes=nodes)
    await write("heartbeats", cluster.kubeconfig, nodes=nodes)
    async with warded(cluster):
        at = int(SystemClock().now().timestamp()) - 600
        async with writing("failures", cluster.kubeconfig, nodes=nodes, count=ILL, at=at) as writer:
            await moments_of(writer, WRITTEN_WITHIN)
        return await _measure(cluster, nodes, load_before)


async def _measure(cluster: ControlPlane, nodes: int, load_before: float) -> Asking:
    config = ("--kubeconfig", str(cluster.kubeconfig))
    found: dict[str, list[Asked]] = {}
    for turn in range(TIMES):
        node = fleet.name_of(turn * nodes // TIMES)
        commands = {
            BARE: ("tests.bench.bare", str(cluster.kubeconfig)),
            WHY: ("defib", "why", node, *config),
            "defib timeline": ("defib", "timeline", node, *config),
            "defib status": ("defib", "status", *config),
        }
        for name, command in commands.items():
            found.setdefault(name, []).append(await _asked(*command))
    answers = {name: answered(asked) for name, asked in found.items()}
    for name, one in answers.items():
        say(f"{name}: p50 {one.wall_p50:.2f} s, slowest {one.wall_max:.2f} s, {one.cpu_p50:.2f} CPU s")
    load_after, _, _ = os.getloadavg()
    return Asking(
        nodes=nodes,
        judged=nodes >= NODES,
        load_before=load_before,
        load_after=load_after,
        answers=answers,
        verdicts=verdicts(answers),
    )


async def _asked(*command: str) -> Asked:
    """In a thread, since the kernel tells what a child has cost only to whoever waits for it."""
    return await asyncio.to_thread(_run, command)


def _run(command: tuple[str, ...]) -> Asked:
    began = time.perf_counter()
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        child = os.posix_spawn(
            sys.executable,
            (str(Path(sys.executable)), "-m", *command),
            environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, devnull, 1)],
        )
        _, status, spent = os.wait4(child, 0)
    finally:
        os.close(devnull)
    wall = time.perf_counter() - began
    if os.waitstatus_to_exitcode(status) not in FINE or wall > ASKED_WITHIN:
        raise BenchFailed(f"{' '.join(command[:2])} did not answer; its own words are above")
    return Asked(wall_seconds=wall, cpu_seconds=spent.ru_utime + spent.ru_stime)
