"""NodeIncident: what Defib writes down about one failing node. It outlives us. There are two sorts of them.

The incident of a power cycle is written before anything depends on it. It is named after its node, so there is one at a
time. When it is closed it stays, until the node has another one.

Every other remediation that a NodeHealthCheck began has an account: what was seen, why it was admitted, what came of it.
Nothing ever depends on an account. It is named after its node and its remediation (`account_name`), so a node may have
several; the latest few stay when they are closed.
"""

import re
from datetime import datetime
from enum import StrEnum

import msgspec

from defib.model.health_check import KindRef, StatusCondition
from defib.model.meta import Resource, Wire
from defib.model.power import PowerPath, PowerState
from defib.model.saved import Saved

API_VERSION = "defib.dev/v1alpha1"
INCIDENT = KindRef(API_VERSION, "NodeIncident")
INCIDENTS = "nodeincidents.defib.dev"
TIMELINE_MAX = 50
EVIDENCE_MAX = 16
GATES_MAX = 32
MESSAGE_MAX = 1024  # of each sentence in evidence, gates and accounts
NAME_MAX = 253
US = "defib"  # as the author of an entry: whoever writes it down puts the name of the replica in its place
UID_SHOWN = 8  # characters of the remediation's UID in the name of its account

_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Phase(StrEnum):
    """What is being done about the machine. The transitions between them are one table, in decide/fencing/table.py."""

    OPEN = "Open"  # wanted, and nothing done yet
    LOOKING = "LookingAtPower"
    TESTING = "TestingPower"  # it was off before we asked: does what is read follow what is switched?
    POWERING_OFF = "PoweringOff"
    FREEING = "FreeingWorkloads"  # it is proved to be down
    POWERING_ON = "PoweringOn"
    RETURNING = "WaitingForNode"
    RESTORING = "Restoring"
    RESTING = "WaitingToRetry"
    CANCELLING = "Cancelling"
    REPLACING = "ReplacingMachine"
    NEEDS_PERSON = "NeedsPerson"
    CLOSED = "Closed"


class Grade(StrEnum):
    """What a proof that a machine is down is worth."""

    POWER = "A"  # its power was read as off, twice
    STORAGE = "B"  # it cannot reach the storage any more
    TIME = "C"  # it must be down by now, if everything works as it should
    PERSON = "D"  # somebody says so


class Outcome(StrEnum):
    RECOVERED = "Recovered"
    CANCELLED = "Cancelled"
    REPLACED = "Replaced"
    # Of accounts only:
    TIMED_OUT = "TimedOut"  # its remediation ran out of time, and is gone
    NODE_GONE = "NodeGone"  # its node was deleted meanwhile
    ENDED = "Ended"  # its remediation is gone while the node is ill: somebody took it away


class EntryKind(StrEnum):
    """What an entry of a timeline is about. Those that were written by an older version say nothing."""

    EVIDENCE = "evidence"
    GATE = "gate"
    DECISION = "decision"
    ACTION = "action"
    PROOF = "proof"
    END = "end"


