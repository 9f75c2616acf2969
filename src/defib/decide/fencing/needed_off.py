"""Which hosts have to stay off, whoever keeps them so: somebody switches them, or works on their node in another way."""

from collections.abc import Iterable

import msgspec

from defib.decide.fencing.order import Order
from defib.decide.fencing.paths import host_of
from defib.model.cluster import Cluster
from defib.model.incident import NodeIncident
from defib.model.meta import Unstructured
from defib.model.metal3 import KEPT_OFF_FOR
from defib.model.power import METAL3, PowerPath


class NeededOff(msgspec.Struct, frozen=True, kw_only=True):
    """One machine can be switched in several ways: whoever frees its workloads by one must not find it on by another."""

    hosts: frozenset[str]  # those that are switched through Metal3
    freed: frozenset[str]  # nodes and incidents, of what is switched otherwise
    asked: frozenset[str]  # nodes for which that is about to begin

    def includes(self, host: Unstructured, node: str) -> bool:
        """A host of which nobody knows the node may be anybody's."""
        return host.key in self.hosts or node in self.freed | self.asked or (not node and bool(self.freed))


def needed_off(cluster: Cluster, orders: Iterable[Order]) -> NeededOff:
    open_ones = [one for one in cluster.incidents().values() if one.is_open]
    asking = [order for order in orders if is_asking(order)]
    by_another_way = [one for one in open_ones if one.may_need_it_off and not _is_by_host(one.status.power)]
    ways = (*(one.status.power for one in open_ones), *(order.path for order in asking))
    begun = _names(open_ones)
    return NeededOff(
        hosts=frozenset(way.address for way in ways if isinstance(way, PowerPath) and _is_by_host(way)),
        freed=_names(by_another_way),
        # What has begun knows better than its order whether it needs the machine off still.
        asked=frozenset(
            order.node
            for order in asking
            if isinstance(order.path, PowerPath) and not _is_by_host(order.path) and order.name not in begun
        ),
    )


def is_asking(order: Order) -> bool:
    """Whether it wants anything still, or anything more."""
    return not order.is_over and not order.withdrawn


def node_behind(host: Unstructured, cluster: Cluster) -> str:
    """For whom we keep it off, else the node that says that it runs there; empty when nobody can tell."""
    nodes = (node for node in cluster.nodes.values() if host.key in node.spec.provider_id)
    runs = next((node.name for node in nodes if host_of(node.spec.provider_id) == host.key), "")
    return host.annotations.get(KEPT_OFF_FOR, "") or runs


def _names(incidents: Iterable[NodeIncident]) -> frozenset[str]:
    return frozenset(name for one in incidents for name in (one.spec.node, one.name) if name)


def _is_by_host(way: PowerPath | None) -> bool:
    return way is not None and way.driver == METAL3
