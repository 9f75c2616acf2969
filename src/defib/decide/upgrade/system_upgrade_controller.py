"""Rancher's system-upgrade-controller (k3s, RKE2 and others): a Plan lists the nodes that it is being applied to."""

from collections.abc import Iterator, Mapping

from defib.decide.upgrade.signal import Signal, Watch, grouped, inside, objects, true_condition, words
from defib.model.cluster import Cluster
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured

PLANS = Watch((KindRef("upgrade.cattle.io/v1", "Plan"),))
HOSTNAME = "kubernetes.io/hostname"


def system_upgrade_controller(cluster: Cluster, _namespace: str) -> Iterator[Signal]:
    applying = [(plan, hosts) for plan in objects(cluster, PLANS) if (hosts := _hosts(plan))]
    by_host = _by_host(cluster) if applying else {}
    for plan, hosts in applying:
        nodes = frozenset[str]().union(*(by_host.get(host, ()) for host in hosts))
        version = words(inside(plan.status, "latestVersion"))
        if nodes:
            yield Signal(
                name="system-upgrade-controller",
                message=f"system-upgrade-controller is applying Plan {plan.key} ({version or 'no version'}) to the node",
                nodes=nodes,
            )


def _hosts(plan: Unstructured) -> frozenset[str]:
    listed = inside(plan.status, "applying")
    if not isinstance(listed, list) or true_condition(inside(plan.status, "conditions"), "Complete"):
        return frozenset()
    return frozenset(host for host in listed if isinstance(host, str))


def _by_host(cluster: Cluster) -> Mapping[str, frozenset[str]]:
    """A Plan names nodes by their hostname label where they have one, which need not be the name of the node."""
    return grouped((node.labels.get(HOSTNAME, node.name), node.name) for node in cluster.nodes.values())