class Cause(Wire, frozen=True):
    """The object that asked for it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Confirmation(Wire, frozen=True):
    """A person says that the machine is off."""

    by: str
    at: datetime


class GateSeen(Wire, frozen=True):
    """A gate as it stood at the decision."""

    name: str
    open: bool
    value: str = ""
    limit: str = ""
    message: str = ""


class IncidentSpec(Wire, frozen=True):
    """What was known when it was opened, which stays as it is; and what a person says of the machine later."""

    node: str = ""
    cause: Cause = Cause()
    control_plane: bool = False  # a Node that is gone cannot tell any more
    confirmed_off: Confirmation | None = None
    check: str = ""  # the NodeHealthCheck that began it
    mode: str = ""  # of that check
    approved_by: str = ""  # in mode Approve, where that is known
    by: str = ""  # the replica that wrote this
    template: str = ""  # from which the remediation was made
    unhealthy_since: datetime | None = None  # from when on the check calls the node unhealthy
    started: datetime | None = None  # when the remediation was created
    evidence: list[str] | None = None
    gates: list[GateSeen] | None = None


class PowerReading(Wire, frozen=True):
    state: str
    at: datetime
    detail: str = ""


class Proof(Wire, frozen=True):
    """Why the machine is believed to be down."""

    grade: Grade
    at: datetime
    how: str
    readings: list[PowerReading] | None = None
    by: str = ""


class Part(Wire, frozen=True):
    name: str
    seconds: float
    why: str = ""


class SafeTime(Wire, frozen=True):
    """After how long a node is dead that was ordered to take itself down: a sum, counted from when the order stood."""

    seconds: float
    parts: list[Part]

    def __str__(self) -> str:
        """As a person reads it: 24 s renewals + 12 s peers + ... = 71.2 s."""
        return f"{' + '.join(f'{part.seconds:.3g} s {part.name}' for part in self.parts)} = {self.seconds:.1f} s"


class Command(Wire, frozen=True):
    """What is about to be sent to the machine. Written before it is sent, by whoever may."""

    power: str
    at: datetime
    attempt: int
    token: str


class Entry(Wire, frozen=True):
    at: datetime
    phase: str
    message: str
    kind: str = ""  # one of EntryKind; empty in what an older version wrote
    by: str = ""  # who: a replica, a person, a remediator; empty where nobody knows


class IncidentStatus(Wire, frozen=True):
    phase: Phase = Phase.OPEN
    since: datetime | None = None  # when it came into this phase
    attempt: int = 1
    reason: str = ""
    message: str = ""
    outcome: str = ""
    closed_at: datetime | None = None
    seconds: float | None = None  # from when the node was unhealthy until it was over
    took: str = ""  # the same for people, such as 4m12s
    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    power: PowerPath | None = None  # the way to its power when it began, should its cause be gone
    seen_on: PowerReading | None = None  # what is read follows the power: it was read as on, before we switched it off
    was_off: bool = False  # it was off before we asked
    command: Command | None = None
    safe_time: SafeTime | None = None  # of a node that takes itself down
    proof: Proof | None = None
    machine: Cause | None = None  # what was handed over, to be replaced
    tainted: bool = False  # the out-of-service taint is ours to remove
    saved: Saved | None = None  # the Node was, or is about to be, deleted by us
    timeline: list[Entry] | None = None
    conditions: list[StatusCondition] | None = None


class NodeIncident(Resource, frozen=True):
    spec: IncidentSpec = IncidentSpec()
    status: IncidentStatus = IncidentStatus()

    @property
    def is_account(self) -> bool:
        """Whether it only tells of what others do. One of a power cycle bears the name of its node, or of its machine."""
        spec = self.spec
        return bool(spec.node) and self.name != spec.node and self.name == account_name(spec.node, spec.cause.uid)

    @property
    def opened(self) -> datetime | None:
        return self.metadata.creation_timestamp

    @property
    def is_open(self) -> bool:
        return self.status.phase is not Phase.CLOSED

    @property
    def is_out(self) -> bool:
        """Whether something has been done to the machine, or is about to be."""
        return self.status.phase not in (Phase.OPEN, Phase.CLOSED)

    @property
    def is_switched_off(self) -> bool:
        """Whether we have told the machine to go off, or are about to, and not to go on since."""
        command = self.status.command
        return self.is_out and command is not None and command.power == PowerState.OFF.value

    @property
    def may_need_it_off(self) -> bool:
        """Whether what it does next may rest on the machine being off. Once its workloads are free, it should be on."""
        on_its_way = (Phase.POWERING_ON, Phase.RETURNING, Phase.RESTORING, Phase.CANCELLING, Phase.CLOSED)
        is_freed = self.status.phase is Phase.NEEDS_PERSON and self.status.proof is not None
        return self.status.phase not in on_its_way and not is_freed


def account_name(node: str, uid: str) -> str:
    """Of the account of a remediation: the same for whoever writes it, so that there are never two."""
    shown = uid[:UID_SHOWN]
    return f"{node[: NAME_MAX - len(shown) - 1].rstrip('-.')}.{shown}"


def is_object_name(text: str) -> bool:
    """Whether the API server would let a node, or an incident, be called so."""
    return len(text) <= NAME_MAX and _OBJECT_NAME.fullmatch(text) is not None
