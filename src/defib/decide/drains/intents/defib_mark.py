"""A person asks Defib to drain a node: they cordon it, and write the reason into an annotation."""

from defib.decide.drains.intent import Intent, is_cordoned
from defib.decide.upgrade.signal import words
from defib.model.cluster import Cluster
from defib.model.drain_policy import Source
from defib.model.node import Node
from defib.model.node_drain import DRAIN_MARK

NO = "false"  # no reason for a drain, but what people write who want none


def defib_mark(node: Node, _cluster: Cluster) -> Intent | None:
    reason = _reason(node)
    if not reason or not is_cordoned(node):
        return None
    return Intent(source=Source.DEFIB, why=f"Defib was asked to drain the node: {reason}", evicts=True)


def waits_for_cordon(node: Node) -> str:
    """What to tell somebody who asked for a drain and forgot half of it; empty when there is nothing to tell."""
    if not _reason(node) or is_cordoned(node):
        return ""
    return (
        f"it is marked with {DRAIN_MARK}, but is not cordoned; the drain begins when it is: kubectl cordon {node.name}"
    )


def _reason(node: Node) -> str:
    reason = words(node.annotations.get(DRAIN_MARK))
    return "" if reason.lower() == NO else reason
