"""Upgrades by hand or by a script, node by node, as kubeadm's manual tells: drain, upgrade the kubelet, uncordon.

Nobody writes down that such an upgrade runs. What can be seen is a cordoned node with an older kubelet than others
have. Versions that differ are not enough, since pools may differ for months; nor is a cordon that came after the node
failed, since that is somebody's answer to the failure; nor one that is older than a day, since that node is parked. A
node that failed without a cordon is nobody's upgrade, whatever its version.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from defib.decide.upgrade.signal import Signal, cordoned, grouped, is_usable
from defib.model.cluster import Cluster
from defib.model.node import Node

PARKED_AFTER = timedelta(days=1)
CORDON = "node.kubernetes.io/unschedulable"

Release = tuple[int, int, int]

_RELEASE = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})(?![0-9])")


def kubeadm(cluster: Cluster, _namespace: str) -> Iterator[Signal]:
    cordoned_ones = cordoned(cluster)
    if not cordoned_ones:
        return
    texts = {node.status.node_info.kubelet_version for node in cluster.nodes.values()}
    releases = {text: known for text in texts if (known := _release(text))}
    newest = max(releases.values(), default=(0, 0, 0))
    upgrading = (
        ((releases[node.status.node_info.kubelet_version], _cordoned_at(node)), node.name)
        for node in cordoned_ones
        if releases.get(node.status.node_info.kubelet_version, newest) < newest and _may_be_upgraded(node, cluster.now)
    )
    for (release, since), nodes in grouped(upgrading).items():
        yield Signal(
            name="kubeadm",
            message=f"the node is cordoned with kubelet {_said(release)} while others have {_said(newest)}",
            nodes=nodes,
            until=since + PARKED_AFTER if since else None,
            since=since,
        )


def _may_be_upgraded(node: Node, now: datetime) -> bool:
    since = _cordoned_at(node)
    if since is None:
        return True
    ready = node.condition("Ready")
    failed = ready.last_transition_time if ready is not None and ready.status != "True" else None
    return now - since < PARKED_AFTER and not (is_usable(failed) and failed < since)


def _cordoned_at(node: Node) -> datetime | None:
    """Kubernetes turns a cordon into a taint, and notes when. Not so a taint that somebody else has put there."""
    added = next((taint.time_added for taint in node.spec.taints or () if taint.key == CORDON), None)
    return added if is_usable(added) else None


def _release(text: str) -> Release | None:
    """Of `v1.31.4+k3s1`, the 1.31.4: what a distribution appends says nothing about older or newer."""
    match = _RELEASE.match(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _said(release: Release) -> str:
    return f"v{release[0]}.{release[1]}.{release[2]}"
