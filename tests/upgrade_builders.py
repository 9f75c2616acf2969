"""Sentences for tests of upgrades: `having(PLAN, a_plan("a"), nodes=(a_node_with("a"),))`."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from defib.config import UPGRADE_SIGNALS
from defib.decide.upgrade import WATCHES, Signal, upgrades
from defib.model.cluster import Cluster, Served
from defib.model.health_check import KindRef
from defib.model.meta import Meta, Resource, Unstructured
from defib.model.node import Condition, Node, NodeInfo, NodeSpec, NodeStatus, Taint
from tests.builders import T0

COLLECTIONS = {
    kind: Served(f"{kind.name}s.{kind.group}", namespaced=True)
    for watches in WATCHES.values()
    for watch in watches
    for kind in watch.kinds
}
PLAN, DAEMON_SET = KindRef("upgrade.cattle.io/v1", "Plan"), KindRef("apps/v1", "DaemonSet")
CLUSTER_VERSION = KindRef("config.openshift.io/v1", "ClusterVersion")
DEPLOYMENT = KindRef("cluster.x-k8s.io/v1beta2", "MachineDeployment")
OLD_DEPLOYMENT = KindRef("cluster.x-k8s.io/v1beta1", "MachineDeployment")
CONTROL_PLANE = KindRef("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane")


NEWER, OLDER = "v1.31.4+k3s1", "v1.31.3+k3s9"


def a_node_with(
    name: str,
    annotations: Mapping[str, str] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    kubelet: str = "v1.31.0",
    cordoned: datetime | None = None,
    not_ready: datetime | None = None,
) -> Node:
    ready = Condition(type="Ready", status="Unknown" if not_ready else "True", last_transition_time=not_ready)
    taints = [Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule", time_added=cordoned)]
    return Node(
        metadata=Meta(name=name, annotations=dict(annotations or {}), labels=dict(labels or {})),
        spec=NodeSpec(unschedulable=cordoned is not None, taints=taints if cordoned else None),
        status=NodeStatus(conditions=[ready], node_info=NodeInfo(kubelet_version=kubelet)),
    )


def an_object(name: str, namespace: str = "", *, spec: Any = None, status: Any = None, **meta: Any) -> Unstructured:
    return Unstructured(metadata=Meta(name=name, namespace=namespace, **meta), spec=spec, status=status)


def a_cluster_of(*nodes: Node, now: datetime = T0, others: Mapping[str, Any] | None = None) -> Cluster:
    return Cluster(now=now, nodes={node.name: node for node in nodes}, others=others or {})


def having(kind: KindRef, *items: Resource, nodes: tuple[Node, ...] = (), now: datetime = T0) -> Cluster:
    shelf = {item.key: item for item in items}
    served = COLLECTIONS[kind]
    known = {node.name: node for node in nodes}
    return Cluster(now=now, nodes=known, kinds={kind: served}, others={served.collection: shelf})


def under_way(cluster: Cluster) -> tuple[Signal, ...]:
    return upgrades(cluster, UPGRADE_SIGNALS)


def held(cluster: Cluster) -> set[str]:
    """The nodes that are held back by name."""
    return {name for signal in under_way(cluster) for name in signal.nodes or ()}


def rfc3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def a_lock(node: str, *, created: datetime = T0, ttl: timedelta = timedelta()) -> dict[str, object]:
    return {"nodeID": node, "metadata": {}, "created": rfc3339(created), "TTL": int(ttl.total_seconds() * 10**9)}


def locked(
    value: object, *, now: datetime = T0, key: str = "weave.works/kured-node-lock", namespace: str = "kube-system"
) -> Cluster:
    daemon_set = an_object(
        "kured", namespace, annotations={key: value if isinstance(value, str) else json.dumps(value)}
    )
    return having(DAEMON_SET, daemon_set, nodes=(a_node_with("a"), a_node_with("b")), now=now)
