"""Takes the orders of people in other terminals and carries them out on the hollow nodes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from defib.hollow.node import HollowNode
from defib.hollow.objects import PODS
from defib.kube.errors import KubeError
from defib.kube.kinds import NODES
from testbed.people.orders import Order, Reply, Verb
from testbed.scenario.hollow_cluster import HollowCluster

LISTEN_SECONDS = 5.0
SHOWN_MAX = 3


class Trouble(msgspec.Struct, frozen=True):
    """What an order does to a node, and how `status` calls the node afterwards; empty when it is well."""

    does: Callable[[HollowNode], None]
    leaves: str
    says: str


def _kill(node: HollowNode) -> None:
    node.machine.set_power(False)


def _revive(node: HollowNode) -> None:
    node.machine.set_power(True)


def _heal(node: HollowNode) -> None:
    node.resume()
    node.heal()


ORDERS: Mapping[Verb, Trouble] = {
    Verb.KILL: Trouble(_kill, "", "has lost its power"),
    Verb.HANG: Trouble(HollowNode.hang, "hung", "hangs: its kubelet is silent, its containers run"),
    Verb.PARTITION: Trouble(HollowNode.partition, "cut off", "is cut off: its containers run"),
    Verb.HEAL: Trouble(_heal, "", "is well again"),
    Verb.REVIVE: Trouble(_revive, "", "has power and boots"),
}


class Desk:
    def __init__(self, cluster: HollowCluster) -> None:
        self._cluster = cluster
        self._trouble: dict[str, str] = {}

    @asynccontextmanager
    async def open(self, place: Path) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._serve, place)
        async with server:
            yield

    async def carry_out(self, order: Order) -> Reply:
        unknown = [name for name in order.nodes if name not in self._cluster.nodes]
        if unknown:
            return Reply(text=f"there is no node {', '.join(unknown)}; {self._some_names()}", refused=True)
        if order.verb is Verb.STATUS:
            return await self._status()
        return Reply(text="\n".join(self._do(order.verb, self._cluster.nodes[name]) for name in order.nodes))

    def _do(self, verb: Verb, node: HollowNode) -> str:
        trouble = ORDERS[verb]
        trouble.does(node)
        self._trouble[node.name] = trouble.leaves
        return f"{node.name} {trouble.says}"

    def _some_names(self) -> str:
        names = list(self._cluster.nodes)
        if len(names) <= SHOWN_MAX:
            return f"there are {', '.join(names)}"
        return f"there are {names[0]} to {names[-1]}"

    async def _status(self) -> Reply:
        try:
            known = {node.name: node for node in (await self._cluster.client.list_all(NODES)).items}
            pods = (await self._cluster.client.list_all(PODS)).items
        except KubeError as error:
            return Reply(text=f"the API server does not say: {error}", refused=True)
        lines = [f"{'NODE':<12} {'POWER':<6} {'TROUBLE':<8} {'READY':<8} {'PODS':>5}"]
        for name, node in self._cluster.nodes.items():
            ready = known[name].ready if name in known else "gone"
            power = "on" if node.is_on else "off"
            trouble = self._trouble.get(name) or "-"
            count = sum(pod.spec.node_name == name for pod in pods)
            lines.append(f"{name:<12} {power:<6} {trouble:<8} {ready:<8} {count:>5}")
        return Reply(text="\n".join([*lines, "", *self._disks()]))

    def _disks(self) -> list[str]:
        disks = list(self._cluster.disks)
        corrupted = self._cluster.disks.corrupted()
        intact = len(disks) - len(corrupted)
        return [f"disks: {intact} intact, {len(corrupted)} corrupted", *(verdict.story for verdict in corrupted)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One order per connection. Who says nothing, or nonsense, gets no answer."""
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                order = msgspec.json.decode(await reader.readline(), type=Order)
                writer.write(msgspec.json.encode(await self.carry_out(order)))
                await writer.drain()
        except (TimeoutError, msgspec.DecodeError, ConnectionError):
            return
        finally:
            writer.close()
