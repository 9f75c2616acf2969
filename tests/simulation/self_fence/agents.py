"""The agents of hollow nodes: the real ones. A kubelet starts one again that has ended; none outlives its machine's power."""

import asyncio
import math
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from pathlib import Path

import msgspec

from defib.agent.answering import Desk as AnsweringDesk
from defib.agent.answering import Relay
from defib.agent.asking import Asking
from defib.agent.certificates import Certificates, Contexts
from defib.agent.lease import Leases
from defib.agent.loop import Agent, Means
from defib.agent.settings import AgentSettings
from defib.agent.watchdog import Watchdog
from defib.clock import Clock
from defib.forms import Address
from defib.hollow.node import HollowNode
from defib.kube.client import Client
from defib.kube.errors import KubeError
from defib.kube.transport import Transport
from defib.model.self_fence import Pace
from tests.simulation.freezing import REPLICA
from tests.simulation.self_fence.guarding import Guarding
from tests.simulation.self_fence.network import AGENT, Desk, Network, TalkingLoop

NAMESPACE = "defib-system"
PORT = 9640
BACK_SECONDS = 3.0  # until a kubelet has started the container again
START_SECONDS = 4.0  # at most, after the kubelet


class Plain(Certificates):
    """No file is read, and nobody looks at them: connections are made in memory."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))
        self._none = Contexts(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def current(self) -> Contexts:
        return self._none


PLAIN = Plain()


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent finds on its node, whichever boot it is."""

    node: HollowNode
    guarding: Guarding
    pace: Pace
    clock: Clock  # of the node
    line: Transport
    arm: Callable[[], Watchdog]


class HollowAgent:
    """The agent of one node, one process after the other."""

    def __init__(self, seat: Seat, loop: TalkingLoop, network: Network) -> None:
        self.name = f"{AGENT}{seat.node.name}"
        self.calm_since = math.inf  # for so long it has been at work undisturbed
        self._seat = seat
        self._loop = loop
        self._network = network
        self._is_frozen = False
        self._agent: Agent | None = None
        self._tasks: list[asyncio.Task[None]] = []  # its kubelet's, then its own

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Its machine has power, and will have booted after a while."""
        context = Context()
        context.run(REPLICA.set, self.name)
        self._tasks = [group.create_task(self._keep_running(group), name=self.name, context=context)]

    def end(self) -> None:
        """Its machine has no power."""
        self.thaw()
        for task in self._tasks:
            task.cancel()
        self._tasks, self.calm_since = [], math.inf
        self._network.desks.pop(self._host, None)

    # What can become of the process

    def kill(self) -> None:
        """As kill -9 does it."""
        for task in self._tasks[1:]:
            task.cancel()

    def stop(self) -> None:
        """As SIGTERM does it."""
        if self._agent is not None:
            self._agent.stop()
            self.calm_since = math.inf

    def freeze(self) -> None:
        self._is_frozen, self.calm_since = True, math.inf
        self._loop.freeze(self.name)

    def thaw(self) -> None:
        if self._is_frozen:
            self._is_frozen, self.calm_since = False, self._loop.time()
            self._loop.thaw(self.name)

    async def _keep_running(self, group: asyncio.TaskGroup) -> None:
        await asyncio.sleep(self._seat.clock.jitter(START_SECONDS))  # virtual
        while True:
            if self._seat.node.is_up:
                self._network.desks[self._host] = None
                process = group.create_task(self._run(), name=f"{self.name} runs")
                self._tasks[1:] = [process]
                await asyncio.wait([process])
                self.calm_since = math.inf
            await asyncio.sleep(BACK_SECONDS)  # virtual

    async def _run(self) -> None:
        """One process. Where it does not reach the API server from the start, it ends and is started again."""
        seat = self._seat
        leases = Leases(Client(seat.line, seat.clock), NAMESPACE, seat.node.name, seat.pace.request_seconds, seat.clock)
        relay = Relay(leases.look, seat.clock)
        with suppress(KubeError):
            agent = Agent(self._settings(), await leases.domain(), PORT, self._means(leases, relay))
            with self._answering(agent, relay):
                await agent.run()

    @contextmanager
    def _answering(self, agent: Agent, relay: Relay) -> Iterator[None]:
        serve = AnsweringDesk(relay, self._seat.clock).serve
        desks, host = self._network.desks, self._host
        desk = Desk(self._seat.node.name, serve, copy_context(), lambda: desks.get(host) is desk)
        desks[host], self._agent, self.calm_since = desk, agent, self._loop.time()
        try:
            yield
        finally:
            self._agent = None
            if desks.get(host) is desk:
                desks[host] = None

    def _means(self, leases: Leases, relay: Relay) -> Means:
        seat = self._seat
        asking = Asking(seat.node.name, seat.node.boot_id, seat.pace, PLAIN, seat.clock)
        return Means(leases=leases, asking=asking, relay=relay, arm=seat.arm, clock=seat.clock)

    def _settings(self) -> AgentSettings:
        guarding = self._seat.guarding
        return AgentSettings(
            node=self._seat.node.name,
            namespace=NAMESPACE,
            address=Address(self._host, PORT),
            tls=Path("nowhere"),
            watchdog=guarding.watchdog,
            watchdog_seconds=guarding.watchdog_seconds,
            pace=self._seat.pace,
        )

    @property
    def _host(self) -> str:
        return self._seat.node.address
