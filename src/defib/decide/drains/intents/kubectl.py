"""kubectl drain, and kubeadm's manual, which tells to use it: a cordon is all that they leave in the cluster.

A node that a person merely parked looks the same. So somebody must have marked the node, or its whole pool for good.
"""

from defib.decide.drains.intent import Intent, is_cordoned
from defib.model.cluster import Cluster
from defib.model.drain_policy import Source
from defib.model.node import Node
from defib.model.node_drain import WATCH_MARK


def kubectl(node: Node, _cluster: Cluster) -> Intent | None:
    marks = (node.labels.get(WATCH_MARK), node.annotations.get(WATCH_MARK))
    if "true" not in marks or not is_cordoned(node):
        return None
    return Intent(source=Source.KUBECTL, why=f"the node is cordoned, and marked with {WATCH_MARK}")
