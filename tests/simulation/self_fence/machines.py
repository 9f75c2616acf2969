"""A hollow node that takes itself down: its agent, its watchdog, and what a reset does to its machine."""

import asyncio
import math
from collections.abc import Callable
from contextvars import Context
from functools import partial

import msgspec

from defib.agent.watchdog import Watchdog
from defib.clock import Clock
from defib.hollow.node import HollowNode
from defib.kube.transport import Transport
from defib.model.node import Lease
from defib.model.self_fence import ORDER, node_of, read_order
from tests.simulation.clocks import Gait, OwnClock
from tests.simulation.self_fence.agents import HollowAgent, Seat
from tests.simulation.self_fence.devices import HollowDevice
from tests.simulation.self_fence.guarding import FASTEST, Guarding
from tests.simulation.self_fence.network import AGENT, AgentLine, Network, TalkingLoop

RESET_SECONDS = 3.0  # at most, from the watchdog that fires to a machine that is down
OFF_SECONDS = 2.0  # of a machine that is reset

DISOBEYED = "is fed although its agent has read its order"
BOOTED, LOST_POWER, IN_VAIN = "boots", "loses power", "has a watchdog that should fire and does not"


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What all nodes of a day share."""

    guarding: Guarding
    clock: Clock
    loop: TalkingLoop
    network: Network
    transport: Callable[[str], Transport]
    tell: Callable[["GuardedNode", str], None]  # what becomes of a machine
    cause: Callable[["GuardedNode"], str]  # why its watchdog fires now


class GuardedNode:
    """A hollow node, its agent and its watchdog."""

    def __init__(self, number: int, node: HollowNode, site: Site) -> None:
        guarding, name = site.guarding, f"{AGENT}{node.name}"
        rate, self.pace = guarding.rate_of(number), guarding.pace_of(number)
        site.loop.rates[name] = rate
        self.node = node
        self.is_broken = node.name in guarding.broken
        self.hangs_on = False  # what silences its kubelet is there again after a reset
        self.answered_at = -math.inf  # when the API server last answered its agent
        self.answered_since = math.inf  # from when on it has done so without a long pause
        self.device = HollowDevice(guarding, rate, self._fed, self._fire)
        line = AgentLine(site.transport(name), site.network, node.name, self._heard)
        clock = OwnClock(site.clock, Gait(rate))
        seat = Seat(node=node, guarding=guarding, pace=self.pace, clock=clock, line=line, arm=self._arm)
        self.agent = HollowAgent(seat, site.loop, site.network)
        self._clock = site.clock
        self._tell = site.tell
        self._cause = site.cause
        self._group: asyncio.TaskGroup | None = None
        self._is_unplugged = False
        self._why = ""
        self._read_at: dict[str, float] = {}  # by boot: when its agent was told of its order
        node.machine.subscribe(self._powered)

    def live_in(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tell(self, BOOTED)
        self.agent.begin(group)

    def pull_cord(self) -> None:
        self._is_unplugged = True
        self.node.machine.set_power(False)

    def put_cord_in(self) -> None:
        self._is_unplugged = False
        self.node.machine.set_power(True)

    def _fed(self) -> None:
        if self._clock.monotonic() > self._read_at.get(self.node.boot_id, math.inf):
            self._tell(self, DISOBEYED)
            self._read_at[self.node.boot_id] = math.inf  # once is enough

    def _arm(self) -> Watchdog:
        self.device.start()
        return self.device

    def _heard(self, answer: bytes) -> None:
        """What the API server answered its agent."""
        now = self._clock.monotonic()
        if now - self.answered_at > self.pace.fresh_seconds / FASTEST:
            self.answered_since = now
        self.answered_at = now
        if ORDER.encode() not in answer:
            return
        said = msgspec.json.decode(answer)
        for item in said.get("items") or (said,):
            lease = msgspec.convert(item, Lease)
            order = read_order(lease)
            if order is not None and node_of(lease) == self.node.name and order.boot_id == self.node.boot_id:
                self._read_at.setdefault(order.boot_id, self._clock.monotonic())

    def _fire(self) -> None:
        """In no context, as everything that a machine does by itself."""
        if self.is_broken:
            self._tell(self, IN_VAIN)
            return
        reset = partial(self._reset, self.node.boot_id, self._cause(self))
        asyncio.get_running_loop().call_later(self._clock.jitter(RESET_SECONDS), reset, context=Context())

    def _reset(self, boot_id: str, why: str) -> None:
        if self.node.is_on and self.node.boot_id == boot_id:
            self._why = why
            self.node.machine.set_power(False)
            asyncio.get_running_loop().call_later(OFF_SECONDS, self._start, context=Context())

    def _start(self) -> None:
        if not self._is_unplugged:
            self.node.machine.set_power(True)

    def _powered(self, on: bool) -> None:
        """The node itself has heard of it before us."""
        if on and self._group is not None:
            self._tell(self, BOOTED)
            self.agent.begin(self._group)
            if self.hangs_on:
                self.node.hang()
        elif not on:
            self._tell(self, self._why or LOST_POWER)
            self._why = ""
            self.device.stop()
            self.agent.end()
