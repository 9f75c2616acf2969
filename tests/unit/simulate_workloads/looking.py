"""What stories about workloads look at when they end: parts that are the same every time."""

from typing import Any

from defib.model.meta import Unstructured
from tests.unit.simulate_workloads.stage import Stage, ready


async def all_ready(stage: Stage, number: int) -> bool:
    pods = [pod for pod in (await stage.pods()).values() if not pod.metadata.deletion_timestamp]
    return len(pods) == number and all(ready(pod) for pod in pods)


def picked(value: dict[str, Any] | None, *names: str) -> dict[str, Any]:
    return {name: (value or {}).get(name) for name in names}


def labels_of(pod: Unstructured) -> dict[str, str]:
    """Without those that are different every time, and those that a binding copies from the node."""
    apart = ("pod-template-hash", "controller-revision-hash", "controller-uid", "batch.kubernetes.io/controller-uid")
    return {k: v for k, v in pod.labels.items() if k not in apart and not k.startswith("topology.")}


def owner_of(item: Unstructured) -> tuple[str, bool | None, bool | None]:
    (owner,) = item.metadata.owner_references or []
    return owner.kind, owner.controller, owner.block_owner_deletion
