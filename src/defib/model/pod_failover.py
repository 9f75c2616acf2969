"""PodFailoverRemediation: the object by which a NodeHealthCheck asks us to let the pods of a failed node run elsewhere."""

from datetime import datetime

import msgspec

from defib.model.health_check import KindRef, StatusCondition, TemplateRef
from defib.model.meta import Unstructured, Wire

API_VERSION = "defib.dev/v1alpha1"
REMEDIATION = KindRef(API_VERSION, "PodFailoverRemediation")
TEMPLATE = KindRef(API_VERSION, "PodFailoverRemediationTemplate")
FINALIZER = "defib.dev/pod-failover"
KEEP = "defib.dev/keep"  # on a pod: leave it where it is

DEFAULT_CHECK = "nhc-worker-default"
DEFAULT_TEMPLATE = "defib-pod-failover"


class FailoverStatus(Wire, frozen=True):
    """What we write down. `node_uid` and `not_ready_since` say which failure of which node it is about."""

    node: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    not_ready_since: datetime | None = None
    found: int | None = None
    moved: int | None = None
    left: int | None = None
    conditions: list[StatusCondition] | None = None

    def condition(self, kind: str) -> StatusCondition | None:
        return next((condition for condition in self.conditions or () if condition.type == kind), None)


def read_failover_status(item: Unstructured) -> FailoverStatus:
    """A status that makes no sense counts as none: what is said of it will be said anew."""
    try:
        return msgspec.convert(item.status or {}, FailoverStatus)
    except msgspec.ValidationError:
        return FailoverStatus()


def default_template(namespace: str) -> TemplateRef:
    return TemplateRef(TEMPLATE, namespace, DEFAULT_TEMPLATE)
