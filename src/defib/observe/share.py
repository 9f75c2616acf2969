"""Equal parts of objects are kept once: thousands of nodes have the same labels and the same words in their conditions.

This changes objects in place, which is safe only here, where a fresh object has been decoded and nobody has seen it.
"""

from msgspec.structs import force_setattr

from defib.model.meta import Resource
from defib.model.node import Condition, Node

Pool = dict[str, str]

_WORDS = ("type", "status", "reason", "message")


def share_words(item: Resource, pool: Pool) -> None:
    """While a list is read: make each repeated text the same string. The pool is dropped with the list."""
    labels = item.metadata.labels or {}
    for key, value in labels.items():
        labels[key] = pool.setdefault(value, value)
    for condition in _conditions(item):
        for field in _WORDS:
            text = getattr(condition, field)
            force_setattr(condition, field, pool.setdefault(text, text))


def share_unchanged(item: Resource, before: Resource) -> None:
    """When an object changes: keep the parts that did not. A kubelet's report mostly says the same again."""
    labels = before.metadata.labels
    if labels is not None and labels == item.metadata.labels:
        force_setattr(item.metadata, "labels", labels)
    if isinstance(item, Node) and isinstance(before, Node):
        conditions = before.status.conditions
        if conditions is not None and conditions == item.status.conditions:
            force_setattr(item.status, "conditions", conditions)


def says_the_same(item: Resource, before: Resource) -> bool:
    """Whether a node differs in nothing that we look at: most of its own reports do not, and there are many."""
    if not isinstance(item, Node) or not isinstance(before, Node):
        return False
    now, was = item.metadata, before.metadata
    return (
        item.status == before.status
        and item.spec == before.spec
        and now.uid == was.uid
        and now.labels == was.labels
        and now.annotations == was.annotations
        and now.deletion_timestamp == was.deletion_timestamp
    )


def _conditions(item: Resource) -> list[Condition]:
    return (item.status.conditions or []) if isinstance(item, Node) else []
