"""The first NodeHealthCheck of a cluster that has none: for its workers, with a remediator that can do no harm."""

from datetime import datetime

import msgspec

from defib.decide.ground import CONTROL_PLANE_LABELS
from defib.model import medik8s
from defib.model.action import AddDefaultCheck, TellEvent
from defib.model.cluster import Cluster, Missing
from defib.model.health_check import KindRef, NodeHealthCheck
from defib.model.meta import Resource
from defib.model.pod_failover import DEFAULT_CHECK, REMEDIATION, TEMPLATE, default_template
from defib.model.reasons import EventReason

# Kubernetes itself would move these pods after five minutes; nothing that can be harmed is touched, so why wait as long.
PATIENCE = "30s"
MANAGED_BY = {"app.kubernetes.io/managed-by": "defib"}


class NotNeeded(msgspec.Struct, frozen=True):
    """The cluster has a NodeHealthCheck."""


class NotPossible(msgspec.Struct, frozen=True):
    why: str


def default_check(cluster: Cluster, namespace: str) -> AddDefaultCheck | NotNeeded | NotPossible | None:
    """What to do about it; None while we do not see enough to say. `namespace` is where Defib itself lives."""
    if medik8s.CHECKS in cluster.absent:
        return NotPossible(cluster.absent[medik8s.CHECKS])
    if medik8s.CHECKS not in cluster.others or any(blindness.kind == medik8s.CHECKS for blindness in cluster.blind):
        return None
    if cluster.all_of(medik8s.CHECKS, NodeHealthCheck) or any(item.kind == medik8s.CHECKS for item in cluster.unread):
        return NotNeeded()
    if TEMPLATE not in cluster.kinds or REMEDIATION not in cluster.kinds:
        return None
    why = _why_no_kind(TEMPLATE, cluster) or _why_no_kind(REMEDIATION, cluster)
    return NotPossible(why) if why else _default_check(namespace)


def _why_no_kind(kind: KindRef, cluster: Cluster) -> str:
    known = cluster.kinds[kind]
    return known.why if isinstance(known, Missing) else cluster.absent.get(known.collection, "")


def _default_check(namespace: str) -> AddDefaultCheck:
    template = default_template(namespace)
    reference = {
        "apiVersion": template.kind.api_version,
        "kind": template.kind.name,
        "namespace": template.namespace,
        "name": template.name,
    }
    workers = [{"key": label, "operator": "DoesNotExist"} for label in CONTROL_PLANE_LABELS]
    return AddDefaultCheck(
        template=template,
        template_body={
            "metadata": {
                "name": template.name,
                "labels": MANAGED_BY,
                "annotations": {medik8s.MULTIPLE_TEMPLATES: "true"},
            },
            "spec": {"template": {"spec": {}}},
        },
        check=DEFAULT_CHECK,
        check_body={
            "metadata": {"name": DEFAULT_CHECK, "labels": MANAGED_BY},
            "spec": {
                "selector": {"matchExpressions": workers},
                "unhealthyConditions": [
                    {"type": "Ready", "status": status, "duration": PATIENCE} for status in ("False", "Unknown")
                ],
                "remediationTemplate": reference,
            },
        },
    )


def news_of(check: Resource, now: datetime) -> TellEvent:
    message = (
        "the cluster had no NodeHealthCheck, so this one was created: when a worker fails, pods that can run twice "
        "leave it; change it, write others, or delete it as you like (--default-check off keeps it from coming back)"
    )
    return TellEvent(
        check=check.name,
        uid=check.uid,
        is_warning=False,
        reason=EventReason.DEFAULT_CHECK_CREATED,
        message=message,
        at=now,
    )
