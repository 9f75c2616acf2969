"""Cluster API replaces machines when their template changes: those of MachineDeployments, and the control plane.

The objects stand in the management cluster, often beside those of many other clusters. So a rollout concerns only the
nodes that say they belong to it; a cluster that does not manage itself sees none.
"""

from collections.abc import Iterator

import msgspec

from defib.decide.upgrade.signal import Signal, Watch, condition, grouped, inside, objects
from defib.model.cluster import Cluster
from defib.model.health_check import KindRef
from defib.model.machine import PAUSED
from defib.model.meta import Unstructured
from defib.model.node import Node

VERSIONS = ("v1beta2", "v1beta1")
DEPLOYMENTS = Watch(tuple(KindRef(f"cluster.x-k8s.io/{version}", "MachineDeployment") for version in VERSIONS))
CONTROL_PLANES = Watch(
    tuple(KindRef(f"controlplane.cluster.x-k8s.io/{version}", "KubeadmControlPlane") for version in VERSIONS)
)

CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
CLUSTER_NAMESPACE = "cluster.x-k8s.io/cluster-namespace"
OWNER_KIND = "cluster.x-k8s.io/owner-kind"
OWNER_NAME = "cluster.x-k8s.io/owner-name"

# The machines of a deployment belong to its MachineSets. Those are called after it, cut to so many letters together
# with a dash, and then so many letters of chance; by older versions, a dash and a hash of any length.
STEM_LENGTH = 58
CHANCE_LENGTH = 5


class Owner(msgspec.Struct, frozen=True):
    """What a node belongs to. For a MachineSet, `name` is the part that all sets of a deployment share."""

    namespace: str
    cluster: str
    kind: str
    name: str


def cluster_api(cluster: Cluster, _namespace: str) -> Iterator[Signal]:
    rollouts = [*_rollouts(cluster)]
    by_owner = grouped(pair for node in cluster.nodes.values() for pair in _owners(node)) if rollouts else {}
    for what, owner in rollouts:
        if nodes := by_owner.get(owner):
            yield Signal(name="cluster-api", message=f"Cluster API is rolling out {what}", nodes=nodes)


def _rollouts(cluster: Cluster) -> Iterator[tuple[str, Owner]]:
    for deployment in objects(cluster, DEPLOYMENTS):
        if _is_rolling(deployment):
            owner = Owner(
                deployment.namespace, _cluster_of(deployment), "MachineSet", f"{deployment.name}-"[:STEM_LENGTH]
            )
            yield f"MachineDeployment {deployment.key}", owner
    for plane in objects(cluster, CONTROL_PLANES):
        if _is_rolling(plane):
            owner = Owner(plane.namespace, _cluster_of(plane), "KubeadmControlPlane", plane.name)
            yield f"KubeadmControlPlane {plane.key}", owner


def _cluster_of(item: Unstructured) -> str:
    named = inside(item.spec, "clusterName")
    return named if isinstance(named, str) else item.labels.get(CLUSTER_NAME, "")


def _owners(node: Node) -> Iterator[tuple[Owner, str]]:
    said = node.annotations
    kind, name = said.get(OWNER_KIND, ""), said.get(OWNER_NAME, "")
    if not kind or not name:
        return
    names = {name[:-CHANCE_LENGTH], f"{name.rpartition('-')[0]}-"} if kind == "MachineSet" else {name}
    for one in names:
        yield Owner(said.get(CLUSTER_NAMESPACE, ""), said.get(CLUSTER_NAME, ""), kind, one), node.name


def _is_rolling(item: Unstructured) -> bool:
    """The condition says it; where an older version has none, the counts do.

    A rollout that is paused takes no node down. With OnDelete, a person does, at their own pace, which may be months.
    """
    strategies = (inside(item.spec, "strategy", "type"), inside(item.spec, "rollout", "strategy", "type"))
    if PAUSED in item.annotations or inside(item.spec, "paused") is True or "OnDelete" in strategies:
        return False
    for conditions in (inside(item.status, "conditions"), inside(item.status, "v1beta2", "conditions")):
        if said := condition(conditions, "RollingOut"):
            return said.get("status") == "True"
    replicas = inside(item.status, "replicas")
    updated = inside(item.status, "upToDateReplicas")
    if updated is None:
        updated = inside(item.status, "updatedReplicas")
    return isinstance(replicas, int) and isinstance(updated, int) and updated < replicas
