"""PodFailoverRemediations as orders, where a person's word is proof enough: an incident is opened by which it can be given.

Nothing is switched for them. They give way to whoever wants to switch the machine, until somebody has given their word:
then its workloads are freed as after any other proof.
"""

from collections.abc import Collection

from defib.decide.entries import target
from defib.decide.failover.reading import read_wish
from defib.decide.failover.remediation import WAITING
from defib.decide.fencing.order import Order
from defib.model import medik8s
from defib.model.cluster import Cluster
from defib.model.incident import Grade, NodeIncident
from defib.model.meta import Unstructured
from defib.model.pod_failover import REMEDIATION, Wish, read_failover_status
from defib.model.power import MANUAL, PowerPath
from defib.model.power_cycle import LOCK_HOLDER, Policy
from defib.model.remediation import read_remediation

BY_HAND = PowerPath(driver=MANUAL)
NAME_MAX = 253


def by_hand_order(item: Unstructured, cluster: Cluster, others: Collection[str]) -> Order | None:
    """`others` are the nodes of which somebody wants to switch the machine. None while no pod waits for a person."""
    wish = read_wish(item.spec)
    if not isinstance(wish, Wish) or Grade.PERSON not in wish.accepts:
        return None
    remediation = read_remediation(item, REMEDIATION)
    name = remediation.node[:NAME_MAX]
    there = cluster.incidents().get(name)
    incident = there if there is not None and there.is_open and there.spec.cause.uid == item.uid else None
    if incident is None and (name in others or not _is_waiting(item) or name not in cluster.nodes):
        return None
    return Order(
        cause=target(remediation),
        node=name,
        name=name,
        path=BY_HAND,
        policy=Policy(accepts=tuple(sorted(wish.accepts))),
        withdrawn=_withdrawn(item, incident, is_wanted_by_others=name in others),
        unless_ready=True,
        lock_holder=medik8s.holder_of(remediation.owner) if remediation.owner else LOCK_HOLDER,
    )


def _is_waiting(item: Unstructured) -> bool:
    condition = read_failover_status(item).condition(medik8s.SUCCEEDED)
    return condition is not None and condition.reason == WAITING


def _withdrawn(item: Unstructured, incident: NodeIncident | None, *, is_wanted_by_others: bool) -> str:
    if item.metadata.deletion_timestamp is not None:
        return "the remediation is being deleted"
    if medik8s.TIMED_OUT in item.annotations:
        return "the time that the NodeHealthCheck gave is up"
    is_proved = incident is not None and incident.status.proof is not None
    return "its machine is going to be switched by somebody else" if is_wanted_by_others and not is_proved else ""
