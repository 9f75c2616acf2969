"""The fields that metadata can have, wherever it appears."""

from typing import Any

_KNOWN = frozenset(
    (
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    )
)


def known_only(meta: dict[str, Any]) -> dict[str, Any]:
    """Metadata is typed: what it does not have is dropped, as are empty lists and maps."""
    if meta.keys() <= _KNOWN and all(meta.values()):
        return meta
    return {k: v for k, v in meta.items() if k in _KNOWN and (v or v == 0)}
