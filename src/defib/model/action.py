"""Everything that can be done to the cluster, and nothing else. Each carries what must still be true when it is done."""

from datetime import datetime
from typing import Any

import msgspec

from defib.model.account_action import AccountAction
from defib.model.agents import AgentAction
from defib.model.drain_action import DrainAction
from defib.model.event import CHECK as CHECK  # noqa: PLC0414  what most events are about
from defib.model.event import TellEvent as TellEvent  # noqa: PLC0414  one of all actions
from defib.model.evidence import GatherEvidence as GatherEvidence  # noqa: PLC0414  one of them
from defib.model.health_check import KindRef, TemplateRef
from defib.model.leftover import LeftoverAction
from defib.model.lock import Claim
from defib.model.machine_action import MachineAction
from defib.model.pod_action import MovePod as MovePod  # noqa: PLC0414  one of all actions
from defib.model.pod_action import ReadClaim as ReadClaim  # noqa: PLC0414  the same
from defib.model.power import PowerPath, PowerState
from defib.model.saved import Saved
from defib.model.target import Because as Because  # noqa: PLC0414  part of what an action says
from defib.model.target import Target as Target  # noqa: PLC0414  the same


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
    generation: int = 0  # of the check, which must still be that; 0 where nobody looks
    is_leftover: bool = False  # whoever made it is gone

    @property
    def key(self) -> str:
        return f"end {self.target.uid}"


class MarkRemediation(msgspec.Struct, frozen=True, kw_only=True):
    """Set annotations on a remediation, or on what asks for one; None takes one away."""

    node: str  # which it is about; empty where nobody can say
    target: Target
    annotations: dict[str, str | None]
    version: str = ""  # only if it is still this one

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
    holder: str = ""  # for whom it was held

    @property
    def key(self) -> str:
        return f"lock {self.node}"


class ClearNodeAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """Remove an annotation by which a person told us something that is settled now, if it still says the same."""

    node: str
    node_uid: str
    annotation: str
    value: str
    is_leftover: bool = False

    @property
    def key(self) -> str:
        return f"clear {self.annotation} of {self.node}"


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
    node: str = ""  # which it is about, if it is about one

    @property
    def key(self) -> str:
        return f"finalizers {self.target.uid}"


class ReportRemediation(msgspec.Struct, frozen=True, kw_only=True):
    """Merge into the status of a remediation or an incident, if it is still the version that was judged."""

    target: Target
    version: str
    status: dict[str, Any]
    tells: tuple[TellEvent, ...] = ()  # once it is written
    node: str = ""  # which it is about, if it is about one

    @property
    def key(self) -> str:
        return f"report {self.target.uid}"


class OpenIncident(msgspec.Struct, frozen=True, kw_only=True):
    """Create the record of a failing node, before anything is done to it. `instead_of` is a closed one in its place."""

    node: str
    body: dict[str, Any]
    instead_of: Target | None = None
    tells: tuple[TellEvent, ...] = ()  # once it is written

    @property
    def key(self) -> str:
        return f"open incident {self.node}"


class DropIncident(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the record of an incident that is closed."""

    incident: Target

    @property
    def key(self) -> str:
        return f"drop incident {self.incident.uid}"


class SwitchPower(msgspec.Struct, frozen=True, kw_only=True):
    """Write down in the incident what is about to be sent, if it is still the version that was judged; then send it.

    Before it goes off, `cause` and node are read live; `unless_ready`: a node that is well again is left alone.
    """

    incident: Target
    version: str
    node: str
    node_uid: str
    path: PowerPath
    power: PowerState
    attempt: int
    cause: Target
    unless_ready: bool = False
    silent_since: datetime | None = (
        None  # while its heartbeat is that old, it is not ready, whatever its conditions say
    )
    marker: str = ""  # an annotation that `cause` must still have
    after: datetime | None = None  # when the same was last sent, to no effect

    @property
    def key(self) -> str:
        return f"power {self.power.value.lower()} {self.node}"


class ReadPower(msgspec.Struct, frozen=True, kw_only=True):
    """Ask how the power is, once."""

    incident_uid: str
    node: str
    path: PowerPath
    after: datetime | None = None  # the reading that is known already

    @property
    def key(self) -> str:
        return f"read power {self.node}"


class CheckPower(msgspec.Struct, frozen=True, kw_only=True):
    """Find out whether the power of a machine could be switched, if it had to be. Changes nothing."""

    node: str
    path: PowerPath
    after: datetime | None = None  # when that was last tried

    @property
    def key(self) -> str:
        return f"check power {self.node}"


class TaintNode(msgspec.Struct, frozen=True, kw_only=True):
    """Tell Kubernetes that a machine is out of service. Only with a proof in the incident, which is read live."""

    incident: Target
    node: str
    node_uid: str

    @property
    def key(self) -> str:
        return f"taint {self.node}"


class UntaintNode(msgspec.Struct, frozen=True, kw_only=True):
    """Take our out-of-service taint away again."""

    node: str
    node_uid: str

    @property
    def key(self) -> str:
        return f"untaint {self.node}"


class DeleteNode(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the Node of a machine that is down, if it has nothing that was not saved. Only with a proof, as above."""

    incident: Target
    node: str
    node_uid: str
    saved: Saved

    @property
    def key(self) -> str:
        return f"delete node {self.node}"


class RestoreNode(msgspec.Struct, frozen=True, kw_only=True):
    """Give a Node that has come back what it had before; what it has got meanwhile stays."""

    node: str
    node_uid: str
    saved: Saved

    @property
    def key(self) -> str:
        return f"restore {self.node}"


class FreePod(msgspec.Struct, frozen=True, kw_only=True):
    """End a pod of a machine that is down: mark it as failed, and delete it without asking its kubelet."""

    incident: Target
    node: str
    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        return f"free {self.uid}"


class DeleteAttachment(msgspec.Struct, frozen=True, kw_only=True):
    """Have a volume detached from a machine that is down. Only with a proof, as above."""

    incident: Target
    node: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        return f"detach {self.uid}"


class DeleteMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Hand a machine that cannot be recovered to whoever replaces it: mark its host, then delete it."""

    incident: Target
    node: str
    machine: Target
    host: Target | None = None
    mark: tuple[str, str] = ("", "")  # the annotation by which the host is not used again

    @property
    def key(self) -> str:
        return f"delete machine {self.machine.uid}"


class AddDefaultCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Create a NodeHealthCheck and the template that it names, where the cluster has no check at all."""

    template: TemplateRef
    template_body: dict[str, Any]
    check: str
    check_body: dict[str, Any]

    @property
    def key(self) -> str:
        return f"add {self.check}"


PowerCycleAction = (
    OpenIncident
    | DropIncident
    | SwitchPower
    | ReadPower
    | CheckPower
    | TaintNode
    | UntaintNode
    | DeleteNode
    | RestoreNode
    | FreePod
    | DeleteAttachment
    | DeleteMachine
    | AgentAction
)

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
    | ReadClaim
    | PowerCycleAction
    | MachineAction
    | LeftoverAction
    | DrainAction
    | AccountAction
    | AddDefaultCheck
    | GatherEvidence
)
