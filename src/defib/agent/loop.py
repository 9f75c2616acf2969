"""The life of an agent: it renews its Lease, asks its peers when it must, and feeds its watchdog for as long as it is allowed to.

Feeding needs a permit that ends by itself, so a loop that hangs stops it. The watchdog is armed only after the API server
has said that this boot is not meant to die: an agent that is started again and again does not feed on that account. It is
disarmed only after the API server has taken note of that: else the others could count a living node as dead.
"""

import asyncio
import math
from collections.abc import Callable
from zlib import crc32

import msgspec
import structlog

from defib import __version__
from defib.agent.answering import Relay
from defib.agent.asking import ANSWER_SECONDS, AT_ONCE_MAX, Asking, ask_all, at_once
from defib.agent.lease import Leases, Neighbour, neighbours
from defib.agent.settings import AgentSettings, feed_seconds
from defib.agent.watchdog import NoWatchdog, Watchdog
from defib.clock import Clock
from defib.decide.self_fence.memory import Memory, Place, ask_again, conclude, list_anew, was_answered, was_told
from defib.decide.self_fence.verdict import Peer, Reason, Round, Verdict
from defib.kube.errors import KubeError
from defib.model.node import Lease
from defib.model.self_fence import Report, lease_name, peers_every, read_order

log = structlog.get_logger("agent")

LOOK_SECONDS = 1.0
STOP_SECONDS = 25.0  # a kubelet kills what has not ended after 30 s
FIRST_LIST_AGAIN = 3  # requests after one that failed
LONG_SECONDS = 86_400.0  # as long as nobody cares how much longer


class Means(msgspec.Struct, frozen=True):
    """What an agent works with. `arm` opens the watchdog, which counts from then on. Raises NoWatchdog."""

    leases: Leases
    asking: Asking
    relay: Relay
    arm: Callable[[], Watchdog]
    clock: Clock


