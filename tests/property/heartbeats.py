"""A model of heartbeats as we hear them, and of everything that delays them though no node is dead. Seeded."""

import heapq
import math
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

import msgspec

from defib.decide.fast_path import ZONE
from defib.kube.client import Scope
from defib.kube.decode import Event
from defib.model.cluster import HEARTBEAT_NAMESPACE, HEARTBEATS, Blindness, Cluster
from defib.model.evidence import Evidence, Says, Source
from defib.model.meta import Meta
from defib.model.node import Condition, Lease, LeaseSpec, Node, NodeStatus
from defib.model.power import FenceCheck, PowerPath, PowerState
from defib.observe.pulses import HeartbeatShelf
from defib.observe.shelf import Contents
from tests.builders import T0

EVERY = 10.0
JUDGED_EVERY = 5.0
GRACE = timedelta(seconds=40)
ZONES = 3
PATH = PowerPath(driver="hollow")


class Trouble(msgspec.Struct, frozen=True):
    """`kind`: slow, stalled, late, api, zone. `whom` is a node or a zone."""

    kind: str
    begins: float
    ends: float
    whom: int = 0
    seconds: float = 0.0


def draw_troubles(chance: Random, hours: float, nodes: int) -> list[Trouble]:
    """About twenty of each kind in an hour, and every hour an API server that goes away."""
    drawn: list[Trouble] = []
    for hour in range(math.ceil(hours)):
        for kind, longest in (("slow", 600.0), ("stalled", 120.0), ("late", 60.0)):
            for _ in range(20):
                begins = hour * 3600 + chance.uniform(60, 3300)
                whom, seconds = chance.randrange(nodes), chance.uniform(1.0, 15.0)
                drawn.append(Trouble(kind, begins, begins + chance.uniform(5.0, longest), whom, seconds))
        for kind, longest in (("api", 180.0), ("zone", 240.0)):
            begins = hour * 3600 + chance.uniform(60, 3000)
            drawn.append(Trouble(kind, begins, begins + chance.uniform(20.0, longest), chance.randrange(ZONES)))
    return drawn


def draw_outages(chance: Random, hours: float) -> list[Trouble]:
    """Of the API server alone: one every five minutes, each over before the next."""
    begins = (300.0 * number + chance.uniform(10, 100) for number in range(int(hours * 12)))
    return [Trouble("api", at, at + chance.uniform(20.0, 180.0)) for at in begins]


