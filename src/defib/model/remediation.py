"""A remediation: the object by which a NodeHealthCheck asks a remediator to mend a node."""

from datetime import datetime

import msgspec

from defib.model import medik8s
from defib.model.health_check import KindRef
from defib.model.meta import Unstructured

SILENT_SINCE = "defib.dev/silent-since"  # on what the fast path began: which renewal of its heartbeat was the last
SILENT_BECAUSE = "defib.dev/silent-because"  # and what everybody said who was asked after it, for people


class Remediation(msgspec.Struct, frozen=True, kw_only=True):
    """What we read of it. `owner` is the NodeHealthCheck that made it, if one did."""

    kind: KindRef
    namespace: str
    name: str
    uid: str
    version: str
    node: str
    template: str
    owner: str
    created: datetime | None
    deleting_since: datetime | None
    annotations: dict[str, str]
    labels: dict[str, str]
    conditions: dict[str, str]

    @property
    def is_deleting(self) -> bool:
        return self.deleting_since is not None

    @property
    def succeeded(self) -> str:
        """`True`, `False`, or empty while nobody has said."""
        return self.conditions.get(medik8s.SUCCEEDED, "")

    @property
    def waits_for_node_deletion(self) -> bool:
        """Its machine is being replaced: the node goes on purpose, and the remediator is not done."""
        return self.conditions.get(medik8s.PERMANENT_DELETION) == "True" and self.succeeded != "True"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def __str__(self) -> str:
        return f"{self.kind.name} {self.key}"


def read_remediation(item: Unstructured, kind: KindRef) -> Remediation:
    """Whatever a remediator wrote, this can be read; what makes no sense counts as not said."""
    meta = item.metadata
    owners = [
        owner.name
        for owner in meta.owner_references or ()
        if owner.kind == medik8s.CHECK_KIND and owner.api_version == medik8s.API_VERSION
    ]
    return Remediation(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        node=item.annotations.get(medik8s.NODE_NAME) or meta.name,
        template=item.annotations.get(medik8s.TEMPLATE_NAME, ""),
        owner=owners[0] if owners else "",
        created=meta.creation_timestamp,
        deleting_since=meta.deletion_timestamp,
        annotations=item.annotations,
        labels=item.labels,
        conditions=_conditions(item.status),
    )


def _conditions(status: object) -> dict[str, str]:
    listed = status.get("conditions") if isinstance(status, dict) else None
    return {
        condition["type"]: condition["status"]
        for condition in (listed if isinstance(listed, list) else ())
        if isinstance(condition, dict)
        and isinstance(condition.get("type"), str)
        and isinstance(condition.get("status"), str)
    }
