"""The cluster that a person starts: a real control plane with hollow nodes on it, until they end it."""

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from defib.clock import Clock
from defib.hollow.machine import Machine
from defib.hollow.site import numbered
from defib.kube.client import Client
from defib.kube.http import connect
from defib.kube.kinds import NODES
from defib.kube.limits import Limits
from testbed.cluster import ControlPlane, ControlPlaneFailed
from testbed.people.desk import Desk
from testbed.people.orders import HELP, Verb
from testbed.people.place import SOCKET, announced
from testbed.scenario.hollow_cluster import HollowCluster, hollow_cluster, until
from testbed.scenario.profiles import Profile

if TYPE_CHECKING:
    from testbed.bmc.redfish import RedfishAddress

READY_SECONDS = 60.0
BMCS = "bmcs.txt"
LIMITS = Limits(in_flight=64, per_second=1000, burst=2000)  # a thousand kubelets speak through this one client
PATH_MAX = 100  # the kernel takes a little more for a socket


@asynccontextmanager
async def staffed(plane: ControlPlane, clock: Clock, profile: Profile, nodes: int) -> AsyncIterator[HollowCluster]:
    """So many nodes are ready when this is entered, each with a BMC, and orders are taken."""
    from testbed.bmc.redfish import redfish  # heavy, and of no use to those who give orders

    place = plane.directory / SOCKET
    if len(str(place)) > PATH_MAX:
        raise ControlPlaneFailed(f"{place} is too long for a socket: choose a shorter --dir")
    client = Client(await connect(plane.kubeconfig, None, os.environ, clock), clock, limits=LIMITS)
    try:
        blueprints = numbered(nodes)
        machines = [Machine(blueprint.name, clock) for blueprint in blueprints]
        async with (
            hollow_cluster(client, clock, profile, blueprints, machines) as cluster,
            redfish(machines) as addresses,
        ):
            (plane.directory / BMCS).write_text(_bmcs(machines, addresses))
            await _until_ready(cluster, nodes)
            async with Desk(cluster).open(place):
                with announced(plane.directory, os.environ):
                    yield cluster
    finally:
        await client.close()


def _bmcs(machines: Iterable[Machine], addresses: Mapping[str, "RedfishAddress"]) -> str:
    """How to log in to each, one per line."""
    lines = (
        f"{machine.name}  {machine.bmc.username}:{machine.bmc.password}  "
        f"{addresses[machine.name].url}{addresses[machine.name].system}\n"
        for machine in machines
    )
    return "".join(lines)


async def _until_ready(cluster: HollowCluster, nodes: int) -> None:
    async def all_ready() -> bool:
        known = (await cluster.client.list_all(NODES)).items
        return sum(node.ready == "True" and not node.spec.taints for node in known) == nodes

    if not await until(all_ready, READY_SECONDS):
        raise ControlPlaneFailed(f"not all of the {nodes} nodes were ready within {READY_SECONDS:g} s")


def instructions(plane: ControlPlane, cluster: HollowCluster, profile: Profile, asked: Path | None) -> list[str]:
    """What a person can do in another terminal."""
    first = next(iter(cluster.nodes))
    where = f" --dir {asked}" if asked else ""
    python = os.path.relpath(sys.executable) if Path(sys.executable).is_relative_to(Path.cwd()) else sys.executable
    orders = [
        f"  {python} -m testbed {f'{verb.value}{where} {first}':<24} # {HELP[verb]}"
        for verb in Verb
        if verb is not Verb.STATUS
    ]
    return [
        f"  alias kubectl={plane.kubectl}",
        "  kubectl get nodes",
        "  kubectl create deployment web --image=registry.example.com/web:1 --replicas=10",
        "  kubectl get pods -o wide --watch",
        "",
        *orders,
        f"  {python} -m testbed {f'status{where}':<24} # {HELP[Verb.STATUS]}",
        "",
        f"  {profile}",
        "  Volumes: storage class `hollow`. Its disks judge who writes to them.",
        f"  Machines: a Redfish BMC for each, with user, password and address in {plane.directory / BMCS}",
    ]
