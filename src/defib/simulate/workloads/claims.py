"""Questions about claims, volumes and storage classes."""

from functools import lru_cache
from typing import Any

from defib.simulate.store import Object
from defib.simulate.workloads.sight import Sight

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CLASSES = "storageclasses.storage.k8s.io"

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
_SHARED = ("ReadWriteMany", "ReadOnlyMany")

_FACTORS = {
    "": 1.0,
    "m": 1e-3,
    **{letter: 1000.0**power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)},
}


@lru_cache(maxsize=1024)
def quantity(text: str | float) -> float:
    """`500m`, `2`, `10Gi`, as a number."""
    said = str(text)
    digits = said.rstrip("kKMGTPEim")
    return float(digits) * _FACTORS[said[len(digits) :]]


def annotation(stored: Object, name: str) -> str:
    found: str = (stored["metadata"].get("annotations") or {}).get(name, "")
    return found


def is_bound(claim: Object) -> bool:
    """Both ends know of each other."""
    return bool(claim["spec"].get("volumeName")) and bool(annotation(claim, BIND_COMPLETED))


def volume_of(sight: Sight, claim: Object) -> Object | None:
    """The volume a claim is bound to, if the volume agrees."""
    if not is_bound(claim):
        return None
    volume = sight.get(VOLUMES, claim["spec"]["volumeName"])
    return volume if volume and claimed_by(volume, claim) else None


def claimed_by(volume: Object, claim: Object) -> bool:
    """A reference without a UID is a wish for any claim of that name."""
    reference = volume["spec"].get("claimRef")
    meta = claim["metadata"]
    if not reference or (reference.get("namespace"), reference.get("name")) != (meta["namespace"], meta["name"]):
        return False
    return reference.get("uid") in (None, "", meta["uid"])


def class_of(sight: Sight, claim: Object) -> Object | None:
    name = claim["spec"].get("storageClassName")
    return sight.get(CLASSES, name) if name else None


def waits_for_consumer(sight: Sight, claim: Object) -> bool:
    found = class_of(sight, claim)
    return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"


def provisioner_of(sight: Sight, claim: Object) -> str:
    """Who makes volumes for a claim; empty when nobody does."""
    found = class_of(sight, claim)
    name: str = found.get("provisioner", "") if found else ""
    return "" if name == NO_PROVISIONER else name


def is_exclusive(volume: Object) -> bool:
    """Whether one node at a time may have it."""
    modes = volume["spec"].get("accessModes") or []
    return bool(modes) and not any(mode in _SHARED for mode in modes)


def satisfies(volume: Object, claim: Object) -> bool:
    """Whether a free volume is what a claim asks for. Where it is, is the scheduler's business."""
    offered, asked = volume["spec"], claim["spec"]
    if (offered.get("storageClassName") or "") != (asked.get("storageClassName") or ""):
        return False
    if offered.get("volumeMode", "Filesystem") != asked.get("volumeMode", "Filesystem"):
        return False
    if not set(asked.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return False
    labels = volume["metadata"].get("labels") or {}
    wanted: dict[str, Any] = (asked.get("selector") or {}).get("matchLabels") or {}
    return wanted.items() <= labels.items() and size_of(volume) >= _asked_size(claim)


def size_of(volume: Object) -> float:
    return quantity((volume["spec"].get("capacity") or {}).get("storage", "0"))


def _asked_size(claim: Object) -> float:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return quantity(requests.get("storage", "0"))


def best_match(sight: Sight, claim: Object) -> Object | None:
    """The volume that was promised to the claim, else the smallest free one that will do."""
    free = []
    for volume in sight.all(VOLUMES):
        if volume["metadata"].get("deletionTimestamp"):
            continue
        if claimed_by(volume, claim):
            return volume
        if not volume["spec"].get("claimRef") and satisfies(volume, claim):
            free.append(volume)
    return min(free, key=lambda one: (size_of(one), one["metadata"]["name"]), default=None)
