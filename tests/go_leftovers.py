"""What the Go operator of medik8s has written by the time somebody stops it: bodies in its own shape, field for field.

Its newer releases say on each remediation of which node and template it is; older ones only gave it the node's name.
"""

from datetime import datetime
from typing import Any

from defib.model import medik8s

Body = dict[str, Any]


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def exact(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def owner(check: str, uid: str) -> Body:
    return {"apiVersion": medik8s.API_VERSION, "kind": medik8s.CHECK_KIND, "name": check, "uid": uid}


def a_remedy(node: str, template: str, owned_by: Body, *, suffix: str = "") -> Body:
    """With a suffix, its template allows several of its kind, and the API server has made up the name."""
    meta: Body = {
        "name": f"{node}-{suffix}" if suffix else node,
        "labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller"},
        "annotations": {medik8s.NODE_NAME: node, medik8s.TEMPLATE_NAME: template},
        "ownerReferences": [owned_by | {"controller": False}],
    }
    if suffix:
        meta["generateName"] = f"{node}-"
    return {"metadata": meta, "spec": {"from": template}}


def an_old_remedy(node: str, template: str, owned_by: Body) -> Body:
    return {"metadata": {"name": node, "ownerReferences": [owned_by]}, "spec": {"from": template}}


def a_lock(node: str, node_uid: str, check: str, *, acquired: datetime, renewed: datetime, seconds: int) -> Body:
    spec = {
        "holderIdentity": f"NodeHealthCheck-{check}",
        "leaseDurationSeconds": seconds,
        "acquireTime": exact(acquired),
        "renewTime": exact(renewed),
        "leaseTransitions": 0,
    }
    node_ref = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return {"metadata": {"name": f"node-{node}", "ownerReferences": [node_ref]}, "spec": spec}


def a_record(made: Body, *, timed_out: datetime | None = None) -> Body:
    """What the status says of a remediation, which is given as the API server has it."""
    meta = made["metadata"]
    resource = {
        "apiVersion": made["apiVersion"],
        "kind": made["kind"],
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    record: Body = {"resource": resource, "started": meta["creationTimestamp"]}
    if template := meta.get("annotations", {}).get(medik8s.TEMPLATE_NAME):
        record["templateName"] = template
    return record | ({"timedOut": stamp(timed_out)} if timed_out else {})


def a_status(nodes: dict[str, list[Body]], *, observed: int, at: datetime) -> Body:
    """Each unhealthy node with its records."""
    enabled = {
        "type": "Disabled",
        "status": "False",
        "reason": "NodeHealthCheckEnabled",
        "message": "No issues found, NodeHealthCheck is enabled.",
        "lastTransitionTime": stamp(at),
    }
    unhealthy = [{"name": name, "remediations": records} for name, records in nodes.items()]
    return {
        "observedNodes": observed,
        "healthyNodes": observed - len(nodes),
        "unhealthyNodes": unhealthy,
        "conditions": [enabled],
        "phase": "Remediating",
        "reason": f"NHC is remediating {len(nodes)} nodes",
        "lastUpdateTime": stamp(at),
    }
