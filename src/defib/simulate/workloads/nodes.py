"""Questions that controllers ask about nodes: are they ready, what keeps pods away from them, does a pod fit there."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from defib.simulate.store import Object

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
KEEPS_AWAY = (NO_SCHEDULE, NO_EXECUTE)

_Labels = Mapping[str, str]


def ready_status(node: Object) -> str:
    """True, False or Unknown; empty when it never said."""
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            status: str = condition["status"]
            return status
    return ""


def is_ready(node: Object) -> bool:
    return ready_status(node) == "True"


def taints_of(node: Object) -> list[dict[str, Any]]:
    return (node.get("spec") or {}).get("taints") or []


def out_of_service(node: Object) -> bool:
    """The key alone decides, whatever its value and effect."""
    return any(taint["key"] == OUT_OF_SERVICE for taint in taints_of(node))


def effective_taints(node: Object) -> list[dict[str, Any]]:
    """With those that the node lifecycle controller is about to set for what the node says of itself."""
    implied = []
    if (node.get("spec") or {}).get("unschedulable"):
        implied.append({"key": UNSCHEDULABLE, "effect": NO_SCHEDULE})
    status = ready_status(node)
    if status != "True":
        implied.append({"key": UNREACHABLE if status == "Unknown" else NOT_READY, "effect": NO_SCHEDULE})
    return [*taints_of(node), *implied]


def tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def untolerated(
    taints: list[dict[str, Any]], tolerations: list[dict[str, Any]], effects: Collection[str] = KEEPS_AWAY
) -> dict[str, Any] | None:
    """The first taint of these effects that a pod does not tolerate."""
    for taint in taints:
        if taint["effect"] in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def wanted_by(spec: Object, node: Object) -> bool:
    """Whether a pod's node selector and its required node affinity accept a node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return in_terms(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), node)


def in_terms(selector: Object | None, node: Object) -> bool:
    """A node selector: one of its terms must hold. None accepts every node."""
    if selector is None:
        return True
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def _term(term: Object, node: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    labels = node["metadata"].get("labels") or {}
    named = {"metadata.name": node["metadata"]["name"]}
    return all(_holds(one, labels) for one in expressions) and all(_holds(one, named) for one in fields)


_COMPARED: dict[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: value is not None and int(value) > int(values[0]),
    "Lt": lambda value, values: value is not None and int(value) < int(values[0]),
}


def _holds(expression: Object, labels: _Labels) -> bool:
    return _COMPARED[expression["operator"]](labels.get(expression["key"]), expression.get("values") or [])


def matters(before: Object, now: Object) -> bool:
    """Whether a node changed in anything a controller looks at. A heartbeat does not."""
    if before.get("spec") != now.get("spec") or before["metadata"].get("labels") != now["metadata"].get("labels"):
        return True
    if before["metadata"].get("annotations") != now["metadata"].get("annotations"):
        return True
    old, new = before.get("status") or {}, now.get("status") or {}
    if ready_status(before) != ready_status(now):
        return True
    return any(old.get(name) != new.get(name) for name in ("allocatable", "volumesInUse", "volumesAttached"))
