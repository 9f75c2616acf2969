"""Machines, of OpenShift or of Cluster API: their nodes, how long those may take to come up, who could replace them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec

from defib.decide.fencing.kinds import MACHINE_HEALTH_CHECKS, MACHINES, items_of
from defib.decide.fencing.order import Obstacle
from defib.decide.field import Field, Problems
from defib.decide.ground import is_control_plane
from defib.decide.reading import read_selector
from defib.model.action import Target
from defib.model.cluster import Cluster
from defib.model.duration import LONGEST, read_duration
from defib.model.health_check import KindRef
from defib.model.incident import NodeIncident, Phase
from defib.model.machine import PAUSED
from defib.model.meta import Unstructured
from defib.model.node import Node

STARTUP_TIME = timedelta(minutes=20)  # where no MachineHealthCheck says otherwise
ROLE = "machine.openshift.io/cluster-api-machine-role"
CONTROL_PLANE = "cluster.x-k8s.io/control-plane"
NAME_MAX = 253
BECAME_NODE = "its machine has become a node, which has an incident of its own"

_WAITS_FOR_NODE = frozenset(
    {Phase.POWERING_ON, Phase.RETURNING, Phase.RESTORING, Phase.RESTING, Phase.CANCELLING, Phase.NEEDS_PERSON}
)


class Machine(msgspec.Struct, frozen=True):
    kind: KindRef
    item: Unstructured

    @property
    def target(self) -> Target:
        return Target(kind=self.kind, namespace=self.item.namespace, name=self.item.name, uid=self.item.uid)

    @property
    def provider_id(self) -> str:
        return text_in(self.item.spec, "providerID")

    @property
    def node(self) -> str:
        """The name of its node; empty while it never became one."""
        return text_in(self.item.status, "nodeRef", "name")

    @property
    def incident(self) -> str:
        """What an incident is called that belongs to no node. No node is called so: none has this UID in its name."""
        uid = self.item.uid
        return f"{self.item.name[: NAME_MAX - len(uid) - 1].rstrip('-.')}.{uid}"

    @property
    def has_owner(self) -> bool:
        """Somebody makes another one when this is deleted."""
        return any(owner.controller for owner in self.item.metadata.owner_references or ())

    @property
    def is_master(self) -> bool:
        labels = self.item.labels
        return labels.get(ROLE) == "master" or CONTROL_PLANE in labels


def machines_in(cluster: Cluster) -> Iterator[Machine]:
    for versions in MACHINES:
        for kind, item in items_of(versions, cluster):
            yield Machine(kind, item)


def node_of(known: str, incident: NodeIncident | None) -> str:
    """Which node an incident is about. A Machine forgets its node when that is deleted; the incident does not.

    One that was begun without a node has nothing to take from one that appears while it is at work. When the machine
    is on again, it is the one that is waited for.
    """
    if incident is None or incident.spec.node:
        return incident.spec.node if incident is not None else known
    return known if incident.status.phase in _WAITS_FOR_NODE else ""


def is_misnamed(known: str, incident: NodeIncident | None) -> bool:
    """It was opened before the node of its machine was known, and nothing is done yet."""
    return incident is not None and incident.status.phase is Phase.OPEN and not incident.spec.node and known != ""


def obstacle_of(machine: Machine, node: Node | None) -> Obstacle | None:
    """Why it must not be touched."""
    if PAUSED in machine.item.annotations:
        return Obstacle("MachinePaused", f"{machine.target} is paused (annotation {PAUSED})")
    claimed = node.spec.provider_id if node is not None else ""
    if node is not None and claimed and machine.provider_id and claimed != machine.provider_id:
        # In a cluster that manages others, their machines have nodes elsewhere, which may have the same names.
        message = f"{machine.target} has provider ID {machine.provider_id}, and node {node.name} has {claimed}"
        return Obstacle("OtherNode", f"{message}: this is not its node")
    return None


def is_replaceable(machine: Machine, host: Unstructured | Obstacle, node: Node | None) -> bool:
    """Whether deleting it brings another one, and takes nothing away that nobody can give back."""
    if isinstance(host, Obstacle) or (host.spec or {}).get("externallyProvisioned") is True:
        return False
    if machine.is_master or (node is not None and is_control_plane(node)):
        return False
    return machine.has_owner


def replaceable(node: str, cluster: Cluster) -> Machine | None:
    """The Machine behind a node whose power somebody else switches, if it may be deleted."""
    found = [machine for machine in machines_in(cluster) if machine.node == node]
    known = cluster.nodes.get(node)
    if len(found) != 1 or obstacle_of(found[0], known) is not None or not found[0].has_owner:
        return None
    return None if found[0].is_master or (known is not None and is_control_plane(known)) else found[0]


def startup_time(machine: Machine, cluster: Cluster) -> timedelta:
    """As the one MachineHealthCheck says that selects it."""
    found = [
        item
        for versions in MACHINE_HEALTH_CHECKS
        for kind, item in items_of(versions, cluster)
        if kind.group == machine.kind.group and _selects(item, machine)
    ]
    return (_startup_time(found[0]) if len(found) == 1 else None) or STARTUP_TIME


def _selects(check: Unstructured, machine: Machine) -> bool:
    if check.namespace != machine.item.namespace:
        return False
    if text_in(check.spec, "clusterName") not in ("", text_in(machine.item.spec, "clusterName")):
        return False
    problems = Problems()
    selector = read_selector(Field("spec", check.spec or {}, problems)["selector"])
    return not problems.sentences and selector.selects(machine.item.labels)


def _startup_time(check: Unstructured) -> timedelta | None:
    """None where it does not say, says nothing sensible, or says that it does not matter (0)."""
    spec: dict[str, Any] = check.spec or {}
    checks = spec.get("checks")
    seconds = checks.get("nodeStartupTimeoutSeconds") if isinstance(checks, dict) else None
    if isinstance(seconds, int) and not isinstance(seconds, bool) and 0 < seconds <= LONGEST.total_seconds():
        return timedelta(seconds=seconds)
    try:
        length = read_duration(spec.get("nodeStartupTimeout"))
    except ValueError:
        return None
    return length if length > timedelta() else None


def text_in(content: dict[str, Any] | None, *path: str) -> str:
    """Whatever somebody wrote there: a text, or nothing."""
    value: Any = content
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""
