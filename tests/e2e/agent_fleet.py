"""Nodes with `defib agent` as processes, in networks of their own, each with a stand-in watchdog that can kill it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from defib.clock import SystemClock
from defib.kube.client import Client, Merge
from defib.kube.kinds import LEASES, NAMESPACES, NODES, unstructured
from defib.model.node import ZONE_LABEL
from defib.model.self_fence import ORDER, Order, Report, lease_name, read_report, text_of
from testbed.cluster import ControlPlane
from testbed.network import OUTSIDE, Network
from tests.agent_certificates import AgentAuthority
from tests.contract.api_server.steps import eventually

CLOCK = SystemClock()
ZONES = {"n1": "east", "n2": "east", "n3": "east", "n4": "west", "n5": "west"}
WATCHDOG_SECONDS = 6.0
PACE = ("--interval=2s", "--request-timeout=2s", "--failures=3", "--peer-time=8s")
SLOW = ("--interval=15s", "--request-timeout=3s", "--failures=3", "--peer-time=8s")
PORT = 9640
USER = "agents"
NOBODY = 2**22  # no process has this number
START_SECONDS = 180.0  # five processes, and whatever else the machine has to do
RIGHTS = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "create", "patch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
]
BOOT_ID = "/proc/sys/kernel/random/boot_id"
CLUSTER_ROLES = unstructured("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = unstructured(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)


class NodeProcess:
    """A node is a process group. It dies when its watchdog fires; the agent is one of its processes.

    A watchdog that is broken says that it counts, and never fires.
    """

    def __init__(self, name: str, folder: Path, *, boot_id: str = "", is_broken: bool = False) -> None:
        self.name = name
        self.folder = folder
        self.body = subprocess.Popen(["sleep", "3600"], process_group=0)
        self.socket = folder / "watchdog.sock"
        self.fired = folder / "fired"
        doomed = NOBODY if is_broken else self.body.pid
        command = (sys.executable, "-m", "testbed.watchdog", self.socket, str(WATCHDOG_SECONDS), str(doomed))
        self._watchdog = subprocess.Popen([*command, self.fired], start_new_session=True)
        self.agent: subprocess.Popen[bytes] | None = None
        self.boot_id = boot_id or f"boot-of-{name}"

    def start_agent(
        self, network: Network, kubeconfig: Path, tls: Path, namespace: str, pace: tuple[str, ...] = PACE
    ) -> None:
        """The kernel's number of the boot is that of the whole machine: the node sees one of its own instead."""
        self._wait_for_watchdog()
        boot = self.folder / "boot"
        boot.write_text(self.boot_id)
        agent = (
            *(sys.executable, "-m", "defib", "agent", f"--node={self.name}", f"--namespace={namespace}", *pace),
            *(f"--address={network.address(self.name)}:{PORT}", f"--watchdog=unix:{self.socket}", f"--tls={tls}"),
            *(f"--kubeconfig={kubeconfig}", "--log-format=json"),
        )
        mounted = ("sh", "-c", f'mount --bind "{boot}" {BOOT_ID} && exec "$@"', "sh")
        with (self.folder / "log").open("ab") as log:
            self.agent = subprocess.Popen(
                [*network.inside(self.name), *mounted, *agent],
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("DEFIB_")},
                process_group=self.body.pid,
            )

    def _wait_for_watchdog(self) -> None:
        """A process takes its time to start, and an agent that finds no watchdog ends."""
        ends = CLOCK.monotonic() + START_SECONDS
        while not self.socket.exists():
            assert CLOCK.monotonic() < ends, f"the watchdog of {self.name} does not start"
            time.sleep(0.05)  # a real process: it says nothing but that it listens

    @property
    def is_alive(self) -> bool:
        return self.body.poll() is None

    def died_at(self) -> float:
        return float(self.fired.read_text())

    def said(self) -> str:
        log = self.folder / "log"
        return log.read_text() if log.exists() else ""

    def signal(self, number: int) -> None:
        assert self.agent is not None
        os.kill(self.agent.pid, number)

    def end(self) -> None:
        for process in (self._watchdog, self.agent, self.body):
            if process is not None:
                process.kill()
                process.wait()


