"""What the status says of a node's remediations, and how times, targets and locks are written down."""

from datetime import datetime

from defib.decide.course import has_timed_out, record_of, remediation_of
from defib.decide.view import View
from defib.model import medik8s
from defib.model.action import MarkRemediation, ReleaseLock, Target
from defib.model.health_check import ObjectRef, StartedRemediation
from defib.model.moment import read_moment
from defib.model.node import Lease
from defib.model.remediation import Remediation


def started(view: View, node: str, over: Remediation | None = None) -> list[StartedRemediation] | None:
    """What has been begun for a node: what is there, and what has run out of time even if it is gone.

    `over` is the one whose time is up as of now.
    """
    found: list[StartedRemediation] = []
    for step in view.check.steps:
        record = record_of(view, node, step)
        there = remediation_of(view, node, step)
        timed_out = record.timed_out if record is not None else None
        if there is not None:
            if there is over or (timed_out is None and has_timed_out(view, node, step, there)):
                timed_out = read_moment(there.annotations.get(medik8s.TIMED_OUT, "")) or view.now
            found.append(_entry_of(there, step.template.name, timed_out))
        elif record is not None and timed_out is not None:
            found.append(record)
    listed = {entry.resource.uid for entry in found}
    # Made by an earlier version of the check: still ours to end.
    found += (_entry_of(r, "", None) for r in view.remediations(node) if r.uid not in listed)
    return found or None


def _entry_of(there: Remediation, template: str, timed_out: datetime | None) -> StartedRemediation:
    resource = ObjectRef(
        api_version=there.kind.api_version,
        kind=there.kind.name,
        namespace=there.namespace,
        name=there.name,
        uid=there.uid,
    )
    return StartedRemediation(
        resource=resource, started=there.created, timed_out=timed_out, template_name=template or there.template
    )


def mark(remediation: Remediation, annotations: dict[str, str | None]) -> MarkRemediation:
    return MarkRemediation(node=remediation.node, target=target(remediation), annotations=annotations)


def target(remediation: Remediation) -> Target:
    return Target(kind=remediation.kind, namespace=remediation.namespace, name=remediation.name, uid=remediation.uid)


def release(node: str, lease: Lease) -> ReleaseLock:
    meta = lease.metadata
    return ReleaseLock(
        node=node,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        holder=lease.spec.holder_identity or "",
    )


def stamp(moment: datetime) -> str:
    """As Kubernetes writes times: whole seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_exactly(moment: datetime) -> str:
    """With microseconds, as Leases have them."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