class Fleet:
    """Steps through time: renewals, as they come to us. Nobody is ever dead; whoever is asked and can be reached answers."""

    def __init__(self, seed: int, nodes: int, hours: float, *, only_outages: bool = False) -> None:
        self._chance = Random(seed)
        self.now_seconds = 0.0
        self.ahead = 0.0  # by how much our clock shows a later time than is
        self.shelf = HeartbeatShelf(Scope(namespace=HEARTBEAT_NAMESPACE), self, HEARTBEATS)
        drawn = draw_outages(self._chance, hours) if only_outages else draw_troubles(self._chance, hours, nodes)
        self._ahead_of_us = deque(sorted(drawn, key=lambda one: one.begins))
        self._active: list[Trouble] = []
        self._ends_first = math.inf  # of those that are active
        self._next = [(self._chance.uniform(0, EVERY), number) for number in range(nodes)]
        self._version = 1
        self.nodes = {f"n{number}": _node(number) for number in range(nodes)}
        leases = [self._lease(number) for number in range(nodes)]
        self.shelf.replace(Contents({lease.key: lease for lease in leases}), "1")
        self.shelf.saw(self.now())
        heapq.heapify(self._next)

    # A clock, as a shelf wants one

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.now_seconds + self.ahead)

    def monotonic(self) -> float:
        return self.now_seconds

    def jitter(self, most: float) -> float:
        return most

    # What happens

    def step(self, until: float) -> None:
        while self._next and self._next[0][0] <= until:
            at, number = heapq.heappop(self._next)
            self.now_seconds = max(at, self.now_seconds)
            self._turn(number)
        self.now_seconds = until
        self._change_troubles(until)
        self._see()

    def _change_troubles(self, now: float) -> None:
        """Most seconds change nothing, and a whole day has 1,500 troubles."""
        if self._ends_first > now and not (self._ahead_of_us and self._ahead_of_us[0].begins <= now):
            return
        while self._ahead_of_us and self._ahead_of_us[0].begins <= now:
            self._active.append(self._ahead_of_us.popleft())
        self._active = [one for one in self._active if now < one.ends]
        self._ends_first = min((one.ends for one in self._active), default=math.inf)

    def _turn(self, number: int) -> None:
        """A kubelet's moment: it renews, or cannot and tries again in a while."""
        now = self.now_seconds
        meets = [one for one in self._active if self._concerns(one, number)]
        if any(one.kind in ("api", "zone", "stalled") for one in meets):
            heapq.heappush(self._next, (now + self._chance.uniform(1.0, 7.0), number))
            return
        delay = sum(one.seconds * self._chance.random() for one in meets)
        self.shelf.apply([Event("MODIFIED", self._lease(number))])
        heapq.heappush(self._next, (now + EVERY * self._chance.uniform(1.0, 1.04) + delay, number))

    def _concerns(self, trouble: Trouble, number: int) -> bool:
        match trouble.kind:
            case "api":
                return True
            case "zone":
                return number % ZONES == trouble.whom
        return number == trouble.whom

    @property
    def is_away(self) -> bool:
        """The API server."""
        return any(one.kind == "api" for one in self._active)

    def judge(self) -> None:
        """What Kubernetes says of nodes, by whoever reads their heartbeats every five seconds and may write."""
        now = T0 + timedelta(seconds=self.now_seconds)
        if self.is_away or self.now_seconds % JUDGED_EVERY:
            return
        said = {lease.name: self._said(lease, now) for lease in self.shelf.objects.values()}
        changed = {name: _node(int(name[1:]), ready, now) for name, ready in said.items() if self._ready(name) != ready}
        self.nodes = self.nodes | changed if changed else self.nodes

    def _said(self, lease: Lease, now: datetime) -> str:
        assert lease.spec.renew_time is not None
        return "Unknown" if now - lease.spec.renew_time > GRACE else "True"

    def _ready(self, name: str) -> str:
        return self.nodes[name].ready

    def _see(self) -> None:
        is_away = self.is_away
        if is_away and self.shelf.blind_since is None:
            self.shelf.went_blind("connection refused")
        elif not is_away:
            self.shelf.saw(self.now())

    # What we would see

    def cluster(self, evidence: dict[str, tuple[Evidence, ...]]) -> Cluster:
        blind_since = self.shelf.blind_since
        return Cluster(
            now=self.now(),
            nodes=self.nodes,
            heartbeats=self.shelf.objects,
            pulses=self.shelf.pulses,
            blind=(Blindness(HEARTBEATS, blind_since, ""),) if blind_since else (),
            evidence=evidence,
            fences={name: FenceCheck(PATH, said[0].at, state=PowerState.ON) for name, said in evidence.items()},
        )

    def asked(self, name: str, neighbours: tuple[str, ...]) -> tuple[Evidence, ...]:
        """What asking now finds out: the API server has what we have, and a kubelet answers, unless it is cut off."""
        at, alive = self.now(), sum(map(self._answers, neighbours))
        return (
            Evidence(Source.HEARTBEAT, Says.SAME, at),
            Evidence(Source.KUBELET, Says.ANSWERS if self._answers(name) else Says.SILENT, at),
            Evidence(Source.NEIGHBOURS, Says.ANSWERS if 2 * alive > len(neighbours) else Says.SILENT, at),
        )

    def _answers(self, name: str) -> bool:
        return not any(one.kind == "zone" and self._concerns(one, int(name[1:])) for one in self._active)

    def _lease(self, number: int) -> Lease:
        self._version += 1
        name = f"n{number}"
        meta = Meta(name=name, namespace=HEARTBEAT_NAMESPACE, uid=name, resource_version=str(self._version))
        renewed = T0 + timedelta(seconds=self.now_seconds)
        return Lease(metadata=meta, spec=LeaseSpec(name, lease_duration_seconds=40, renew_time=renewed))


def moments(hours: float, step: float) -> Iterator[float]:
    count = int(hours * 3600 / step)
    return (number * step for number in range(1, count + 1))


def _node(number: int, ready: str = "True", since: datetime = T0) -> Node:
    meta = Meta(name=f"n{number}", uid=f"uid-{number}", labels={ZONE: str(number % ZONES)})
    shown = Condition(type="Ready", status=ready, last_transition_time=since)
    return Node(metadata=meta, status=NodeStatus(conditions=[shown]))