class Agent:
    def __init__(self, settings: AgentSettings, domain: str, port: int, means: Means) -> None:
        self._settings = settings
        self._domain = domain
        self._port = port
        self._means = means
        self._memory = Memory()
        self._neighbours: tuple[Neighbour, ...] = ()
        self._place = Place(me=Peer(settings.node, domain))
        self._round: Round | None = None  # the last one, for as long as the API server does not answer us
        self._list_at = 0  # the number of the request from which on the list is due
        self._watchdog: Watchdog | None = None
        self._is_guard_known = False  # whether it was reported that there is one
        self._permit_until = -math.inf
        self._reason: Reason | None = None
        self._trouble = ""
        self._stop = asyncio.Event()
        self._stop_at = math.inf

    def stop(self) -> None:
        """End as soon as the API server knows of it, or when there is no more time."""
        if not self._stop.is_set():
            self._stop_at = self._now() + STOP_SECONDS
            self._stop.set()

    async def run(self) -> bool:
        """Until it is told to stop. False when the watchdog was left counting."""
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(self._ask_peers()), group.create_task(self._feed())]
            try:
                return await self._renew_until_stopped()
            finally:
                for task in others:
                    task.cancel()
                if self._watchdog:
                    self._watchdog.leave()

    def _now(self) -> float:
        return self._means.clock.monotonic()

    async def _renew_until_stopped(self) -> bool:
        while True:
            began = self._now()
            is_stopping = self._stop.is_set()
            is_answered = await self._talk(is_stopping=is_stopping)
            self._judge()
            if is_answered and not is_stopping:
                self._arm_when_ready()
            if is_stopping and (ended := self._ended(is_answered=is_answered)) is not None:
                return ended
            await self._pause(began + self._next_seconds(is_answered=is_answered))

    def _next_seconds(self, *, is_answered: bool) -> float:
        """From one request to the next. At the start none is waited for: a node is guarded once that was reported."""
        lists_first = self._place.peers is None and self._memory.requests + 1 >= self._list_at
        tells_first = self._watchdog is not None and not self._is_guard_known
        if is_answered and (lists_first or tells_first):
            return LOOK_SECONDS
        return self._settings.pace.interval_seconds if is_answered else self._settings.pace.retry_seconds

    async def _talk(self, *, is_stopping: bool) -> bool:
        """One request, and what its answer says. Whether there was one."""
        began = self._now()
        self._memory = ask_again(self._memory)
        try:
            async with asyncio.timeout(self._settings.pace.request_seconds):
                lease = await self._ask(is_stopping=is_stopping)
        except (KubeError, TimeoutError) as error:
            self._tell_trouble(str(error) or "no answer in time")
            return False
        self._tell_trouble("")
        self._round = None
        order = read_order(lease) if lease else None
        has_order = order is not None and order.boot_id == self._means.asking.boot_id
        self._memory = was_answered(self._memory, asked_at=began, has_order=has_order)
        return True

    async def _ask(self, *, is_stopping: bool) -> Lease | None:
        """Our Lease, by a renewal, or by a list of all. Whoever has an order renews, so that a broken watchdog is noticed."""
        memory, has_peers = self._memory, self._place.peers is not None
        may_list = memory.was_ever_answered and not memory.is_ordered and not is_stopping
        if not may_list or memory.requests < self._list_at:
            report = self._report(is_stopping=is_stopping)
            lease = await self._means.leases.renew(report)
            self._place, self._is_guard_known = was_told(self._place), report.armed
            return lease
        # A list that fails is not tried again at once: it may be what the API server suffers from.
        self._list_at = memory.requests + (peers_every(len(self._neighbours)) // 2 if has_peers else FIRST_LIST_AGAIN)
        return self._listed(await self._means.leases.all())

    def _listed(self, leases: list[Lease]) -> Lease | None:
        me, pace = self._settings.node, self._settings.pace
        every = peers_every(len(leases))
        # All agents may have started at once, and must not list at once for ever.
        is_first = self._place.peers is None
        self._list_at = self._memory.requests + (1 + crc32(me.encode()) % every if is_first else every)
        self._neighbours = neighbours(leases, me)
        self._place = list_anew(self._place, tuple(neighbour.peer for neighbour in self._neighbours))
        if at_once(len(leases), pace) == AT_ONCE_MAX:
            log.warning("too many peers for the time", peers=len(leases), advice="choose a longer --peer-time")
        return next((lease for lease in leases if lease.name == lease_name(me)), None)

    def _report(self, *, is_stopping: bool) -> Report:
        wished, watchdog = self._settings.watchdog_seconds, self._watchdog
        seconds = watchdog.seconds if watchdog else wished
        return Report(
            pace=self._settings.pace,
            watchdog=watchdog.kind if watchdog else "software",
            watchdog_seconds=seconds,
            feed_seconds=feed_seconds(seconds),
            armed=watchdog is not None and not is_stopping,
            boot_id=self._means.asking.boot_id,
            address=self._settings.address.host,
            port=self._port,
            domain=self._domain,
            version=__version__,
            answered_seconds=round(min(self._now() - self._memory.own_at, LONG_SECONDS), 1),
            steady_seconds=math.floor(self._now() - self._means.relay.steady_since),
            known=self._place.known(),
        )

    def _arm_when_ready(self) -> None:
        """An order that stands there already is obeyed as well: armed, and never fed."""
        if self._watchdog is None and (self._place.peers is not None or self._memory.is_ordered):
            self._watchdog = self._means.arm()
            log.info("the watchdog is armed", kind=self._watchdog.kind, seconds=self._watchdog.seconds)

    def _judge(self) -> Verdict:
        verdict, self._memory = conclude(self._memory, self._settings.pace, self._now(), self._place, self._round)
        self._permit_until = verdict.until if verdict.feed else -math.inf
        if self._watchdog and verdict.reason is not self._reason:
            self._reason = verdict.reason
            tell = log.info if verdict.feed else log.error
            tell("the node lives" if verdict.feed else "the watchdog is not fed any more", why=verdict.reason.value)
        return verdict

    async def _ask_peers(self) -> None:
        while True:
            began = self._now()
            if self._memory.was_ever_answered and self._judge().ask:
                asked = [neighbour.address for neighbour in self._neighbours if neighbour.address]
                self._round = await ask_all(self._means.asking, asked)
                self._judge()
                await asyncio.sleep(max(0.0, began + ANSWER_SECONDS - self._now()))
            else:
                await asyncio.sleep(LOOK_SECONDS)

    async def _feed(self) -> None:
        while True:
            if self._watchdog is None:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if self._now() < self._permit_until:
                try:
                    self._watchdog.feed()
                except OSError as error:
                    raise NoWatchdog(f"the watchdog is gone ({error}); start the agent again") from error
            await asyncio.sleep(feed_seconds(self._watchdog.seconds))

    def _ended(self, *, is_answered: bool) -> bool | None:
        """How we end; None while we must not yet. An order that we have read is not evaded."""
        if self._watchdog is None:
            return True
        if self._memory.is_ordered:
            log.error("stopped with an order: the watchdog counts on")
            return False
        if is_answered:
            watchdog, self._watchdog = self._watchdog, None
            is_off = watchdog.disarm()
            log.info("stopped", watchdog="disarmed" if is_off else "cannot be disarmed: it counts on")
            return is_off
        if self._now() >= self._stop_at:
            log.error("stopped without the API server's knowledge: the watchdog counts on")
            return False
        return None

    async def _pause(self, until: float) -> None:
        """To the next request. When we are to stop, that is at once, the first time."""
        left = max(0.0, until - self._now())
        if self._stop.is_set():
            await asyncio.sleep(min(left, LOOK_SECONDS))
            return
        try:
            async with asyncio.timeout(left):
                await self._stop.wait()
        except TimeoutError:
            return

    def _tell_trouble(self, trouble: str) -> None:
        """Once when it begins, and once when it is over."""
        if bool(trouble) != bool(self._trouble):
            if trouble:
                log.warning("the API server does not answer", why=trouble)
            else:
                log.info("the API server answers again")
        self._trouble = trouble
