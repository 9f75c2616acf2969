"""What must hold where nodes take themselves down, over the history of a day.

I1   whoever is counted as dead by the time is dead at that moment, if its watchdog works
I5   no node takes itself down without a cause, and none because the API server is down for all
I8   whoever was counted as dead, lives, and comes back, is told of: on its Node, and in its incident
I10  a node whose agent has read its order is not fed any more
"""

from collections.abc import Iterable, Iterator

import msgspec

from defib.decide.fencing.said import NEVER_REBOOTED as REASON
from defib.model.incident import INCIDENTS, Grade, Phase
from defib.model.node import Lease
from defib.model.self_fence import lease_name, node_of, read_order
from defib.model.self_fencing import NEVER_REBOOTED
from defib.simulate.store import DELETED
from tests.simulation.checkers.state import HEARTBEATS, Finding, State, proof_in
from tests.simulation.history import Entry, Object, OnNode, Written
from tests.simulation.self_fence.guarded import LEASES, WITHOUT_CAUSE
from tests.simulation.self_fence.machines import BOOTED, DISOBEYED, IN_VAIN
from tests.simulation.shape import HOME
from tests.simulation.world import phase_of

EXPOSED_SECONDS = 60.0  # so long after it was heard of again, and nothing disturbs anybody, it is told


def judge(entries: Iterable[Entry], broken: Iterable[str], ends_at: float) -> Iterator[Finding]:
    """`broken`: nodes whose watchdog never fires."""
    state, machines, exposures = State(), Machines(), Exposures()
    unguarded = frozenset(broken)
    for entry in entries:
        state.see(entry)
        yield from machines.check(entry)
        node = counted(entry)
        if node and machines.lives(node) and node not in unguarded:
            yield Finding("I1", entry.at, f"{node} is counted as dead and lives")
        elif node and machines.lives(node):
            exposures.begin(node, machines.boots[node])
        yield from exposures.check(entry, state, machines)
        if (node := distrusted(entry)) and node not in unguarded:
            yield Finding("I8", entry.at, f"{node} is said never to have rebooted, and its watchdog works")
    yield from exposures.late(ends_at, state)


def counted(entry: Entry) -> str:
    """The node that is counted as dead from now on because its time is over; empty for everything else."""
    if not isinstance(entry, Written) or entry.resource != INCIDENTS or entry.change.kind == DELETED:
        return ""
    before, now = entry.change.before, proof_in(entry.change.now.object)
    is_new = now is not None and now != proof_in(before.object if before is not None else {})
    is_by_time = now is not None and now["grade"] == Grade.TIME
    return str(entry.change.now.object["spec"]["node"]) if is_new and is_by_time else ""


def distrusted(entry: Entry) -> str:
    """The Node that is marked from now on as one that never rebooted; empty for everything else."""
    if not isinstance(entry, Written) or entry.resource != "nodes" or entry.change.kind == DELETED:
        return ""
    before, now = entry.change.before, entry.change.now.object
    return entry.key if _is_marked(now) and not (before is not None and _is_marked(before.object)) else ""


def _is_marked(node: Object) -> bool:
    return NEVER_REBOOTED in (node["metadata"].get("annotations") or {})


class Machines:
    """Which boot of each node runs, and for which it was ordered to die last."""

    def __init__(self) -> None:
        self.boots: dict[str, str] = {}  # of those that are on
        self._ordered: dict[str, str] = {}

    def check(self, entry: Entry) -> Iterator[Finding]:
        if isinstance(entry, OnNode):
            yield from self._see(entry)
        elif isinstance(entry, Written) and is_agents(entry):
            lease = msgspec.convert(entry.change.now.object, Lease)
            if (order := read_order(lease)) is not None:
                self._ordered[node_of(lease)] = order.boot_id

    def lives(self, node: str) -> bool:
        """Whether the boot that was ordered to die runs. Without an order nobody had to."""
        boot = self.boots.get(node)
        return boot is not None and self._ordered.get(node, boot) == boot

    def _see(self, entry: OnNode) -> Iterator[Finding]:
        if entry.what == BOOTED:
            self.boots[entry.node] = entry.boot
        elif entry.what not in (IN_VAIN, DISOBEYED):
            self.boots.pop(entry.node, None)
        if entry.what == WITHOUT_CAUSE:
            yield Finding("I5", entry.at, str(entry))
        if entry.what == DISOBEYED:
            yield Finding("I10", entry.at, str(entry))


class Exposures:
    """Nodes that were counted as dead and live: since when somebody could know."""

    def __init__(self) -> None:
        self._wrong: dict[str, str] = {}  # the boot that lives
        self._heard: dict[str, float] = {}
        self._told: dict[str, bool] = {}

    def begin(self, node: str, boot: str) -> None:
        self._wrong[node] = boot

    def check(self, entry: Entry, state: State, machines: Machines) -> Iterator[Finding]:
        if not self._wrong:
            return
        for node, boot in tuple(self._wrong.items()):
            if machines.boots.get(node) != boot:  # it is down now: nothing of it is there any more
                del self._wrong[node]
                self._heard.pop(node, None)
        if isinstance(entry, Written) and (node := heard_of(entry)) in self._wrong:
            self._heard.setdefault(node, entry.at)
        yield from self.late(entry.at, state)

    def late(self, at: float, state: State) -> Iterator[Finding]:
        for node, since in tuple(self._heard.items()):
            if is_told(node, state):
                del self._heard[node], self._wrong[node]
            elif at > max(since, state.quiet.since(at)) + EXPOSED_SECONDS:
                del self._heard[node], self._wrong[node]
                yield Finding(
                    "I8", at, f"{node} was counted as dead, was heard of at {since:.0f} s, and nobody is told"
                )


def is_agents(entry: Written) -> bool:
    return entry.resource == LEASES and entry.key.startswith(f"{HOME}/{lease_name('')}")


def heard_of(entry: Written) -> str:
    """The node that tells of itself, by its agent or its kubelet."""
    before, now = entry.change.before, entry.change.now.object
    if entry.resource != LEASES or entry.change.kind == DELETED or before is None:
        return ""
    if before.object["spec"].get("renewTime") == now["spec"].get("renewTime"):
        return ""
    if entry.key.startswith(HEARTBEATS):
        return entry.key.removeprefix(HEARTBEATS)
    return node_of(msgspec.convert(now, Lease)) if is_agents(entry) else ""


def is_told(node: str, state: State) -> bool:
    """A Node that we have deleted does not come back by itself while its kubelet is the same: there is only its incident."""
    found: Object | None = state.of("nodes").get(node)
    incident = state.of(INCIDENTS).get(node) or {}
    is_marked = found is None or _is_marked(found)
    is_said = phase_of(incident) == Phase.NEEDS_PERSON and (incident.get("status") or {}).get("reason") == REASON
    return is_marked and is_said
