"""Machines with the annotation host.metal3.io/external-remediation, as orders; and what earlier ones have left behind.

The annotation is taken away last of all. Whoever sets it may look at the Machine at any moment in between, and finds
that what it asks for is still asked for: that is what keeps a machine from being restarted over and over.
"""

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from defib.decide.fencing.hosts import host_of_machine, obstacle_of_host, target_of_host, way_to
from defib.decide.fencing.kinds import MACHINES, are_in_sight
from defib.decide.fencing.machines import (
    BECAME_NODE,
    Machine,
    is_misnamed,
    is_replaceable,
    machines_in,
    node_of,
    obstacle_of,
    startup_time,
)
from defib.decide.fencing.needed_off import needed_off, node_behind
from defib.decide.fencing.order import Obstacle, Order
from defib.model.action import Action, MarkRemediation
from defib.model.cluster import Cluster
from defib.model.incident import INCIDENTS, NodeIncident, Phase
from defib.model.metal3 import HOST, KEPT_OFF_BY, KEPT_OFF_FOR, MACHINE_KEY, REBOOT_HARD, TRIGGER
from defib.model.power_cycle import LOCK_HOLDER, HandOver, Policy, Workloads

# A host is switched by two controllers and a BMC, one after the other.
HOST_OFF_WITHIN = timedelta(minutes=5)
HOST_ON_WITHIN = timedelta(minutes=5)

POLICY = Policy(
    workloads=Workloads.DELETE_NODE,
    off_within=HOST_OFF_WITHIN,
    on_within=HOST_ON_WITHIN,
    hand_over=HandOver.DELETE_MACHINE,
)


def machine_orders(cluster: Cluster) -> Iterator[Order]:
    """Of those that ask for it, and those that have asked and do not any more."""
    begun = {one.spec.cause.uid: one for one in cluster.incidents().values() if one.is_open}
    for machine in machines_in(cluster):
        incident = begun.get(machine.item.uid)
        if incident is not None or TRIGGER in machine.item.annotations:
            yield _order(machine, incident, cluster)


def _order(machine: Machine, incident: NodeIncident | None, cluster: Cluster) -> Order:
    host = host_of_machine(machine, cluster)
    name = node_of(machine.node, incident)
    node = cluster.nodes.get(name)
    is_wanted = TRIGGER in machine.item.annotations
    is_going = incident is not None and incident.status.phase is Phase.REPLACING
    can_go = is_going or is_replaceable(machine, host, node)
    unit = incident.name if incident is not None else name or machine.incident
    done = MarkRemediation(node=unit, target=machine.target, annotations={TRIGGER: None})
    return Order(
        cause=machine.target,
        node=name,
        name=unit,
        path=way_to(host, MACHINE_KEY),
        policy=msgspec.structs.replace(POLICY, back_within=startup_time(machine, cluster)),
        withdrawn=_withdrawn(machine) or (BECAME_NODE if is_misnamed(machine.node, incident) else ""),
        repeats=True,
        tells_by_incident=True,
        marker=TRIGGER,
        obstacle=obstacle_of_host(host) or obstacle_of(machine, node),
        lock_holder=LOCK_HOLDER,
        finish=(done,) if is_wanted else (),
        machine=machine.target if can_go else None,
        host=target_of_host(host) if can_go and not isinstance(host, Obstacle) else None,
    )


def _withdrawn(machine: Machine) -> str:
    if machine.item.metadata.deletion_timestamp is not None:
        return f"{machine.target} is being deleted"
    return "" if TRIGGER in machine.item.annotations else f"{machine.target} has no annotation {TRIGGER} any more"


def loose_ends(cluster: Cluster) -> Iterator[Action]:
    """Hosts that our annotation keeps off although nobody wants that: they are let go on.

    One that is on although it has the annotation is about to go off; it is let go when it has. Others use this key too:
    ours is what is written as we write it, with our mark or, from before there were marks, without.
    """
    left = [
        host
        for host in cluster.every(HOST)
        if host.annotations.get(MACHINE_KEY) == REBOOT_HARD and (host.status or {}).get("poweredOn") is False
    ]
    if not left or INCIDENTS in cluster.absent or not all(are_in_sight(versions, cluster) for versions in MACHINES):
        return
    needed = needed_off(cluster, machine_orders(cluster))
    for host in left:
        if needed.includes(host, node_behind(host, cluster)):
            continue
        is_marked = host.annotations.get(KEPT_OFF_BY) == MACHINE_KEY
        ours = (MACHINE_KEY, KEPT_OFF_BY, KEPT_OFF_FOR) if is_marked else (MACHINE_KEY,)
        yield MarkRemediation(
            node="",
            target=target_of_host(host),
            annotations=dict.fromkeys(ours),
            version=host.metadata.resource_version,
        )
