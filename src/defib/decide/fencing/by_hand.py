"""PodFailoverRemediations as orders, where a person's word is proof enough: an incident is opened by which it can be given.

Nothing is switched for them. They give way to whoever can switch the machine, and to a node that is ready again, until
somebody has given their word: then its workloads are freed as after any other proof.

A node has one incident at a time. While it is that of a power cycle which has failed, the word is given there.
"""

from collections.abc import Collection

from defib.decide.entries import target
from defib.decide.failover.reading import read_wish
from defib.decide.failover.remediation import WAITING
from defib.decide.fencing.agents import CLOCKS_DIFFER
from defib.decide.fencing.case import LAST_BREATH
from defib.decide.fencing.order import Order
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.incident import Grade, NodeIncident
from defib.model.meta import Unstructured
from defib.model.node import Node
from defib.model.pod_failover import REMEDIATION, Wish, read_failover_status
from defib.model.power import MANUAL, PowerPath
from defib.model.power_cycle import LOCK_HOLDER, Policy
from defib.model.remediation import read_remediation

BY_HAND = PowerPath(driver=MANUAL)
NAME_MAX = 253


def by_hand_order(item: Unstructured, cluster: Cluster, others: Collection[str]) -> Order | None:
    """`others` are the nodes of which somebody can switch the machine. None while no pod waits for a person."""
    wish = _wish_for_word(item)
    if wish is None:
        return None
    remediation = read_remediation(item, REMEDIATION)
    name = remediation.node[:NAME_MAX]
    there = cluster.incidents().get(name)
    incident = there if there is not None and there.is_open and there.spec.cause.uid == item.uid else None
    if incident is None and (name in others or not _is_waiting(item) or not _has_failed(cluster.nodes.get(name))):
        return None
    return Order(
        cause=target(remediation),
        node=name,
        name=name,
        path=BY_HAND,
        policy=Policy(accepts=tuple(sorted(wish.accepts))),
        withdrawn=_withdrawn(item) or _needless(incident, cluster, others),
        repeats=True,
        unless_ready=True,
        lock_holder=medik8s.holder_of(remediation.owner) if remediation.owner else LOCK_HOLDER,
    )


def awaits_word_about(item: Unstructured) -> str:
    """The node that it would believe a person about; empty when there is none, or when it is over."""
    condition = read_failover_status(item).condition(medik8s.SUCCEEDED)
    is_going_on = condition is not None and condition.status == "Unknown" and not _withdrawn(item)
    return read_remediation(item, REMEDIATION).node[:NAME_MAX] if is_going_on and _wish_for_word(item) else ""


def _wish_for_word(item: Unstructured) -> Wish | None:
    wish = read_wish(item.spec)
    return wish if isinstance(wish, Wish) and Grade.PERSON in wish.accepts else None


def _is_waiting(item: Unstructured) -> bool:
    condition = read_failover_status(item).condition(medik8s.SUCCEEDED)
    return condition is not None and condition.reason == WAITING


def _has_failed(node: Node | None) -> bool:
    return node is not None and node.ready != "True"


def _withdrawn(item: Unstructured) -> str:
    if item.metadata.deletion_timestamp is not None:
        return "the remediation is being deleted"
    return "the time that the NodeHealthCheck gave is up" if medik8s.TIMED_OUT in item.annotations else ""


def _needless(incident: NodeIncident | None, cluster: Cluster, others: Collection[str]) -> str:
    """Why nobody has to give their word, unless it was given and believed."""
    if incident is None or incident.status.proof is not None:
        return ""
    if incident.name in others:
        return "its machine is going to be switched by somebody else"
    node = cluster.nodes.get(incident.name)
    return "its node is ready" if node is not None and node.ready == "True" and _is_heard(incident, cluster) else ""


def _is_heard(incident: NodeIncident, cluster: Cluster) -> bool:
    """A node seems ready for a while after its machine was switched off; until it reports anew, that word may be true."""
    said, lease = incident.spec.confirmed_off, cluster.heartbeat_of(incident.name)
    if said is None or said.at > cluster.now + CLOCKS_DIFFER or lease is None or lease.spec.renew_time is None:
        return True
    return lease.spec.renew_time > said.at + LAST_BREATH
