"""What stands against doing something about a machine: the brake, doubt, the lock of its node, the control plane."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property

import msgspec

from defib.decide.doubt import BRAKE, SELF_DOUBT, brake_reason, doubts_about
from defib.decide.fencing.machines import machines_in
from defib.decide.fencing.order import Obstacle
from defib.decide.ground import CONTROL_PLANE_LABELS, control_plane_out, survey
from defib.decide.machine_health.care import Care, care_for, remediations
from defib.decide.machine_health.verdicts import Verdict
from defib.decide.quorum import CLUSTER_VERSION, quorum_gate
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.incident import INCIDENTS
from defib.model.lock import ends_at, held_by_another, is_held
from defib.model.machine_action import MachineAction
from defib.model.meta import Meta
from defib.model.node import Lease, Node
from defib.model.power_cycle import LOCK_HOLDER

_NEEDED = frozenset({"nodes", "heartbeats", "configmaps", INCIDENTS})


class Hurdles:
    """Of one pass. What was begun in it counts for whatever is asked after later."""

    def __init__(self, cluster: Cluster, rules: Rules, care: Care, kinds: frozenset[KindRef]) -> None:
        """`kinds` are those of the checks and of their machines."""
        self._cluster = cluster
        self._rules = rules
        self._care = care
        self._kinds = kinds
        self._begun: set[str] = set()

    @cached_property
    def hold(self) -> Obstacle | None:
        """Why nothing may be done now, to whichever machine. The same for all, and dear: found out once."""
        if why := brake_reason(self._cluster, self._rules):
            return Obstacle(BRAKE, f"the brake is on: {why}")
        served = (self._cluster.kinds.get(kind) for kind in self._kinds | remediations(self._cluster))
        needed = _NEEDED | {one.collection for one in served if isinstance(one, Served)}
        why = doubts_about(needed, self._cluster) or next(self._unread(needed), "")
        return Obstacle(SELF_DOUBT, f"we do not trust our own sight: {why}") if why else None

    def _unread(self, needed: frozenset[str]) -> Iterator[str]:
        for item in self._cluster.unread:
            if item.kind in needed:
                yield f"{item.kind} {item.key} cannot be read: {item.why}"

    def before(self, verdict: Verdict) -> Obstacle | None:
        """The first that stands before this machine."""
        if verdict.machine.item.uid in self._begun:
            return Obstacle("OtherCheck", "another check sees to it")
        if verdict.is_paused:
            return Obstacle("Paused", "it is paused")
        return self._lock(verdict) or (self._control_plane(verdict) if verdict.is_control_plane else None)

    def begin(self, verdict: Verdict) -> None:
        self._begun.add(verdict.machine.item.uid)
        if verdict.is_control_plane:
            self._out.add(verdict.machine.item.name)

    def lock_ends(self, verdict: Verdict) -> datetime | None:
        """When the lock of its node ends by itself, which nobody would tell us."""
        lease = self._lease(verdict)
        return ends_at(lease) if lease is not None and is_held(lease, self._cluster.now) else None

    def _lock(self, verdict: Verdict) -> Obstacle | None:
        by = held_by_another(self._lease(verdict), LOCK_HOLDER, self._cluster.now)
        return Obstacle("Lock", f"{by} works on its node and holds the lock") if by else None

    def _lease(self, verdict: Verdict) -> Lease | None:
        if not verdict.node_name:
            return None
        return self._cluster.locks.get(f"{self._rules.lock_namespace}/{medik8s.lock_of(verdict.node_name)}")

    def _control_plane(self, verdict: Verdict) -> Obstacle | None:
        for other in sorted(self._out - {verdict.machine.item.name, verdict.node_name}):
            return Obstacle("ControlPlane", f"{other} of the control plane is being remediated, one at a time")
        if CLUSTER_VERSION not in self._cluster.kinds:
            return Obstacle("Quorum", f"{CLUSTER_VERSION} is being looked for")
        if not verdict.node_name:
            return None  # it never was a member of anything
        cluster = msgspec.structs.replace(self._cluster, nodes={**self._missing, **self._cluster.nodes})
        node = cluster.nodes.get(verdict.node_name) or _stand_in(verdict.node_name)
        gate = quorum_gate(node, survey(cluster, self._rules, frozenset()))
        return None if gate.is_open else Obstacle("Quorum", gate.message)

    @cached_property
    def _out(self) -> set[str]:
        """Machines and nodes of the control plane that somebody sees to."""
        cluster = self._cluster
        begun = (one.patient for one in cluster.underway if isinstance(one, MachineAction))
        return {
            *control_plane_out(survey(cluster, self._rules, remediations(cluster))),
            *(one.machine.item.name for one in self._control_planes if care_for(one, self._care)),
            *(patient.machine.name for patient in begun if patient.is_control_plane),
        }

    @cached_property
    def _control_planes(self) -> tuple[Verdict, ...]:
        """All machines of the control plane, also those that no check looks after."""
        nodes = self._cluster.nodes
        known = (Verdict(machine=one, node=nodes.get(one.node)) for one in machines_in(self._cluster))
        return tuple(one for one in known if one.is_control_plane)

    @cached_property
    def _missing(self) -> dict[str, Node]:
        """Nodes of the control plane that are gone: etcd may still count them as members."""
        gone = (one.node_name for one in self._control_planes if one.node_name and one.node is None)
        return {name: _stand_in(name) for name in gone}


def _stand_in(name: str) -> Node:
    return Node(metadata=Meta(name=name, labels={CONTROL_PLANE_LABELS[0]: ""}))
