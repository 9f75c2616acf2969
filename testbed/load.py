"""`python -m testbed.load`: what hollow nodes and their pods cost beside a real control plane, process by process.

It starts a control plane, registers the nodes, deploys the pods, waits until all of them run and then looks at the CPU
that each process uses while nothing happens but heartbeats. Kubernetes' own timers, not compressed ones.
"""

import argparse
import asyncio
import os
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from defib.clock import SystemClock
from defib.hollow.disk import Disks
from defib.hollow.nodes import HollowNodes
from defib.hollow.site import Site, numbered
from defib.hollow.storage import HollowStorage
from defib.hollow.timers import Timers
from defib.kube.client import Client, Scope
from defib.kube.http import connect
from defib.kube.kinds import NODES, unstructured
from defib.kube.limits import Limits
from defib.telemetry.log import set_up
from testbed.cluster import ControlPlane
from testbed.programs import control_plane_programs

DEPLOYMENTS = unstructured("apps", "v1", "deployments", "Deployment", namespaced=True)
PER_DEPLOYMENT = 500
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_MIB = resource.getpagesize() / 2**20
US = "hollow nodes"


class Spent(msgspec.Struct, frozen=True):
    cpu_seconds: float
    resident_mib: float


def spent(pid: int) -> Spent:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Spent((int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND, pages * PAGE_MIB)


def processes(group: int) -> dict[str, int]:
    """The control plane's processes by the component that each of them is, and ourselves."""
    found = {US: os.getpid()}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            words = (path.parent / "cmdline").read_text().split("\0")
        except OSError:  # it ended while we looked
            continue
        if int(fields[2]) == group and int(path.parent.name) != group and fields[0] != "Z":
            named = [Path(word).name for word in words[:2] if not word.startswith("-")]
            found[named[-1] if named else "?"] = int(path.parent.name)
    return found


class Cluster:
    def __init__(self, plane: ControlPlane, client: Client, clock: SystemClock) -> None:
        self._plane = plane
        self._client = client
        self._clock = clock

    async def deploy(self, pods: int) -> None:
        for number, first in enumerate(range(0, pods, PER_DEPLOYMENT)):
            app = f"load-{number}"
            container = {"name": "main", "image": "registry.example.com/app:1"}
            template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}
            replicas = min(PER_DEPLOYMENT, pods - first)
            spec = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template}
            await self._client.create(DEPLOYMENTS, {"metadata": {"name": app}, "spec": spec}, namespace="default")

    async def ready_nodes(self) -> int:
        known = (await self._client.list_all(NODES)).items
        return sum(node.ready == "True" and not node.spec.taints for node in known)

    async def running_pods(self) -> int:
        """By what the controllers say of themselves: to list thousands of pods would be a load of its own."""
        known = (await self._client.list_all(DEPLOYMENTS, Scope(namespace="default"))).items
        return sum((deployment.status or {}).get("readyReplicas", 0) for deployment in known)

    async def wait(self, what: str, count: Callable[[], Awaitable[int]], wanted: int, within: float) -> None:
        began = self._clock.monotonic()
        async with asyncio.timeout(within):
            while (now := await count()) < wanted:
                print(f"  {now} of {wanted} {what} after {self._clock.monotonic() - began:.0f} s", flush=True)
                await asyncio.sleep(2)
        print(f"{wanted} {what} after {self._clock.monotonic() - began:.1f} s", flush=True)

    @asynccontextmanager
    async def cost(self, what: str) -> AsyncIterator[None]:
        """Prints what each process used while the context lasted; 100 % is one core."""
        named = processes(self._plane.process_group)
        before = {name: spent(pid) for name, pid in named.items()}
        began = self._clock.monotonic()
        yield
        lasted = self._clock.monotonic() - began
        print(f"\n{what}, {lasted:.1f} s:\n{'process':<26}{'CPU':>10}{'share':>9}{'memory':>12}")
        for name, pid in named.items():
            now = spent(pid)
            used = now.cpu_seconds - before[name].cpu_seconds
            print(f"{name:<26}{used:>8.1f} s{used / lasted:>9.1%}{now.resident_mib:>8.0f} MiB", flush=True)


async def measure(nodes: int, pods: int, seconds: float) -> None:
    clock = SystemClock()
    async with ControlPlane(control_plane_programs()) as plane:
        await plane.wait_for_namespace("default")
        client = Client(
            await connect(plane.kubeconfig, None, os.environ, clock),
            clock,
            limits=Limits(in_flight=64, per_second=1000, burst=2000),
        )
        cluster = Cluster(plane, client, clock)
        site = Site(client=client, clock=clock, timers=Timers(), disks=Disks(clock))
        storage = HollowStorage(client, clock)
        await storage.install()
        async with asyncio.TaskGroup() as group:
            living = [group.create_task(HollowNodes(site, numbered(nodes)).run()), group.create_task(storage.run())]
            async with cluster.cost(f"{nodes} nodes register"):
                await cluster.wait("nodes are ready", cluster.ready_nodes, nodes, 120)
            async with cluster.cost(f"{pods} pods start"):
                await cluster.deploy(pods)
                await cluster.wait("pods run", cluster.running_pods, pods, 300)
            async with cluster.cost("heartbeats alone"):
                await asyncio.sleep(seconds)
            assert await cluster.ready_nodes() == nodes, "nodes were given up: the heartbeats did not keep up"
            for task in living:
                task.cancel()
        await client.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.load", description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to measure")
    asked = parser.parse_args()
    set_up(style="pretty", level="warning", fd=sys.stderr.fileno(), clock=SystemClock())
    try:
        asyncio.run(measure(asked.nodes, asked.pods, asked.seconds))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
