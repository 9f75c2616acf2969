"""The first NodeHealthCheck of a cluster that has none: for its workers, with a remediator that every cluster has.

Pods that can run twice are moved; or, where agents are installed, nodes take themselves down and all that they had is freed.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from defib.decide.ground import CONTROL_PLANE_LABELS
from defib.model import medik8s, pod_failover, self_fencing
from defib.model.action import AddDefaultCheck, TellEvent
from defib.model.cluster import Cluster, Missing
from defib.model.health_check import KindRef, NodeHealthCheck, TemplateRef
from defib.model.incident import Grade
from defib.model.meta import Resource
from defib.model.pod_failover import DEFAULT_CHECK
from defib.model.reasons import EventReason

MANAGED_BY = {"app.kubernetes.io/managed-by": "defib"}


class Default(msgspec.Struct, frozen=True, kw_only=True):
    """By which remediation, how long a node may have failed before, and what it does, for a person."""

    template: KindRef
    name: str
    spec: dict[str, Any]
    patience: str
    does: str
    annotations: dict[str, str] = {}

    def template_in(self, namespace: str) -> TemplateRef:
        return TemplateRef(self.template, namespace, self.name)


DEFAULTS: Mapping[str, Default] = MappingProxyType(
    {
        "on": Default(
            template=pod_failover.TEMPLATE,
            name=pod_failover.DEFAULT_TEMPLATE,
            spec={},
            # Kubernetes itself would move these pods after five minutes; nothing that can be harmed is touched, so why wait.
            patience="30s",
            does="pods that can run twice leave it",
            annotations={medik8s.MULTIPLE_TEMPLATES: "true"},
        ),
        "self-fence": Default(
            template=self_fencing.TEMPLATE,
            name=self_fencing.DEFAULT_TEMPLATE,
            spec={"acceptedProofs": [Grade.TIME.value, Grade.PERSON.value]},
            patience="120s",  # longer than a kubelet takes to start anew: here a whole machine does
            does="its agent takes it down, and all that it had is freed",
        ),
    }
)


class NotNeeded(msgspec.Struct, frozen=True):
    """The cluster has a NodeHealthCheck."""


class NotPossible(msgspec.Struct, frozen=True):
    why: str


def default_check(
    cluster: Cluster, namespace: str, default: Default = DEFAULTS["on"]
) -> AddDefaultCheck | NotNeeded | NotPossible | None:
    """What to do about it; None while we do not see enough to say. `namespace` is where Defib itself lives."""
    if medik8s.CHECKS in cluster.absent:
        return NotPossible(cluster.absent[medik8s.CHECKS])
    if medik8s.CHECKS not in cluster.others or any(blindness.kind == medik8s.CHECKS for blindness in cluster.blind):
        return None
    if cluster.all_of(medik8s.CHECKS, NodeHealthCheck) or any(item.kind == medik8s.CHECKS for item in cluster.unread):
        return NotNeeded()
    template = default.template_in(namespace)
    if template.kind not in cluster.kinds or template.makes not in cluster.kinds:
        return None
    why = _why_no_kind(template.kind, cluster) or _why_no_kind(template.makes, cluster)
    return NotPossible(why) if why else _default_check(default, template)


def _why_no_kind(kind: KindRef, cluster: Cluster) -> str:
    known = cluster.kinds[kind]
    return known.why if isinstance(known, Missing) else cluster.absent.get(known.collection, "")


def _default_check(default: Default, template: TemplateRef) -> AddDefaultCheck:
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
            "metadata": {"name": template.name, "labels": MANAGED_BY, "annotations": default.annotations},
            "spec": {"template": {"spec": default.spec}},
        },
        check=DEFAULT_CHECK,
        check_body={
            "metadata": {"name": DEFAULT_CHECK, "labels": MANAGED_BY},
            "spec": {
                "selector": {"matchExpressions": workers},
                "unhealthyConditions": [
                    {"type": "Ready", "status": status, "duration": default.patience} for status in ("False", "Unknown")
                ],
                "remediationTemplate": reference,
            },
        },
    )


def news_of(default: Default, check: Resource, now: datetime) -> TellEvent:
    message = (
        f"the cluster had no NodeHealthCheck, so this one was created: when a worker fails, {default.does}; change it, "
        "write others, or delete it as you like (--default-check off keeps it from coming back)"
    )
    return TellEvent(
        check=check.name,
        uid=check.uid,
        is_warning=False,
        reason=EventReason.DEFAULT_CHECK_CREATED,
        message=message,
        at=now,
    )
