"""What the server fills in for built-in kinds: only what an operator can come to depend on."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from defib.simulate.kinds import crds
from defib.simulate.kinds.catalog import Served
from defib.simulate.store import Object

_POD_SPEC = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_TOLERATED_SECONDS = 300
# The real server also puts a protection finalizer on storage, which a controller takes off again. None runs here, so
# it would only make every claim undeletable.
_PENDING = {"phase": "Pending"}


def _with(value: dict[str, Any] | None, **wanted: Any) -> dict[str, Any]:
    """The value, with what it lacks."""
    return {**wanted, **(value or {})}


def _toleration(taint: str) -> dict[str, Any]:
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}


def _tolerated(taint: str, tolerations: list[dict[str, Any]]) -> bool:
    return any(t.get("key", taint) == taint and t.get("effect", "NoExecute") == "NoExecute" for t in tolerations)


def _pod(pod: Object, before: Object | None) -> Object:
    spec = _with(pod.get("spec"), **_POD_SPEC)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    tolerations = list(spec.get("tolerations") or [])
    if before is None:
        for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
            if not _tolerated(taint, tolerations):
                tolerations.append(_toleration(taint))
        spec["tolerations"] = tolerations
    whole = {**pod, "spec": spec}
    if before is None:
        whole["status"] = {"phase": "Pending", "qosClass": "BestEffort"}
    return whole


def _namespace(namespace: Object, before: Object | None) -> Object:
    meta = namespace["metadata"]
    labels = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta.get("name", "")}
    whole = {**namespace, "metadata": {**meta, "labels": labels}}
    if before is None:
        whole["spec"] = {"finalizers": ["kubernetes"]}
        whole["status"] = {"phase": "Active"}
    return whole


def _workload(workload: Object, before: Object | None) -> Object:
    spec = dict(workload.get("spec") or {})
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        spec["template"] = {**template, "spec": _with(template["spec"], **_POD_SPEC)}
    return {**workload, "spec": spec} if before else {**workload, "spec": spec, "status": {"replicas": 0}}


def _daemon_set(workload: Object, before: Object | None) -> Object:
    whole = _workload(workload, before)
    spec = {k: v for k, v in whole["spec"].items() if k != "replicas"}
    none = dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        0,
    )
    return {**whole, "spec": spec} if before else {**whole, "spec": spec, "status": none}


def _at_birth(**fields: Any) -> Callable[[Object, Object | None], Object]:
    def complete(made: Object, before: Object | None) -> Object:
        return {**made, **fields} if before is None else made

    return complete


def _claim(claim: Object, before: Object | None) -> Object:
    spec = _with(claim.get("spec"), volumeMode="Filesystem")
    return {**claim, "spec": spec} if before else {**claim, "spec": spec, "status": _PENDING}


def _volume(volume: Object, before: Object | None) -> Object:
    spec = _with(volume.get("spec"), volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    return {**volume, "spec": spec} if before else {**volume, "spec": spec, "status": _PENDING}


_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)
_NODE_STATUS = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NODE_INFO}


def _node(node: Object, _before: Object | None) -> Object:
    """Nothing a reader needs, but a JSON patch needs the parents of what it adds."""
    return {**node, "spec": node.get("spec") or {}, "status": _with(node.get("status"), **_NODE_STATUS)}


def _lease(lease: Object, _before: Object | None) -> Object:
    return lease if "spec" in lease else {**lease, "spec": {}}


def _storage_class(made: Object, _before: Object | None) -> Object:
    return _with(made, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _definition(definition: Object, _before: Object | None) -> Object:
    return crds.completed(definition)


def _secret(secret: Object, _before: Object | None) -> Object:
    plain = secret.get("stringData")
    whole = _with({k: v for k, v in secret.items() if k != "stringData"}, type="Opaque")
    if plain:
        coded = {k: b64encode(v.encode()).decode() for k, v in plain.items()}
        whole["data"] = {**(whole.get("data") or {}), **coded}
    return whole


_NO_BUDGET = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

_COMPLETE: dict[str, Callable[[Object, Object | None], Object]] = {
    "nodes": _node,
    "secrets": _secret,
    "leases.coordination.k8s.io": _lease,
    "pods": _pod,
    "namespaces": _namespace,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "deployments.apps": _workload,
    "statefulsets.apps": _workload,
    "replicasets.apps": _workload,
    "replicationcontrollers": _workload,
    "daemonsets.apps": _daemon_set,
    "poddisruptionbudgets.policy": _at_birth(status=_NO_BUDGET),
    "volumeattachments.storage.k8s.io": _at_birth(status={"attached": False}),
    "storageclasses.storage.k8s.io": _storage_class,
    crds.DEFINITIONS: _definition,
}


def completed(served: Served, proposed: Object, before: Object | None) -> Object:
    complete = _COMPLETE.get(served.resource)
    return complete(proposed, before) if complete else proposed
