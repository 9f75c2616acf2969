"""What goes wrong in a what-if: machines that die, an API server that does not answer; and what Kubernetes makes of it."""

import difflib
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from defib.console.nodes import NEAR_CUTOFF, NEAR_MAX, unknown_node
from defib.console.session import NotDone
from defib.model.cluster import HEARTBEAT_NAMESPACE, Blindness, Cluster
from defib.model.meta import Meta
from defib.model.node import ZONE_LABEL, Condition, Lease, LeaseSpec, Node, Taint

GRACE, LATER_GRACE = timedelta(seconds=40), timedelta(seconds=50)  # node-monitor-grace-period, and from 1.32 on
LONGER_GRACE_SINCE = (1, 32)
RENEWED_WITHIN = timedelta(seconds=10)  # a kubelet renews its heartbeat so often
LEASE_SECONDS = 40
API_DOWN = timedelta(minutes=10)
SILENT = "the API server does not answer"
UNREACHABLE = "node.kubernetes.io/unreachable"

change = msgspec.structs.replace


class Mishap(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody asks to go wrong."""

    nodes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    api_down: bool = False


class Turn(msgspec.Struct, frozen=True):
    """Something that happens at a moment."""

    at: datetime
    what: str


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How it takes its course: from `begins` on, for as long as somebody looks."""

    killed: frozenset[str]
    begins: datetime
    ends: datetime
    api_back: datetime | None  # None: it never goes away
    not_ready_at: datetime

    @property
    def turns(self) -> tuple[Turn, ...]:
        found = []
        if self.killed:
            found.append(Turn(self.not_ready_at, f"Kubernetes notices: Ready becomes Unknown on {_nodes(self.killed)}"))
        if self.api_back is not None:
            found.append(Turn(self.api_back, "the API server answers again"))
            found.append(Turn(self.api_back + RENEWED_WITHIN, "the nodes that live have renewed their heartbeats"))
        return tuple(sorted((turn for turn in found if turn.at <= self.ends), key=lambda turn: turn.at))

    @property
    def beginning(self) -> tuple[str, ...]:
        died = (f"{_nodes(self.killed)} {'dies' if len(self.killed) == 1 else 'die'}",) if self.killed else ()
        away = (f"{SILENT}: Defib sees nothing any more, and begins nothing",) if self.api_back is not None else ()
        return (*died, *away)

    def at(self, cluster: Cluster, now: datetime) -> Cluster:
        """The cluster as it is then, as far as Defib does nothing about it."""
        blind = self.api_back is not None and now < self.api_back
        return change(
            cluster,
            now=now,
            heartbeats=self._heartbeats(cluster, now),
            nodes=self._nodes(cluster) if now >= self.not_ready_at else cluster.nodes,
            blind=tuple(Blindness(kind, self.begins, SILENT) for kind in _followed(cluster)) if blind else (),
        )

    def _heartbeats(self, cluster: Cluster, now: datetime) -> dict[str, Lease]:
        """Those that live are written once, with the last time at which they will be renewed: thousands of them."""
        is_cut = self.api_back is not None and now < self.api_back + RENEWED_WITHIN
        last = self.begins if is_cut else self.ends
        return {
            f"{HEARTBEAT_NAMESPACE}/{name}": _beat(name, self.begins if name in self.killed else last)
            for name, node in cluster.nodes.items()
            if node.ready == "True"
        } | {key: lease for key, lease in cluster.heartbeats.items() if _is_dead(key, cluster)}

    def _nodes(self, cluster: Cluster) -> dict[str, Node]:
        gone = {name: _not_ready(cluster.nodes[name], self.not_ready_at) for name in self.killed}
        return {**cluster.nodes, **gone}


def course_of(mishap: Mishap, cluster: Cluster, length: timedelta) -> Course:
    """Raises NotDone where it names what is not there."""
    begins = cluster.now
    # In time for whoever looks to see how it goes on from there.
    back = begins + min(API_DOWN, length / 2) if mishap.api_down else None
    grace = LATER_GRACE if cluster.server >= LONGER_GRACE_SINCE or cluster.server == (0, 0) else GRACE
    return Course(
        killed=_killed(mishap, cluster),
        begins=begins,
        ends=begins + length,
        api_back=back,
        # Nobody marks a node while the API server is away, and then it gets its time.
        not_ready_at=(back or begins) + grace,
    )


def _killed(mishap: Mishap, cluster: Cluster) -> frozenset[str]:
    for name in mishap.nodes:
        if name not in cluster.nodes:
            raise unknown_node(name, cluster)
    zones = sorted({node.zone for node in cluster.nodes.values()} - {""})
    for zone in mishap.zones:
        if zone not in zones:
            raise _unknown_zone(zone, zones)
    in_zones = (name for name, node in cluster.nodes.items() if node.zone in mishap.zones)
    return frozenset((*mishap.nodes, *in_zones))


def _unknown_zone(zone: str, zones: list[str]) -> NotDone:
    if not zones:
        return NotDone(f"there is no zone {zone}: no node has the label {ZONE_LABEL}; name nodes with --kill-node")
    longer = [name for name in zones if zone and zone in name][:NEAR_MAX]
    near = longer or difflib.get_close_matches(zone, zones, n=NEAR_MAX, cutoff=NEAR_CUTOFF)
    if near:
        return NotDone(f"there is no zone {zone}; did you mean {' or '.join(near)}?")
    return NotDone(f"there is no zone {zone}; the zones are {', '.join(zones)}")


def _beat(name: str, renewed: datetime) -> Lease:
    spec = LeaseSpec(holder_identity=name, lease_duration_seconds=LEASE_SECONDS, renew_time=renewed)
    return Lease(metadata=Meta(name=name, namespace=HEARTBEAT_NAMESPACE), spec=spec)


def _is_dead(key: str, cluster: Cluster) -> bool:
    """It was so before: its heartbeat stays as it was."""
    node = cluster.nodes.get(key.partition("/")[2])
    return node is None or node.ready != "True"


def _not_ready(node: Node, at: datetime) -> Node:
    """As the node lifecycle controller does it, once; one that was not ready before stays as it was."""
    if node.ready != "True":
        return node
    said = "Kubelet stopped posting node status."
    fresh = Condition(type="Ready", status="Unknown", reason="NodeStatusUnknown", message=said, last_transition_time=at)
    others = [one for one in node.status.conditions or () if one.type != "Ready"]
    taints = [Taint(key=UNREACHABLE, effect=effect, time_added=at) for effect in ("NoSchedule", "NoExecute")]
    spec = change(node.spec, taints=[*(node.spec.taints or ()), *taints])
    return change(node, spec=spec, status=change(node.status, conditions=[*others, fresh]))


def _followed(cluster: Cluster) -> Iterable[str]:
    return ("nodes", "heartbeats", "locks", *cluster.others)


def _nodes(names: Iterable[str]) -> str:
    listed = sorted(names)
    return f"node {listed[0]}" if len(listed) == 1 else f"{len(listed)} nodes"
