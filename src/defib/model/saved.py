"""What a Node has beside its name: saved before it is deleted, given back when it has come again. What it has got wins."""

from defib.model.meta import Wire
from defib.model.node import Node, Taint

# Kubernetes puts these there and takes them away by itself, as the node is at the moment.
_NOT_OURS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


class Saved(Wire, frozen=True):
    """What a node had beside its name, before its Node was deleted. None is nothing at all, and not the same as empty."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    taints: list[Taint] | None = None
    unschedulable: bool = False  # whoever cordoned it meant the machine, and not this Node of it


def to_save(node: Node, before: Saved | None = None) -> Saved:
    """What it has now, and what an earlier node of this name had and this one has not got yet."""
    meta = node.metadata
    taints = node.spec.taints
    kept = [taint for taint in taints if not taint.key.startswith(_NOT_OURS)] if taints is not None else None
    cordoned = node.spec.unschedulable or (before is not None and before.unschedulable)
    now = Saved(labels=meta.labels, annotations=meta.annotations, taints=kept, unschedulable=cordoned)
    if before is None:
        return now
    labels, annotations, more = missing(node, before)
    return Saved(
        labels={**labels, **node.labels} if labels else now.labels,
        annotations={**annotations, **node.annotations} if annotations else now.annotations,
        taints=[*(kept or ()), *more] if more else kept,
        unschedulable=cordoned,
    )


def is_restored(node: Node, saved: Saved, *, taints: bool = True) -> bool:
    return not any(missing(node, saved, taints=taints)) and not lacks_cordon(node, saved)


def lacks_cordon(node: Node, saved: Saved) -> bool:
    return saved.unschedulable and not node.spec.unschedulable


def missing(node: Node, saved: Saved, *, taints: bool = True) -> tuple[dict[str, str], dict[str, str], list[Taint]]:
    """Labels, annotations and taints that were saved and that the node does not have."""
    has = {(taint.key, taint.effect) for taint in node.spec.taints or ()}
    return (
        {key: value for key, value in (saved.labels or {}).items() if key not in node.labels},
        {key: value for key, value in (saved.annotations or {}).items() if key not in node.annotations},
        [taint for taint in (saved.taints or ()) if (taint.key, taint.effect) not in has] if taints else [],
    )
