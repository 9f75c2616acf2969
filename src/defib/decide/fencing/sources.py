"""Whoever can ask for a machine to be fenced: our own remediations always, other projects where a setting says so."""

from collections.abc import Iterable, Iterator

import msgspec

from defib.decide.entries import release
from defib.decide.fencing.by_hand import awaits_word_about, by_hand_order
from defib.decide.fencing.kinds import (
    MACHINE_HEALTH_CHECKS,
    MACHINES,
    METAL3_MACHINES,
    METAL3_REMEDIATIONS,
    Versions,
    items_of,
    to_ask_for,
)
from defib.decide.fencing.machine_annotation import loose_ends, machine_orders
from defib.decide.fencing.metal3_remediations import metal3_order, report_metal3
from defib.decide.fencing.order import Obstacle, Order, Report
from defib.decide.fencing.ours import OURS
from defib.decide.fencing.power_cycles import power_cycle_order, report_power_cycle
from defib.decide.rules import Rules
from defib.model import medik8s
from defib.model.action import Action
from defib.model.cluster import Cluster, Wanted
from defib.model.health_check import KindRef
from defib.model.incident import Grade, NodeIncident
from defib.model.meta import Unstructured
from defib.model.metal3 import HOST
from defib.model.pod_failover import REMEDIATION as POD_FAILOVER
from defib.model.power_cycle import LOCK_HOLDER, HandOver

MACHINE_ANNOTATION, METAL3_REMEDIATION = "machine-annotation", "metal3-remediation"  # as the setting calls them

_BEHIND_MACHINES: tuple[Versions, ...] = (*MACHINES, *MACHINE_HEALTH_CHECKS, METAL3_MACHINES, (HOST,))


def orders_in(cluster: Cluster, rules: Rules) -> Iterator[tuple[Order, Report]]:
    """Each with how it is told how it stands."""
    asking = cluster.every(POD_FAILOVER)
    awaited = {node for item in asking if (node := awaits_word_about(item))}
    switched = set()
    for order, report in _to_be_switched(cluster, rules):
        if _can_begin(order):
            switched.add(order.node)
        yield _with_word(order) if order.is_over and order.node in awaited else order, report
    for item in asking:
        if (by_hand := by_hand_order(item, cluster, switched)) is not None:
            yield by_hand, _silent  # its own status says what its pods wait for


def _can_begin(order: Order) -> bool:
    return not order.is_over and not order.withdrawn and _why_never(order) is None


def _why_never(order: Order) -> Obstacle | None:
    """Why it could not begin as it stands, whatever else is so."""
    return order.path if isinstance(order.path, Obstacle) else order.obstacle


def _with_word(order: Order) -> Order:
    """What has failed may have left the only incident in which a person can give the word that others wait for."""
    accepts = tuple(sorted({*order.policy.accepts, Grade.PERSON}))
    return msgspec.structs.replace(order, policy=msgspec.structs.replace(order.policy, accepts=accepts))


def _to_be_switched(cluster: Cluster, rules: Rules) -> Iterator[tuple[Order, Report]]:
    for ours in OURS:
        for item in cluster.every(ours.remediation):
            order = power_cycle_order(item, cluster, ours)
            yield order, _reporter(item, order, cluster)
    if MACHINE_ANNOTATION in rules.serves:
        for order in machine_orders(cluster):
            yield order, _silent
    if METAL3_REMEDIATION in rules.serves:
        for kind, item in items_of(METAL3_REMEDIATIONS, cluster):
            order = metal3_order(kind, item, cluster)
            yield order, _metal3_reporter(kind, item, order)


def kinds_served(cluster: Cluster, rules: Rules) -> dict[KindRef, Wanted]:
    """What must be in sight to see those of other projects."""
    kinds: list[Versions] = []
    if rules.serves & {MACHINE_ANNOTATION, METAL3_REMEDIATION}:
        kinds += _BEHIND_MACHINES
    if METAL3_REMEDIATION in rules.serves:
        kinds.append(METAL3_REMEDIATIONS)
    return {kind: Wanted(can_wait=True) for versions in kinds for kind in to_ask_for(versions, cluster)}


def kinds_handed_over(orders: Iterable[tuple[Order, Report]], cluster: Cluster) -> dict[KindRef, Wanted]:
    """What must be in sight to know which Machine could be replaced, where somebody wants that."""
    if not any(order.policy.hand_over is HandOver.DELETE_MACHINE for order, _ in orders):
        return {}
    kinds = (*MACHINES, METAL3_MACHINES, (HOST,))
    return {kind: Wanted(can_wait=True) for versions in kinds for kind in to_ask_for(versions, cluster)}


def left_behind(cluster: Cluster, rules: Rules, orders: Iterable[Order]) -> tuple[Action, ...]:
    """What is to be put right although nobody asks for anything: hosts that are kept off, locks that nobody needs."""
    hosts = tuple(loose_ends(cluster)) if MACHINE_ANNOTATION in rules.serves else ()
    nodes = {order.node for order in orders} | {one.spec.node for one in cluster.incidents().values() if one.is_open}
    needed = {medik8s.lock_of(node) for node in nodes}
    idle = [
        release(lease.name.removeprefix(medik8s.lock_of("")), lease)
        for lease in cluster.locks.values()
        if lease.spec.holder_identity == LOCK_HOLDER and lease.name not in needed
    ]
    return (*hosts, *idle)


def _silent(_: NodeIncident | None, __: Obstacle) -> tuple[Action, ...]:
    """A Machine has no place for what we could say; the incident tells it."""
    return ()


def _reporter(item: Unstructured, order: Order, cluster: Cluster) -> Report:
    def report(incident: NodeIncident | None, so: Obstacle) -> tuple[Action, ...]:
        # That another incident is in its way is no news of one that could not begin anyway.
        why = _why_never(order) if so.reason == "OtherIncident" else None
        return report_power_cycle(item, order, incident, why or so, cluster)

    return report


def _metal3_reporter(kind: KindRef, item: Unstructured, order: Order) -> Report:
    def report(incident: NodeIncident | None, so: Obstacle) -> tuple[Action, ...]:
        return report_metal3(kind, item, order, incident, so)

    return report
