"""All nodes of a day that take themselves down: what becomes of them goes into the history, with its cause."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

import msgspec

from defib.agent.asking import ANSWER_SECONDS
from defib.model.node import Lease
from defib.model.self_fence import LABEL, LABEL_VALUE, REPORT, Report, lease_name, node_of, read_order, text_of
from defib.simulate.cluster import SimulatedCluster
from defib.simulate.store import DELETED, Change
from defib.simulate.virtual_time import VirtualClock
from tests.simulation.history import History, OnNode
from tests.simulation.self_fence.agents import NAMESPACE, PORT
from tests.simulation.self_fence.guarding import FASTEST, SLOWEST, Guarding
from tests.simulation.self_fence.machines import GuardedNode, Site
from tests.simulation.self_fence.network import API, Link, Network, TalkingLoop

LEASES = "leases.coordination.k8s.io"
ASKED_SECONDS = 3 * ANSWER_SECONDS / SLOWEST  # in which all peers are asked, and asked again
LONG_AGO = timedelta(days=30)

BY_ORDER = "is reset by order"
BY_SILENCE = "is reset for want of a word"
BY_ILL_AGENT = "is reset while its agent is ill"
WITHOUT_CAUSE = "is reset without a cause"


class GuardedNodes(Mapping[str, GuardedNode]):
    def __init__(
        self, cluster: SimulatedCluster, clock: VirtualClock, loop: TalkingLoop, history: History, guarding: Guarding
    ) -> None:
        self.guarding = guarding
        self.network = loop.network = Network(clock.monotonic)
        self._server = cluster.server
        self._clock = clock
        self._history = history
        self._domain_of: Callable[[str], str] = str
        self._cut: dict[str, bool] = {}  # nodes that do not reach the API server, and whether they hear others
        self._all_known = guarding.long_known  # nobody's Lease was gone while others read who there is
        self._ordered: set[tuple[str, str]] = set()  # nodes and boots that ever were
        site = Site(
            guarding=guarding,
            clock=clock,
            loop=loop,
            network=self.network,
            transport=cluster.transport,
            tell=self._tell,
            cause=self._cause,
        )
        self._nodes = {
            name: GuardedNode(number, node, site) for number, (name, node) in enumerate(cluster.nodes.items())
        }
        self._server.reactions.append(self._written)

    def __getitem__(self, name: str) -> GuardedNode:
        return self._nodes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def live_in(self, group: asyncio.TaskGroup, domain_of: Callable[[str], str]) -> None:
        """`domain_of` a node, by which it was known before the day began."""
        self._domain_of = domain_of
        for name, guarded in self._nodes.items():
            if self.guarding.long_known:
                self._server.store.put(LEASES, _known(guarded, domain_of(name), self._clock, self.guarding))
            guarded.live_in(group)
        self._server.settle()

    def cut(self, links: Iterable[Link]) -> None:
        self.network.cut(links)
        self._move_kubelets()

    def mend(self, links: Iterable[Link]) -> None:
        self.network.mend(links)
        self._move_kubelets()

    def _move_kubelets(self) -> None:
        """A kubelet goes by the same links as the agent beside it."""
        for name, one in self._nodes.items():
            is_cut = not self.network.passes(name, API)
            hears = any(self.network.passes(other, name) for other in self._nodes if other != name)
            if is_cut and self._cut.get(name) != hears:
                one.node.partition(from_api_only=hears)
                self._cut[name] = hears
            elif not is_cut and name in self._cut:
                one.node.heal()
                del self._cut[name]

    def _written(self, change: Change) -> None:
        meta = change.now.object["metadata"]
        if change.resource == LEASES and meta["namespace"] == NAMESPACE and LABEL in (meta.get("labels") or {}):
            self._all_known = self._all_known and change.kind != DELETED
            lease = msgspec.convert(change.now.object, Lease)
            if (order := read_order(lease)) is not None:
                self._ordered.add((node_of(lease), order.boot_id))

    def _tell(self, one: GuardedNode, what: str) -> None:
        self._history.note(OnNode(self._history.now, one.node.name, one.node.boot_id, what))

    def _cause(self, one: GuardedNode) -> str:
        """Why its watchdog was not fed any more, as far as that is allowed at all."""
        if (one.node.name, one.node.boot_id) in self._ordered:
            return BY_ORDER
        if one.agent.calm_since > min(one.answered_at, one.device.started_at):
            return BY_ILL_AGENT
        if one.answered_since > one.device.started_at:
            return BY_SILENCE  # the word that it had waited for came too late
        seconds = self._clock.monotonic() - one.answered_at
        is_answered = seconds < one.pace.patience_seconds / FASTEST
        return WITHOUT_CAUSE if is_answered or self._must_live(one) else BY_SILENCE

    def _must_live(self, one: GuardedNode) -> bool:
        """When all know and hear each other since its last word: if most domains are answered, or the API server is down for all.

        It must have been so for as long as it takes to ask all of them once more.
        """
        others = [other for other in self._nodes.values() if other is not one]
        heard_since = max(self.network.nodes_talk_since(), *(other.agent.calm_since for other in others))
        if not self._all_known or heard_since > one.answered_at or self._server.faults.any_set:
            return False
        asked_at, down_since = self._clock.monotonic() - ASKED_SECONDS, self._server.down_since
        is_down = down_since is not None and down_since < asked_at
        return is_down or (all(_is_answered(other, asked_at) for other in others) and self._most_say(others))

    def _most_say(self, others: list[GuardedNode]) -> bool:
        """Whether more than half of the domains say something if these say it, and all others do not."""
        sizes, said = (
            Counter(self._domain_of(name) for name in names) for names in (self, [o.node.name for o in others])
        )
        return 2 * sum(2 * said[domain] > size for domain, size in sizes.items()) > len(sizes)


def _is_answered(other: GuardedNode, since: float) -> bool:
    """One that asks so rarely that it may have been cut off for a while is left out: nobody can tell."""
    is_quick = other.pace.fresh_seconds < ASKED_SECONDS / 2
    return is_quick and other.answered_since < since < other.answered_at


def _known(guarded: GuardedNode, domain: str, clock: VirtualClock, guarding: Guarding) -> dict[str, object]:
    """The Lease of an agent that ended when the node last did."""
    node = guarded.node
    report = Report(
        pace=guarded.pace,
        watchdog=guarding.watchdog,
        watchdog_seconds=guarding.watchdog_seconds,
        feed_seconds=1.0,
        armed=False,
        boot_id="before",
        address=node.address,
        port=PORT,
        domain=domain,
        version="",
        answered_seconds=0.0,
        steady_seconds=0.0,
        known={domain: 1},
    )
    meta = {
        "name": lease_name(node.name),
        "namespace": NAMESPACE,
        "uid": f"lease-{node.name}",
        "creationTimestamp": f"{clock.now() - LONG_AGO:%Y-%m-%dT%H:%M:%SZ}",
        "labels": {LABEL: LABEL_VALUE},
        "annotations": {REPORT: text_of(report)},
    }
    return {"metadata": meta, "spec": {"holderIdentity": node.name}}
