"""Everything that can be done to the cluster, and nothing else. Each carries what must still be true when it is done."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from defib.model.health_check import KindRef, TemplateRef
from defib.model.lock import Claim


class Because(msgspec.Struct, frozen=True):
    """The node condition that made a node unhealthy. Whoever acts on it looks whether it is still so."""

    type: str
    status: str
    since: datetime | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of one remediation."""

    kind: KindRef
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.name} {self.name}"


class StartRemediation(msgspec.Struct, frozen=True, kw_only=True):
    """Read the node live, take its lock, create the remediation. `machine` (namespace/name) becomes an owner too."""

    check: str
    node: str
    node_uid: str
    because: Because
    kind: KindRef
    namespace: str
    body: dict[str, Any]
    claim: Claim
    machine: str = ""

    @property
    def key(self) -> str:
        return f"{to_start(self.check, self.node)} by {self.kind.name} {self.body['metadata']['name']}"


def to_start(check: str, node: str) -> str:
    """What the key begins with, by whichever kind a node is to be remediated. A space ends it: names have none."""
    return f"remediate {node} for {check}"


class EndRemediation(msgspec.Struct, frozen=True, kw_only=True):
    """Delete a remediation whose node is well again, or gone. `unless` are the conditions that would make it ill."""

    check: str
    node: str
    target: Target
    unless: tuple[tuple[str, str], ...] = ()
    node_is_gone: bool = False

    @property
    def key(self) -> str:
        return f"end {self.target.uid}"


class MarkRemediation(msgspec.Struct, frozen=True, kw_only=True):
    """Set annotations on a remediation; None takes one away."""

    node: str
    target: Target
    annotations: dict[str, str | None]

    @property
    def key(self) -> str:
        return f"mark {self.target.uid}"


class HoldLock(msgspec.Struct, frozen=True, kw_only=True):
    """Take or renew the lock of a node that is being remediated."""

    claim: Claim

    @property
    def key(self) -> str:
        return f"lock {self.claim.node}"


class ReleaseLock(msgspec.Struct, frozen=True, kw_only=True):
    """Give a lock back, in the very version that we know to be ours."""

    node: str
    namespace: str
    name: str
    uid: str
    version: str

    @property
    def key(self) -> str:
        return f"lock {self.node}"


class ClearNodeAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """Remove an annotation by which a person told us something that is settled now, if it still says the same."""

    node: str
    node_uid: str
    annotation: str
    value: str

    @property
    def key(self) -> str:
        return f"clear {self.annotation} of {self.node}"


class TellEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Say something once. `about` is the NodeHealthCheck; the same news at the same moment is one event."""

    check: str
    uid: str
    is_warning: bool
    reason: str
    message: str
    at: datetime

    @property
    def key(self) -> str:
        return f"event {self.check} {self.reason} {self.message}"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A remediation that is over, and how long its node was unhealthy."""

    node: str
    namespace: str
    kind: str
    seconds: float


class WriteStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Merge into the status of a NodeHealthCheck, if it is still the version that was judged."""

    check: str
    uid: str
    version: str
    status: dict[str, Any]
    tells: tuple[TellEvent, ...] = ()  # once it is written, so that status and events say the same, once
    ended: tuple[Ended, ...] = ()

    @property
    def key(self) -> str:
        return f"status {self.check}"


class SetFinalizers(msgspec.Struct, frozen=True, kw_only=True):
    """Hold on to a remediation of our own kind, or let it go, if it is still the version that was judged."""

    target: Target
    version: str
    finalizers: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"finalizers {self.target.uid}"


class ReportRemediation(msgspec.Struct, frozen=True, kw_only=True):
    """Merge into the status of a remediation of our own kind, if it is still the version that was judged."""

    target: Target
    version: str
    status: dict[str, Any]

    @property
    def key(self) -> str:
        return f"report {self.target.uid}"


class MovePod(msgspec.Struct, frozen=True, kw_only=True):
    """Read the node live and, while it is not ready, delete a pod of it, so that its controller makes another one."""

    node: str
    node_uid: str
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        return f"move {self.uid}"


class AddDefaultCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Create a NodeHealthCheck and the template that it names, where the cluster has no check at all."""

    template: TemplateRef
    template_body: dict[str, Any]
    check: str
    check_body: dict[str, Any]

    @property
    def key(self) -> str:
        return f"add {self.check}"


Action = (
    StartRemediation
    | EndRemediation
    | MarkRemediation
    | HoldLock
    | ReleaseLock
    | ClearNodeAnnotation
    | WriteStatus
    | TellEvent
    | SetFinalizers
    | ReportRemediation
    | MovePod
    | AddDefaultCheck
)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An action that did not work, how often in a row, and when it may be tried again.

    `check` and `node` are set where a remediation may have been started all the same: its answer was lost.
    """

    why: str
    times: int
    again_in: timedelta
    check: str = ""
    node: str = ""
