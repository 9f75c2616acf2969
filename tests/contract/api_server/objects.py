"""Kinds and sample objects of the contract suite: the smallest ones that a real API server accepts."""

from typing import Any

from defib.kube.kinds import Kind, unstructured
from defib.model.meta import Resource

Body = dict[str, Any]


class ConfigMap(Resource, frozen=True):
    data: dict[str, str] | None = None


CONFIG_MAPS = Kind(version="v1", plural="configmaps", name="ConfigMap", namespaced=True, type=ConfigMap)
NAMESPACES = unstructured("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = unstructured("", "v1", "pods", "Pod", namespaced=True)
EVENTS = unstructured("", "v1", "events", "Event", namespaced=True)
BUDGETS = unstructured("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
DEPLOYMENTS = unstructured("apps", "v1", "deployments", "Deployment", namespaced=True)
CRDS = unstructured(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


def a_config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Body:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def a_pod(name: str, *, node: str = "", labels: dict[str, str] | None = None, grace: int = 30) -> Body:
    spec: Body = {
        "containers": [{"name": "app", "image": "app:1"}],
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
    }
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec | ({"nodeName": node} if node else {})}


def pod_status(phase: str, *, ready: bool) -> Body:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {"status": {"phase": phase, "conditions": conditions}}


def a_budget(name: str, labels: dict[str, str], *, unhealthy_policy: str = "") -> Body:
    spec: Body = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    if unhealthy_policy:
        spec["unhealthyPodEvictionPolicy"] = unhealthy_policy
    return {"metadata": {"name": name}, "spec": spec}


def a_deployment(name: str, replicas: int) -> Body:
    labels = {"app": name}
    pod = {"containers": [{"name": "app", "image": "app:1"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


GADGET_SPEC: Body = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "share": {"x-kubernetes-int-or-string": True},
        "owner": {"type": "string", "nullable": True},
        "since": {"type": "string", "format": "date-time"},
        "replicas": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "x-kubernetes-list-type": "set"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}},
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "number": {"type": "integer"}},
            },
        },
    },
}

GADGET_STATUS: Body = {
    "type": "object",
    "properties": {
        "phase": {"type": "string", "enum": ["Up", "Down"]},
        "replicas": {"type": "integer"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}


def gadget_version(name: str, *, storage: bool, subresources: bool = True) -> Body:
    schema = {"type": "object", "properties": {"spec": GADGET_SPEC, "status": GADGET_STATUS}}
    version: Body = {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
        ],
    }
    if subresources:
        scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        version["subresources"] = {"status": {}, "scale": scale}
    return version


def gadget_crd(group: str, *versions: Body, scope: str = "Namespaced") -> Body:
    names = {
        "plural": "gadgets",
        "singular": "gadget",
        "kind": "Gadget",
        "listKind": "GadgetList",
        "shortNames": ["gdg"],
    }
    return {
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": scope,
            "versions": list(versions) or [gadget_version("v1", storage=True)],
        },
    }


def a_gadget(name: str, **spec: Any) -> Body:
    return {"metadata": {"name": name}, "spec": {"size": 1, **spec}}
