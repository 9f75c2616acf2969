"""What all checks stand on in one pass: the cluster, the remediations in it by owner and node, the brake, the doubts."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from defib.decide.rules import Rules
from defib.decide.upgrade import Signal
from defib.model import medik8s
from defib.model.action import StartRemediation
from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.node import Lease, Node
from defib.model.node_drain import DRAIN, forced_nodes
from defib.model.remediation import Remediation, read_remediation

CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

ByNode = Mapping[str, tuple[Remediation, ...]]


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    cluster: Cluster
    rules: Rules
    by_check: Mapping[str, ByNode]  # remediations of each check, by node
    by_node: ByNode  # of everybody
    signals: tuple[Signal, ...] = ()  # upgrades under way; not asked for while no node is ill
    starting: Mapping[str, frozenset[str]]  # nodes for which one is being created right now, by check
    unsure: Mapping[str, frozenset[str]]  # nodes for which one may have been created: the answer was lost

    forced: frozenset[str] = frozenset()  # nodes from which a drain makes pods leave

    @property
    def now(self) -> datetime:
        return self.cluster.now

    def lock_of(self, node: str) -> Lease | None:
        return self.cluster.locks.get(f"{self.rules.lock_namespace}/{medik8s.lock_of(node)}")

    def template(self, kind: KindRef, key: str) -> Unstructured | None:
        served = self.cluster.kinds.get(kind)
        if not isinstance(served, Served):
            return None
        return self.cluster.all_of(served.collection, Unstructured).get(key)


def survey(cluster: Cluster, rules: Rules, kinds: frozenset[KindRef]) -> Ground:
    """`kinds` are those of the remediations that the checks can make."""
    of_checks: dict[str, dict[str, list[Remediation]]] = {}
    of_nodes: dict[str, list[Remediation]] = {}
    for remediation in _remediations(cluster, kinds):
        of_nodes.setdefault(remediation.node, []).append(remediation)
        if remediation.owner:
            of_checks.setdefault(remediation.owner, {}).setdefault(remediation.node, []).append(remediation)
    by_check = {check: _fixed(of_check) for check, of_check in of_checks.items()}
    starting = ((one.check, one.node) for one in cluster.underway if isinstance(one, StartRemediation))
    unsure = ((one.check, one.node) for one in cluster.failures.values() if one.node)
    return Ground(
        cluster=cluster,
        rules=rules,
        by_check=by_check,
        by_node=_fixed(of_nodes),
        starting=_by_check(starting),
        unsure=_by_check(unsure),
        forced=forced_nodes(cluster.every(DRAIN)),
    )


def _fixed(found: Mapping[str, list[Remediation]]) -> dict[str, tuple[Remediation, ...]]:
    return {node: tuple(remediations) for node, remediations in found.items()}


def _by_check(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    nodes: dict[str, set[str]] = {}
    for check, node in pairs:
        nodes.setdefault(check, set()).add(node)
    return {check: frozenset(names) for check, names in nodes.items()}


def _remediations(cluster: Cluster, kinds: frozenset[KindRef]) -> list[Remediation]:
    """In a fixed order, so that the same cluster always gives the same plan.

    Of kinds that no check names (any more), those that a check has made: it was edited, and they are still ours.
    """
    found: list[Remediation] = []
    for kind, served in cluster.kinds.items():
        there = cluster.others.get(served.collection) if isinstance(served, Served) else None
        if there:  # of most kinds there are none
            read = [read_remediation(item, kind) for item in cluster.every(kind)]
            found += read if kind in kinds else [one for one in read if one.owner]
    return sorted(found, key=lambda one: (one.kind.api_version, one.kind.name, one.key))


def is_control_plane(node: Node) -> bool:
    return any(label in node.labels for label in CONTROL_PLANE_LABELS)


def control_plane_out(ground: Ground) -> frozenset[str]:
    """Control-plane nodes that somebody remediates, under whichever check, by whichever kind, or drains by force."""
    nodes = ground.cluster.nodes
    busy = {name for name, found in ground.by_node.items() if any(medik8s.IS_CONTROL_PLANE in r.labels for r in found)}
    busy |= {name for name in ground.by_node if name in nodes and is_control_plane(nodes[name])}
    busy |= set(machines_out(ground.cluster))
    begun = {name for names in (*ground.starting.values(), *ground.unsure.values(), ground.forced) for name in names}
    return frozenset(busy | {name for name in begun if name in nodes and is_control_plane(nodes[name])})


def machines_out(cluster: Cluster) -> tuple[str, ...]:
    """Control-plane nodes of which the machines are being switched."""
    found = cluster.incidents().values()
    return tuple(incident.spec.node for incident in found if incident.is_out and incident.spec.control_plane)
