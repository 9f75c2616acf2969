"""Questions that controllers ask about pods, and how they make one from a template."""

import zlib
from datetime import datetime
from typing import Any

import msgspec

from defib.simulate.evicting import ready
from defib.simulate.kinds import metadata
from defib.simulate.store import Object
from defib.simulate.workloads.nodes import NOT_READY, UNREACHABLE

__all__ = ["active", "finished", "from_template", "mark", "phase", "ready", "running_and_ready", "stopped"]

_HASH_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_STOPPED_STATES = ("terminated", "waiting")


def phase(pod: Object) -> str:
    found: str = (pod.get("status") or {}).get("phase", "")
    return found


def terminating(stored: Object) -> bool:
    return bool(stored["metadata"].get("deletionTimestamp"))


def finished(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def active(pod: Object) -> bool:
    """Neither ended nor on its way out."""
    return not finished(pod) and not terminating(pod)


def running_and_ready(pod: Object) -> bool:
    return phase(pod) == "Running" and ready(pod)


def stopped(pod: Object) -> bool:
    """Whether its volumes count as let go: it ended, or it is being deleted and no container is known to run."""
    if finished(pod):
        return True
    status = pod.get("status") or {}
    lists = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    containers = [container for name in lists for container in status.get(name) or ()]
    return terminating(pod) and all(
        any(state in (container.get("state") or {}) for state in _STOPPED_STATES) for container in containers
    )


def mark(pod: Object, kind: str, now: datetime, **said: str) -> list[dict[str, Any]]:
    """The conditions of a pod with one more or another one; its time moves only when its status does."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    old: dict[str, str] = next((c for c in conditions if c["type"] == kind), {})
    unmoved = old.get("status") == said["status"] and "lastTransitionTime" in old
    since = old["lastTransitionTime"] if unmoved else metadata.stamp(now)
    made = {"type": kind, **said, "lastTransitionTime": since}
    if not old:
        return [*conditions, made]
    return [made if c["type"] == kind else c for c in conditions]


def hash_of(template: Object) -> str:
    """The same for the same template, as pod-template-hash needs it; not the same letters as the real one's."""
    number = zlib.crc32(msgspec.json.encode(template, order="deterministic"))
    text = ""
    while number:
        number, digit = divmod(number, len(_HASH_LETTERS))
        text += _HASH_LETTERS[digit]
    return text or _HASH_LETTERS[0]


def owned_by(kind: str, api_version: str, owner: Object) -> list[dict[str, Any]]:
    """The reference that makes an object the controller of another."""
    meta = owner["metadata"]
    return [
        {
            "apiVersion": api_version,
            "kind": kind,
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def from_template(kind: str, api_version: str, owner: Object, tolerated_seconds: int) -> Object:
    """A pod as the owner's template wants it. Whether it has a name or only the beginning of one is the caller's say."""
    template = owner["spec"]["template"]
    told = template.get("metadata") or {}
    kept = {name: dict(told[name]) for name in ("labels", "annotations") if told.get(name)}
    meta: Object = {
        **kept,
        "namespace": owner["metadata"]["namespace"],
        "generateName": f"{owner['metadata']['name']}-",
        "ownerReferences": owned_by(kind, api_version, owner),
    }
    spec = dict(template["spec"])
    spec["tolerations"] = _patient(spec.get("tolerations") or [], tolerated_seconds)
    return {"metadata": meta, "spec": spec}


def _patient(tolerations: list[dict[str, Any]], seconds: int) -> list[dict[str, Any]]:
    """With those that admission gives to a pod which says nothing about lost nodes."""
    missing = [
        key
        for key in (NOT_READY, UNREACHABLE)
        if not any(t.get("key") in (None, "", key) and t.get("effect") in (None, "", "NoExecute") for t in tolerations)
    ]
    added = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} for key in missing]
    return [*tolerations, *added]
