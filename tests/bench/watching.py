"""What our watching costs on a real API server, beside the Python clients people use."""

import os

import msgspec

from defib.clock import SystemClock
from defib.kube import kinds
from defib.kube.client import Client
from defib.kube.http import connect
from defib.kube.transport import Request
from testbed.cluster import ControlPlane
from tests.bench.idle import WARM_UP_SECONDS
from tests.bench.processes import PEERS_PYTHON, running, say, stages_until, write, writing
from tests.bench.results import OURS, Idle, Measured, Watching, idle, measured, verdicts

NODES = 5_000
EVENTS = 50_000
# These need milliseconds for an event: with all of them, the run would take half an hour and tell the same.
SLOW_SHARE = {"kubernetes_asyncio": 5, "kubernetes_asyncio_dynamic": 5, "kopf": 5}
CLIENTS = (OURS, "lightkube", *SLOW_SHARE)
RENEW_SECONDS = 10.0


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    nodes: int
    events: int
    clients: tuple[str, ...]
    idle_seconds: float

    @property
    def is_whole(self) -> bool:
        return self.nodes >= NODES and self.events >= EVENTS and set(self.clients) == set(CLIENTS)


class RawList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]


class Bench:
    def __init__(self, cluster: ControlPlane, size: Size) -> None:
        self._cluster = cluster
        self._size = size
        self._nodes = size.nodes
        self._rounds = 0

    async def run(self) -> Watching:
        await self._fill()
        clients = [await self._measure(client) for client in self._size.clients]
        resting = await self._rest(self._size.idle_seconds) if OURS in self._size.clients else None
        return Watching(
            nodes=self._nodes,
            node_bytes=await self._node_bytes(),
            judged=self._size.is_whole,
            clients=clients,
            idle=resting,
            verdicts=verdicts(clients, resting),
        )

    async def _fill(self) -> None:
        say(f"Making {self._nodes:,} nodes with two field managers")
        await write("nodes", self._cluster.kubeconfig, nodes=self._nodes)

    async def _measure(self, client: str) -> Measured:
        """It lists; then the writer makes changes until it has seen them all."""
        events = self._size.events // SLOW_SHARE.get(client, 1)
        self._rounds += 1
        say(f"{client}: list, then {events:,} events")
        wanted = ("--kubeconfig", str(self._cluster.kubeconfig), "--nodes", str(self._nodes), "--events", str(events))
        async with running(PEERS_PYTHON, "tests.bench.child", client, *wanted) as process:
            stages = await stages_until(process, "listed")
            await write("changes", self._cluster.kubeconfig, nodes=self._nodes, count=events, seed=self._rounds)
            stages |= await stages_until(process, "watched")
        return measured(client, stages, events)

    async def _rest(self, seconds: float) -> Idle:
        say(f"Our whole operator with {self._nodes:,} heartbeats, each renewed every 10 s, for {seconds:.0f} s")
        await write("heartbeats", self._cluster.kubeconfig, nodes=self._nodes)
        wanted = ("--kubeconfig", str(self._cluster.kubeconfig), "--nodes", str(self._nodes), "--seconds", str(seconds))
        async with running(PEERS_PYTHON, "tests.bench.idle", *wanted) as process:
            await stages_until(process, "listed")
            length, pace = seconds + 2 * WARM_UP_SECONDS, self._nodes / RENEW_SECONDS
            async with writing("renewals", self._cluster.kubeconfig, nodes=self._nodes, pace=pace, seconds=length):
                stages = await stages_until(process, "ended")
        return idle(stages, seconds, pace)

    async def _node_bytes(self) -> int:
        """How large a node is, as it is served."""
        transport = await connect(self._cluster.kubeconfig, None, os.environ, SystemClock())
        client = Client(transport, SystemClock())
        try:
            answer = await client.ask(Request(method="GET", path=kinds.NODES.collection(), query={"limit": "100"}))
        finally:
            await client.close()
        items = msgspec.json.decode(answer, type=RawList).items
        return sum(len(bytes(item)) for item in items) // len(items)
