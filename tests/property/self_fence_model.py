"""Agents, an API server and an operator on a network whose links come and go, each direction by itself, second by second."""

import itertools
from collections.abc import Collection, Mapping

import msgspec

from defib.decide.self_fence.heard import Meant, Witness, enough_heard
from defib.decide.self_fence.memory import Memory, Place, ask_again, conclude, list_anew, was_answered, was_told
from defib.decide.self_fence.safe_time import safe_time
from defib.decide.self_fence.verdict import Peer, Round, Says
from defib.model.self_fence import Pace, Report

PACE = Pace(interval_seconds=2, request_seconds=1, failures=2, peer_seconds=3)
SLOW = Pace(interval_seconds=13, request_seconds=2, failures=3, peer_seconds=5)
WATCHDOG_SECONDS = 4
LONG_AGO = 9999.0
MARGINS = ("feed", "reboot", "clocks")  # which nobody needs here: what is too short by a second shows
API = "api"

Link = tuple[str, str]  # from, to


class Agent(msgspec.Struct):
    """One node and its agent. It is dead when its watchdog was not fed for too long."""

    place: Place
    pace: Pace = PACE
    memory: Memory = Memory()
    steady_since: int = 0  # since then it has told nobody that it is cut off
    next_at: int = 0
    fed_at: int = 0
    permit: float = 0.0

    @property
    def peer(self) -> Peer:
        return self.place.me

    def is_alive(self, now: int) -> bool:
        return now <= self.fed_at + WATCHDOG_SECONDS

    def report(self, now: int) -> Report:
        return Report(
            pace=self.pace,
            watchdog="device",
            watchdog_seconds=WATCHDOG_SECONDS,
            feed_seconds=1,
            armed=True,
            boot_id=self.peer.node,
            address="",
            port=0,
            domain=self.peer.domain,
            version="",
            answered_seconds=0,
            steady_seconds=now - self.steady_since,
            known=self.place.known(),
        )


class World:
    """`doomed` is ordered to die when `order` is called. All other agents have no order."""

    def __init__(self, domains: Mapping[str, str], doomed: str, slow: Collection[str] = ()) -> None:
        peers = [Peer(node, domain) for node, domain in domains.items()]
        self.agents = {
            peer.node: Agent(Place(me=peer), pace=SLOW if peer.node in slow else PACE, next_at=number % 2)
            for number, peer in enumerate(peers)
        }
        self.doomed = doomed
        self.ordered_at: int | None = None
        self.now = 0
        self._down: frozenset[Link] = frozenset()
        self._late = 0
        self._on_the_way: list[tuple[int, str, Report]] = []
        self._seen: dict[str, tuple[int, Report]] = {}  # by whose Lease is there
        self._made: dict[str, int] = {}
        self.was_counted_as_dead = False

    def pass_seconds(self, seconds: int, down: frozenset[Link], late: int = 0) -> None:
        """In each second everybody does what is due, and the operator looks. Renewals arrive so late; then nobody waits for them."""
        self._down, self._late = down, late
        for _ in range(seconds):
            self.now += 1
            for agent in self.agents.values():
                if agent.is_alive(self.now):
                    self._step(agent)
            self._look()

    def order(self) -> None:
        self.ordered_at = self.now

    def delete_lease(self, node: str | None) -> None:
        """By somebody who has no business there. An agent that renews makes it anew, and is new to all others then."""
        if node is not None:
            self._seen.pop(node, None)
            self._made[node] = self.now

    @property
    def safe_seconds(self) -> float:
        parts = safe_time(self.agents[self.doomed].report(self.now)).parts
        return sum(part.seconds for part in parts if part.name not in MARGINS)

    def _passes(self, *way: str) -> bool:
        return not any(link in self._down for link in itertools.pairwise(way))

    def _has_order(self, node: str) -> bool:
        return node == self.doomed and self.ordered_at is not None

    def _step(self, agent: Agent) -> None:
        if self.now >= agent.next_at:
            self._talk(agent)
        verdict, agent.memory = conclude(agent.memory, agent.pace, self.now, agent.place, None)
        if verdict.ask:
            verdict, agent.memory = conclude(agent.memory, agent.pace, self.now, agent.place, self._asked_by(agent))
        agent.permit = verdict.until
        if verdict.feed and self.now < agent.permit:
            agent.fed_at = self.now

    def _talk(self, agent: Agent) -> None:
        """Every second request lists all, so that who is known changes as often as it can."""
        node = agent.peer.node
        agent.memory = ask_again(agent.memory)
        renews = agent.memory.is_ordered or agent.memory.requests % 2 == 1
        if renews and self._passes(node, API):
            self._on_the_way.append((self.now + self._late, node, agent.report(self.now)))
        is_answered = self._passes(node, API, node) and not self._late
        if is_answered:
            agent.memory = was_answered(agent.memory, asked_at=self.now, has_order=self._has_order(node))
            there = [self.agents[name].peer for name in self._seen if name != node]
            agent.place = was_told(agent.place) if renews else list_anew(agent.place, tuple(there))
        agent.next_at = self.now + int(agent.pace.interval_seconds if is_answered else agent.pace.retry_seconds)

    def _asked_by(self, agent: Agent) -> Round:
        me = agent.peer.node
        words = {
            node: said
            for node in (peer.node for peer in agent.place.peers or ())
            if (other := self.agents[node])
            and other.is_alive(self.now)
            and self._passes(me, node)
            and (said := self._said_by(other, me))
            and self._passes(node, me)
        }
        return Round(began_at=self.now, words=words)

    def _said_by(self, other: Agent, about: str) -> Says:
        if not self._passes(other.peer.node, API, other.peer.node):
            other.steady_since = self.now
            return Says.CUT_OFF
        return Says.ORDER if self._has_order(about) else Says.NO_ORDER

    def _look(self) -> None:
        """The operator's half: it counts the node as dead when its time is over, and enough agents are heard."""
        for arrives, node, report in [one for one in self._on_the_way if one[0] <= self.now]:
            self._seen[node] = (arrives, report)
        self._on_the_way = [one for one in self._on_the_way if one[0] > self.now]
        if self.ordered_at is None:
            return
        meant = Meant(
            node=self.doomed,
            known=self._seen[self.doomed][1].known,
            lives_seconds=self.safe_seconds,
            safe_seconds=self.safe_seconds,
            ordered_seconds=self.now - self.ordered_at,
            answered_seconds=0,
            interval_seconds=self.agents[self.doomed].pace.interval_seconds,
        )
        if enough_heard([self._witness(node) for node in self._seen], meant).enough:
            self.was_counted_as_dead = True
            assert not self.agents[self.doomed].is_alive(self.now), "it was counted as dead, and lives"

    def _witness(self, node: str) -> Witness:
        seen, report = self._seen[node]
        known = self.now - self._made[node] if node in self._made else LONG_AGO
        return Witness(
            node=node, domain=report.domain, report=report, silent_seconds=self.now - seen, known_seconds=known
        )
