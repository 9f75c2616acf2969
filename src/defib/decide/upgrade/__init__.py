"""Who takes nodes down on purpose right now, so that a node which is being upgraded is not taken for a dead one.

One row of SIGNALS per tool. Each reads what the tool itself leaves in the cluster, names as few nodes as it can, and
never raises: whatever cannot be read counts as no upgrade. How long an upgrade may hold remediation back is not decided
here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from defib.decide.upgrade.announced import announced, problems
from defib.decide.upgrade.cluster_api import CONTROL_PLANES, DEPLOYMENTS, cluster_api
from defib.decide.upgrade.kubeadm import kubeadm
from defib.decide.upgrade.kured import DAEMON_SETS, kured
from defib.decide.upgrade.openshift import CLUSTER_VERSIONS, cluster_version, machine_config
from defib.decide.upgrade.signal import Signal, Watch
from defib.decide.upgrade.system_upgrade_controller import PLANS, system_upgrade_controller
from defib.model.cluster import Cluster

__all__ = ["SIGNALS", "WATCHES", "Signal", "Watch", "holding", "problems", "upgrades"]

SIGNALS: Mapping[str, Callable[[Cluster, str], Iterator[Signal]]] = MappingProxyType(
    {
        "announced": announced,
        "cluster-version": cluster_version,
        "machine-config": machine_config,
        "kubeadm": kubeadm,
        "system-upgrade-controller": system_upgrade_controller,
        "kured": kured,
        "cluster-api": cluster_api,
    }
)

# What must be in sight for a signal, beside what always is: nodes, checks, and the ConfigMaps of our own namespace.
WATCHES: Mapping[str, tuple[Watch, ...]] = MappingProxyType(
    {
        "announced": (),
        "cluster-version": (CLUSTER_VERSIONS,),
        "machine-config": (),
        "kubeadm": (),
        "system-upgrade-controller": (PLANS,),
        "kured": (DAEMON_SETS,),
        "cluster-api": (DEPLOYMENTS, CONTROL_PLANES),
    }
)


def upgrades(cluster: Cluster, enabled: tuple[str, ...], namespace: str = "defib-system") -> tuple[Signal, ...]:
    """Everything that is under way, in a fixed order; `namespace` is where Defib itself lives."""
    found = (signal for name in enabled for signal in SIGNALS[name](cluster, namespace))
    return tuple(sorted(found, key=_order))


def holding(signals: Iterable[Signal], check: str, node: str) -> Signal | None:
    """What holds this node of this check back. One that names the node goes before one that means every node."""
    everywhere: Signal | None = None
    for signal in signals:
        if signal.checks is not None and check not in signal.checks:
            continue
        if signal.nodes is None:
            everywhere = everywhere or signal
        elif node in signal.nodes:
            return signal
    return everywhere


def _order(signal: Signal) -> tuple[object, ...]:
    return (
        signal.name,
        signal.message,
        str(signal.until),
        str(signal.since),
        sorted(signal.nodes or ()),
        sorted(signal.checks or ()),
    )
