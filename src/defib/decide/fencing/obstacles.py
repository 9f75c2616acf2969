"""What stands against beginning a power cycle: the brake, doubt, the lock of the node, other incidents, the quorum."""

from collections.abc import Callable

from defib.decide.doubt import why_held
from defib.decide.fencing.order import Obstacle, Order
from defib.decide.ground import is_control_plane, machines_out, survey
from defib.decide.quorum import quorum_gate
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.incident import INCIDENTS
from defib.model.lock import held_by_another, is_held
from defib.model.node import Lease, Node
from defib.model.power_cycle import LOCK_HOLDER

OWN_NODE = "OwnNode"
_NEEDED = frozenset({"nodes", "heartbeats", "configmaps", INCIDENTS})


def hold_of(cluster: Cluster, rules: Rules, *, goes_on: bool) -> Obstacle | None:
    """Why nothing destructive may be done now, to whichever machine; or to one that was told to go off, until that is proved."""
    reason, message = why_held(_NEEDED, cluster, rules, goes_on=goes_on)
    return Obstacle(reason, message) if reason else None


def lock_of(order: Order, cluster: Cluster, rules: Rules) -> Lease | None:
    return cluster.locks.get(f"{rules.lock_namespace}/{medik8s.lock_of(order.node)}") if order.node else None


def obstacle_to(
    order: Order, cluster: Cluster, rules: Rules, hold: Callable[[], Obstacle | None], *, has_begun: bool
) -> Obstacle | None:
    """The first thing that stands against beginning, or going on after a failure.

    What has begun can do without its Node: that may be gone, or have been deleted by us, and with it what the way to
    the power was made of.
    """
    if isinstance(order.path, Obstacle) and not has_begun:
        return order.path
    if order.obstacle is not None and not has_begun:
        return order.obstacle
    if not order.is_held:
        return Obstacle("Starting", "it is being written down that we work on it")
    node = cluster.nodes.get(order.node) if order.node else None
    return hold() or own_node(order, rules) or _lock(order, cluster, rules) or _control_plane(node, cluster, rules)


def own_node(order: Order, rules: Rules) -> Obstacle | None:
    """Whoever runs on a machine does not switch it off, at whichever step it comes to look after it."""
    if not rules.own_node or rules.own_node != order.node:
        return None
    return Obstacle(OWN_NODE, "Defib itself runs on this node; another replica, elsewhere, has to do it")


def waits_for_another(cluster: Cluster, rules: Rules) -> str:
    """The node under this replica, while its machine can only be helped by another replica; else nothing."""
    incident = cluster.incidents().get(rules.own_node) if rules.own_node else None
    is_so = incident is not None and incident.is_open and incident.status.reason == OWN_NODE
    return rules.own_node if is_so else ""


def _lock(order: Order, cluster: Cluster, rules: Rules) -> Obstacle | None:
    lease = lock_of(order, cluster, rules)
    if by := held_by_another(lease, order.lock_holder, cluster.now):
        return Obstacle("Lock", f"{by} works on the node and holds its lock")
    if order.lock_holder == LOCK_HOLDER and order.node in cluster.nodes and not is_held(lease, cluster.now):
        return Obstacle("Lock", "the lock of the node is being taken")
    return None


def only_one(other: str) -> Obstacle:
    message = f"control-plane node {other} is being remediated, and only one may be at a time"
    return Obstacle("ControlPlane", message)


def _control_plane(node: Node | None, cluster: Cluster, rules: Rules) -> Obstacle | None:
    if node is None or not is_control_plane(node):
        return None
    for other in machines_out(cluster):
        if other != node.name:
            return only_one(other)
    gate = quorum_gate(node, survey(cluster, rules, frozenset()))
    return None if gate.is_open else Obstacle("Quorum", gate.message)
