"""OpenShift: the Machine Config Operator drains the nodes of a pool, one after the other.

Where the managed-upgrade-operator is at home, only an upgrade that it runs counts, as for Nodekeeper, but in every
pool. Either way the node itself must be known to be draining: one that a person parked meanwhile is left alone.
"""

from collections.abc import Iterator

from defib.decide.drains.intent import Intent, is_cordoned
from defib.decide.drains.intents.sight import in_sight, is_missing
from defib.decide.field import Field, Problems
from defib.decide.reading import read_selector
from defib.decide.upgrade.signal import inside, words
from defib.model.cluster import Cluster, Wanted
from defib.model.drain_policy import Source
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured
from defib.model.node import Node

NAMESPACE = "openshift-managed-upgrade-operator"
UPGRADE_CONFIGS = KindRef("upgrade.managed.openshift.io/v1alpha1", "UpgradeConfig")
UPGRADE_CONFIG = f"{NAMESPACE}/managed-upgrade-config"
POOLS = KindRef("machineconfiguration.openshift.io/v1", "MachineConfigPool")
WATCHED = ((UPGRADE_CONFIGS, Wanted(NAMESPACE, can_wait=True)), (POOLS, Wanted(can_wait=True)))

STATE = "machineconfiguration.openshift.io/state"
DESIRED_DRAIN = "machineconfiguration.openshift.io/desiredDrain"
LAST_APPLIED_DRAIN = "machineconfiguration.openshift.io/lastAppliedDrain"

# A node that a pool of somebody's own selects is not in this one, though its labels say so too.
WORKERS = "worker"
CONTROL_PLANE = "master"


def openshift(node: Node, cluster: Cluster) -> Intent | None:
    if not is_cordoned(node):
        return None
    if is_missing(UPGRADE_CONFIGS, cluster):
        why = "the Machine Config Operator is draining the node"
        return Intent(source=Source.OPENSHIFT, why=why) if _is_drain_asked_for(node) else None
    is_draining = node.annotations.get(STATE) == "Working" or _is_drain_asked_for(node)
    version = _version_under_way(cluster) if is_draining else ""
    if not version or not _is_in_updating_pool(node, cluster):
        return None
    return Intent(
        source=Source.OPENSHIFT,
        why=f"the Machine Config Operator is updating the node, for the upgrade to {version}",
        upgrade=version,
    )


def desired_version(cluster: Cluster) -> str:
    """The version that the managed-upgrade-operator is to bring about, or has; empty where there is none."""
    config = (in_sight(UPGRADE_CONFIGS, cluster) or {}).get(UPGRADE_CONFIG)
    return words(inside(config.spec, "desired", "version")) if config is not None else ""


def pending_nodes(cluster: Cluster) -> int:
    """How many nodes of updating pools are not updated yet. As upstream counts, those of the control plane do not."""
    pools = (pool for pool in (in_sight(POOLS, cluster) or {}).values() if pool.name != CONTROL_PLANE)
    return sum(max(total - updated, 0) for total, updated in map(_counts, pools))


def _is_drain_asked_for(node: Node) -> bool:
    desired = node.annotations.get(DESIRED_DRAIN, "")
    return desired.startswith("drain-") and desired != node.annotations.get(LAST_APPLIED_DRAIN)


def _version_under_way(cluster: Cluster) -> str:
    version = desired_version(cluster)
    config = (in_sight(UPGRADE_CONFIGS, cluster) or {}).get(UPGRADE_CONFIG)
    history = inside(config.status, "history") if config is not None else None
    entries = history if isinstance(history, list) else []
    phases = [inside(entry, "phase") for entry in entries if words(inside(entry, "version")) == version]
    return version if phases[:1] == ["Upgrading"] else ""


def _is_in_updating_pool(node: Node, cluster: Cluster) -> bool:
    mine = list(_pools_of(node, cluster))
    own = [pool for pool in mine if pool.name != WORKERS]
    return any(total != updated for total, updated in map(_counts, own or mine))


def _pools_of(node: Node, cluster: Cluster) -> Iterator[Unstructured]:
    """As the Machine Config Operator has it, a pool without a selector, or with an empty one, has no nodes."""
    for pool in (in_sight(POOLS, cluster) or {}).values():
        problems = Problems()
        selector = read_selector(Field("nodeSelector", inside(pool.spec, "nodeSelector"), problems))
        if selector.requirements and not problems.sentences and selector.selects(node.labels):
            yield pool


def _counts(pool: Unstructured) -> tuple[int, int]:
    """Of all its nodes, and of those that are updated; the same where it does not say."""
    counts = [inside(pool.status, name) for name in ("machineCount", "updatedMachineCount")]
    total, updated = (count if isinstance(count, int) and not isinstance(count, bool) else None for count in counts)
    return (total, updated) if total is not None and updated is not None else (0, 0)
