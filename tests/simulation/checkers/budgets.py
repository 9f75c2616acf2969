"""I3 and I4: at no instant more is out than every budget allows, and never more of the control plane than one.

Limits are read from the checks in the history, so that one that somebody edits counts as it stood: what was allowed a
moment ago may be acted on still.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from defib.model import medik8s
from defib.model.health_check import Check
from defib.model.incident import INCIDENTS, Phase
from tests.simulation.checkers.state import (
    Finding,
    Lately,
    State,
    begun,
    is_control_plane,
    node_of,
    owner_of,
    switched_off,
)
from tests.simulation.history import Entry, Object, Written
from tests.simulation.world import REMEDIATIONS, phase_of, ready_of

ROUNDING = 5.0  # moments are written down in whole seconds, by clocks that differ
SEEN = frozenset({"nodes", medik8s.CHECKS, *REMEDIATIONS})


class Limits:
    """I3: the number of nodes in flight, in all and in each failure domain, stays within what the check allows."""

    def __init__(self) -> None:
        self._lately: dict[tuple[str, str, str], list[tuple[float, int]]] = defaultdict(list)

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if isinstance(entry, Written) and entry.resource in (medik8s.CHECKS, "nodes"):
            self._remember(entry, state)
        made = begun(entry)
        if made is None:
            return
        name, node = owner_of(made), node_of(made)
        in_flight = sorted({node_of(item) for item in state.remediations(name)})
        for label, value, nodes in _groups(state, node, in_flight):
            limit = self._limit((name, label, value), entry.at, state)
            if limit is not None and len(nodes) > limit:
                where = f" with {label}={value}" if label else ""
                what = f"{', '.join(nodes)}{where} are in flight for {name}, and {limit} may be"
                yield Finding("I3", entry.at, what)

    def _remember(self, entry: Written, state: State) -> None:
        if entry.resource == "nodes" and entry.change.before is not None and entry.change.kind == "MODIFIED":
            before, now = entry.change.before.object, entry.change.now.object
            if before["metadata"].get("labels") == now["metadata"].get("labels"):
                return
        for name in state.of(medik8s.CHECKS):
            check = state.check(name)
            for (label, value), limit in _limits(check, state).items() if check else ():
                known = self._lately[name, label, value]
                if not known or known[-1][1] != limit:
                    known.append((entry.at, limit))

    def _limit(self, key: tuple[str, str, str], at: float, state: State) -> int | None:
        """The most that was allowed within the last moments; None where nothing is said."""
        known, stale = self._lately.get(key, []), at - state.quiet.stale_seconds(at)
        recent = [limit for since, limit in known if since > stale]
        older = [limit for since, limit in known if since <= stale]
        return max([*recent, *older[-1:]], default=None)


def _limits(check: Check, state: State) -> dict[tuple[str, str], int]:
    selected = _selected(check, state)
    found = {}
    if check.guards.max_in_flight is not None:
        found["", ""] = check.guards.max_in_flight.of(len(selected))
    for domain in check.guards.domains:
        sizes = Counter(_label(state.of("nodes")[name], domain.label) for name in selected)
        found |= {(domain.label, value): domain.max_in_flight.of(size) for value, size in sizes.items()}
    return found


def _groups(state: State, node: str, in_flight: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """All of them, then those that share a label with the node."""
    yield "", "", in_flight
    nodes = state.of("nodes")
    for label, value in ((nodes[node]["metadata"].get("labels") or {}) if node in nodes else {}).items():
        yield label, value, [one for one in in_flight if one in nodes and _label(nodes[one], label) == value]


class Threshold:
    """I3: no node is newly remediated while fewer are healthy than the check asks for, and were so for long."""

    def __init__(self) -> None:
        self._lately = Lately()

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        if not isinstance(entry, Written) or entry.resource not in SEEN or _is_beat(entry):
            return
        made = begun(entry)
        is_new = made is not None and state.check(owner_of(made)) is not None and not _goes_on(made, state)
        if (
            made is not None
            and is_new
            and not self._lately.held(owner_of(made), entry.at, state.quiet.stale_seconds(entry.at))
        ):
            what = f"{node_of(made)} was begun while fewer nodes were healthy than {owner_of(made)} asks for"
            yield Finding("I3", entry.at, what)
        for name in state.of(medik8s.CHECKS):
            check = state.check(name)
            if check is not None:
                self._lately.look(name, entry.at, holds=_has_enough(check, state))


def _has_enough(check: Check, state: State) -> bool:
    selected = _selected(check, state)
    nodes = state.of("nodes")
    ill = {name for name in selected if is_troubled(nodes[name], check)}
    ill |= {node_of(item) for item in state.remediations(check.name)} & selected
    return len(selected) - len(ill) >= check.fewest_healthy(len(selected))


def is_troubled(node: Object, check: Check) -> bool:
    """Whether it shows a condition that the check calls unhealthy, for however long."""
    shown = {(one["type"], one["status"]) for one in node.get("status", {}).get("conditions") or ()}
    return any((wanted.type, wanted.status) in shown for wanted in check.conditions)


class Rates:
    """I3: no more nodes are newly remediated within a time than the check allows; nor is one node, again and again."""

    def __init__(self) -> None:
        self._began: dict[str, list[tuple[float, str]]] = defaultdict(list)

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        made = begun(entry)
        check = state.check(owner_of(made)) if made is not None else None
        if made is None or check is None or _goes_on(made, state):
            return
        began, node = self._began[check.name], node_of(made)
        began.append((entry.at, node))
        of_all, of_one = check.guards.rate_limit, check.guards.flap_damping
        for rate, who in ((of_all, ""), (of_one, node)):
            if rate is None:
                continue
            since = entry.at - rate.within.total_seconds() + ROUNDING + 2 * state.skew
            times = sum(at > since and who in ("", one) for at, one in began)
            if times > rate.count:
                what = f"{who or 'nodes'} began {times} times within {rate.within}, and {rate.count} are allowed"
                yield Finding("I3", entry.at, what)


class ControlPlane:
    """I4: at most one node of the control plane is out, and not when etcd would lose its quorum without it."""

    def __init__(self) -> None:
        self._members: dict[str, float] = {}
        self._lately = Lately()

    def check(self, entry: Entry, state: State) -> Iterator[Finding]:
        made, node = begun(entry), switched_off(entry)
        node = node_of(made) if made is not None else node
        if node and is_member(node, state):
            yield from self._judge(entry, node, state)
        if isinstance(entry, Written) and entry.resource == "nodes" and not _is_beat(entry):
            for name, item in state.of("nodes").items():
                if is_control_plane(item):
                    self._lately.look(name, entry.at, holds=_is_spared(name, state))

    def _judge(self, entry: Entry, node: str, state: State) -> Iterator[Finding]:
        out = {one for one in state.in_flight | _machines_out(state) if is_member(one, state)} | {node}
        if len(out) > 1:
            yield Finding("I4", entry.at, f"{', '.join(sorted(out))} of the control plane are out at once")
        if isinstance(entry, Written) and not self._lately.held(node, entry.at, state.quiet.stale_seconds(entry.at)):
            yield Finding("I4", entry.at, f"{node} was begun, and without it etcd has no quorum")


def is_member(name: str, state: State) -> bool:
    """Of the control plane. A Node that was deleted says so in its incident."""
    node = state.of("nodes").get(name)
    if node is not None:
        return is_control_plane(node)
    return bool((state.of(INCIDENTS).get(name) or {}).get("spec", {}).get("controlPlane"))


def _machines_out(state: State) -> set[str]:
    return {
        str(item["spec"].get("node", ""))
        for name, item in state.of(INCIDENTS).items()
        if name == item["spec"].get("node") and phase_of(item) not in (Phase.OPEN, Phase.CLOSED)
    }


def _is_spared(name: str, state: State) -> bool:
    members = {one: node for one, node in state.of("nodes").items() if is_control_plane(node)}
    ready = sum(ready_of(node) == "True" for one, node in members.items() if one != name)
    return ready >= len(members) // 2 + 1


def _selected(check: Check, state: State) -> set[str]:
    nodes = state.of("nodes")
    return {name for name, node in nodes.items() if check.selector.selects(node["metadata"].get("labels") or {})}


def _goes_on(made: Object, state: State) -> bool:
    """Whether its node was admitted earlier, and this is its next step."""
    others = [item for item in state.remediations(owner_of(made)) if item["metadata"]["uid"] != made["metadata"]["uid"]]
    return any(node_of(item) == node_of(made) for item in others)


def _label(node: Object, label: str) -> str:
    return str((node["metadata"].get("labels") or {}).get(label, ""))


def _is_beat(entry: Written) -> bool:
    """A Node that only reports that it is as it was."""
    before, now = entry.change.before, entry.change.now
    if entry.resource != "nodes" or before is None or entry.change.kind != "MODIFIED":
        return False
    return _shown(before.object) == _shown(now.object)


def _shown(node: Object) -> tuple[object, ...]:
    shown = tuple((one["type"], one["status"]) for one in node.get("status", {}).get("conditions") or ())
    return shown, node["metadata"].get("labels")
