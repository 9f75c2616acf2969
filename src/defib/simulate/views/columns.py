"""The columns of built-in kinds, as data: what they are called, and what stands in them."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from defib.simulate.store import Object

AgeOf = Callable[[str | None], str]
Cells = Callable[[Object, AgeOf], list[Any]]
DETAIL = 1  # shown with `-o wide` only

_NONE, _UNKNOWN = "<none>", "<unknown>"
_ROLE = "node-role.kubernetes.io/"


class Heading(msgspec.Struct, frozen=True):
    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""

    def definition(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


def _headings(*names: str) -> list[Heading]:
    """`-Name` is a detail; the first is the name of the object."""
    first, *rest = names
    made = [Heading(n.lstrip("-"), priority=DETAIL if n.startswith("-") else 0) for n in rest]
    return [Heading(first, format="name"), *made]


def _condition(stored: Object, kind: str) -> str:
    conditions = (stored.get("status") or {}).get("conditions") or ()
    return next((c["status"] for c in conditions if c["type"] == kind), "Unknown")


def _born(stored: Object) -> str | None:
    born = stored["metadata"].get("creationTimestamp")
    return str(born) if born else None


def _node(node: Object, age_of: AgeOf) -> list[Any]:
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    state = {"True": "Ready", "False": "NotReady"}.get(_condition(node, "Ready"), "Unknown")
    if state == "Unknown" and any(c["type"] == "Ready" for c in status.get("conditions") or ()):
        state = "NotReady"
    if spec.get("unschedulable"):
        state += ",SchedulingDisabled"
    roles = sorted(label.removeprefix(_ROLE) for label in meta.get("labels") or {} if label.startswith(_ROLE))
    info = status.get("nodeInfo") or {}
    addresses = {a["type"]: a["address"] for a in reversed(status.get("addresses") or [])}
    return [
        meta["name"],
        state,
        ",".join(roles) or _NONE,
        age_of(_born(node)),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", _NONE),
        addresses.get("ExternalIP", _NONE),
        info.get("osImage") or _UNKNOWN,
        info.get("kernelVersion") or _UNKNOWN,
        info.get("containerRuntimeVersion") or _UNKNOWN,
    ]


def _pod(pod: Object, age_of: AgeOf) -> list[Any]:
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    state = status.get("reason") or status.get("phase", "")
    if meta.get("deletionTimestamp"):
        state = _UNKNOWN if status.get("reason") == "NodeLost" else "Terminating"
    return [
        meta["name"],
        f"{sum(bool(c.get('ready')) for c in containers)}/{len(spec.get('containers') or ())}",
        state,
        str(sum(c.get("restartCount", 0) for c in containers)),
        age_of(_born(pod)),
        status.get("podIP") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        _NONE,
    ]


def _lease(lease: Object, age_of: AgeOf) -> list[Any]:
    holder = (lease.get("spec") or {}).get("holderIdentity") or ""
    return [lease["metadata"]["name"], holder, age_of(_born(lease))]


def _event(event: Object, age_of: AgeOf) -> list[Any]:
    about = event.get("involvedObject") or {}
    source = event.get("source") or {}
    last = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return [
        age_of(last),
        event.get("type", ""),
        event.get("reason", ""),
        f"{about.get('kind', '').lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        ", ".join(part for part in (source.get("component"), source.get("host")) if part),
        (event.get("message") or "").strip(),
        age_of(event.get("firstTimestamp") or event.get("eventTime")),
        event.get("count", 1),
        event["metadata"]["name"],
    ]


def _namespace(namespace: Object, age_of: AgeOf) -> list[Any]:
    phase = (namespace.get("status") or {}).get("phase", "")
    return [namespace["metadata"]["name"], phase, age_of(_born(namespace))]


def _config_map(stored: Object, age_of: AgeOf) -> list[Any]:
    return [stored["metadata"]["name"], len(stored.get("data") or {}), age_of(_born(stored))]


def _replicas(stored: Object) -> tuple[int, dict[str, Any]]:
    return (stored.get("spec") or {}).get("replicas", 0), stored.get("status") or {}


def _deployment(stored: Object, age_of: AgeOf) -> list[Any]:
    wanted, status = _replicas(stored)
    ready = f"{status.get('readyReplicas', 0)}/{wanted}"
    counts = [str(status.get("updatedReplicas", 0)), str(status.get("availableReplicas", 0))]
    return [stored["metadata"]["name"], ready, *counts, age_of(_born(stored))]


def _stateful_set(stored: Object, age_of: AgeOf) -> list[Any]:
    wanted, status = _replicas(stored)
    return [stored["metadata"]["name"], f"{status.get('readyReplicas', 0)}/{wanted}", age_of(_born(stored))]


def _replica_set(stored: Object, age_of: AgeOf) -> list[Any]:
    wanted, status = _replicas(stored)
    counts = [wanted, status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [stored["metadata"]["name"], *counts, age_of(_born(stored))]


def _budget(stored: Object, age_of: AgeOf) -> list[Any]:
    spec = stored.get("spec") or {}
    limits = [str(spec.get("minAvailable", "N/A")), str(spec.get("maxUnavailable", "N/A"))]
    allowed = (stored.get("status") or {}).get("disruptionsAllowed", 0)
    return [stored["metadata"]["name"], *limits, allowed, age_of(_born(stored))]


def _attachment(stored: Object, age_of: AgeOf) -> list[Any]:
    spec = stored.get("spec") or {}
    volume = (spec.get("source") or {}).get("persistentVolumeName", "")
    attached = (stored.get("status") or {}).get("attached", False)
    return [
        stored["metadata"]["name"],
        spec.get("attacher"),
        volume,
        spec.get("nodeName"),
        attached,
        age_of(_born(stored)),
    ]


def _definition(stored: Object, _age_of: AgeOf) -> list[Any]:
    return [stored["metadata"]["name"], _born(stored)]


_NODE = ("Name", "Status", "Roles", "Age", "Version")
_NODE_DETAILS = ("-Internal-IP", "-External-IP", "-OS-Image", "-Kernel-Version", "-Container-Runtime")
_POD = ("Name", "Ready", "Status", "Restarts", "Age", "-IP", "-Node", "-Nominated Node", "-Readiness Gates")
_EVENT = (
    *(Heading(name) for name in ("Last Seen", "Type", "Reason", "Object")),
    *(Heading(name, priority=DETAIL) for name in ("Subobject", "Source")),
    Heading("Message"),
    *(Heading(name, priority=DETAIL) for name in ("First Seen", "Count")),
    Heading("Name", format="name", priority=DETAIL),
)

BUILTIN: dict[str, tuple[Sequence[Heading], Cells]] = {
    "nodes": (_headings(*_NODE, *_NODE_DETAILS), _node),
    "pods": (_headings(*_POD), _pod),
    "leases.coordination.k8s.io": (_headings("Name", "Holder", "Age"), _lease),
    "events": (_EVENT, _event),
    "namespaces": (_headings("Name", "Status", "Age"), _namespace),
    "configmaps": (_headings("Name", "Data", "Age"), _config_map),
    "deployments.apps": (_headings("Name", "Ready", "Up-to-date", "Available", "Age"), _deployment),
    "statefulsets.apps": (_headings("Name", "Ready", "Age"), _stateful_set),
    "replicasets.apps": (_headings("Name", "Desired", "Current", "Ready", "Age"), _replica_set),
    "poddisruptionbudgets.policy": (
        _headings("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"),
        _budget,
    ),
    "volumeattachments.storage.k8s.io": (_headings("Name", "Attacher", "PV", "Node", "Attached", "Age"), _attachment),
    "customresourcedefinitions.apiextensions.k8s.io": (_headings("Name", "Created At"), _definition),
}