class Fleet:
    def __init__(self, nodes: dict[str, NodeProcess], network: Network, client: Client, namespace: str) -> None:
        self.nodes = nodes
        self.network = network
        self.client = client
        self.namespace = namespace

    def __getitem__(self, name: str) -> NodeProcess:
        return self.nodes[name]

    def dead(self) -> set[str]:
        return {name for name, node in self.nodes.items() if not node.is_alive}

    async def report(self, name: str) -> Report | None:
        return read_report(await self.client.get(LEASES.at(lease_name(name), self.namespace)))

    async def expect_armed(self, *names: str) -> None:
        """And all know of each other."""

        async def are_armed() -> bool:
            reports = [await self.report(name) for name in names]
            return all(
                report is not None and report.armed and sum(report.known.values()) == len(names) for report in reports
            )

        await self.expect_there(*names)
        await eventually(are_armed, within=START_SECONDS)

    async def expect_there(self, *names: str) -> None:
        async def are_there() -> bool:
            leases = await self.client.list_all(LEASES)
            return {lease_name(name) for name in names} <= {
                lease.name for lease in leases.items if lease.namespace == self.namespace
            }

        await eventually(are_there, within=START_SECONDS)

    async def order(self, name: str) -> None:
        order = text_of(Order(remediation="a-uid", boot_id=self.nodes[name].boot_id))
        ref = LEASES.at(lease_name(name), self.namespace)
        await self.client.patch(ref, Merge({"metadata": {"annotations": {ORDER: order}}}))

    async def expect_dead(self, names: set[str], within: float) -> None:
        """Exactly these, at the end of the time or as soon as they are."""

        async def are_dead() -> bool:
            return self.dead() >= names

        await eventually(are_dead, within=within)
        assert self.dead() == names


async def prepare(client: Client) -> None:
    """What all fleets on one control plane share: Node objects, and the rights of an agent."""
    for name, zone in ZONES.items():
        await client.create(NODES, {"metadata": {"name": name, "labels": {ZONE_LABEL: zone}}})
    await allow_agents(client)


async def allow_agents(client: Client) -> None:
    await client.create(CLUSTER_ROLES, {"metadata": {"name": USER}, "rules": RIGHTS})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}
    await client.create(BINDINGS, {"metadata": {"name": USER}, "roleRef": role, "subjects": [subject]})


@asynccontextmanager
async def way_in(plane: ControlPlane, network: Network, folder: Path) -> AsyncIterator[Path]:
    """A kubeconfig by which nodes reach the API server, through a door on their network."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", plane.port)
        except OSError:
            writer.transport.abort()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, there[1]))
            group.create_task(_pass_on(there[0], writer))

    host = network.address(OUTSIDE)
    door = await asyncio.start_server(serve, host, 0)
    port = door.sockets[0].getsockname()[1]
    content = yaml.safe_load(await asyncio.to_thread((await plane.kubeconfig_for(USER)).read_text))
    content["clusters"][0]["cluster"] |= {"server": f"https://{host}:{port}", "tls-server-name": "localhost"}
    path = folder / "agents.kubeconfig"
    await asyncio.to_thread(path.write_text, yaml.safe_dump(content))
    try:
        yield path
    finally:
        door.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.transport.abort()


@asynccontextmanager
async def fleet_of(
    network: Network, kubeconfig: Path, client: Client, folder: Path, *, slow: str = ""
) -> AsyncIterator[Fleet]:
    """Armed, and each in a namespace of its own, so that no other fleet's agents are known to it.

    One that is slow comes when the others are there: it rarely reads who they are.
    """
    namespace = f"fleet-{folder.name.replace('_', '-')[-40:]}".strip("-").lower()
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    tls = await asyncio.to_thread(AgentAuthority().write, folder / "tls")
    nodes: dict[str, NodeProcess] = {}
    try:
        for name in ZONES:
            (folder / name).mkdir()
            nodes[name] = await asyncio.to_thread(NodeProcess, name, folder / name)
        fleet = Fleet(nodes, network, client, namespace)
        for node in nodes.values():
            if node.name != slow:
                await asyncio.to_thread(node.start_agent, network, kubeconfig, tls, namespace)
        if slow:
            await fleet.expect_there(*(name for name in nodes if name != slow))
            await asyncio.to_thread(nodes[slow].start_agent, network, kubeconfig, tls, namespace, SLOW)
        await fleet.expect_armed(*nodes)
        yield fleet
    except BaseException:
        for node in nodes.values():
            sys.stderr.write(f"{node.name}:\n{await asyncio.to_thread(node.said)}\n")
        raise
    finally:
        network.heal()
        for node in nodes.values():
            await asyncio.to_thread(node.end)
