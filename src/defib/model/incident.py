"""NodeIncident: what Defib writes down about one failing node before it depends on it. It outlives us.

It is named after its node, so there is one at a time. When it is closed it stays, until the node has another one.
"""

from datetime import datetime
from enum import StrEnum

import msgspec

from defib.model.health_check import KindRef, StatusCondition
from defib.model.meta import Resource, Wire
from defib.model.power import PowerPath
from defib.model.saved import Saved

API_VERSION = "defib.dev/v1alpha1"
INCIDENT = KindRef(API_VERSION, "NodeIncident")
INCIDENTS = "nodeincidents.defib.dev"
TIMELINE_MAX = 50


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


class IncidentSpec(Wire, frozen=True):
    node: str = ""
    cause: Cause = Cause()
    control_plane: bool = False  # a Node that is gone cannot tell any more
    confirmed_off: Confirmation | None = None


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


class IncidentStatus(Wire, frozen=True):
    phase: Phase = Phase.OPEN
    since: datetime | None = None  # when it came into this phase
    attempt: int = 1
    reason: str = ""
    message: str = ""
    outcome: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    power: PowerPath | None = None  # the way to its power when it began, should its cause be gone
    seen_on: PowerReading | None = None  # what is read follows the power: it was read as on, before we switched it off
    was_off: bool = False  # it was off before we asked
    command: Command | None = None
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
    def is_open(self) -> bool:
        return self.status.phase is not Phase.CLOSED

    @property
    def is_out(self) -> bool:
        """Whether something has been done to the machine, or is about to be."""
        return self.status.phase not in (Phase.OPEN, Phase.CLOSED)

    @property
    def may_need_it_off(self) -> bool:
        """Whether what it does next may rest on the machine being off. Once its workloads are free, it should be on."""
        on_its_way = (Phase.POWERING_ON, Phase.RETURNING, Phase.RESTORING, Phase.CANCELLING, Phase.CLOSED)
        is_freed = self.status.phase is Phase.NEEDS_PERSON and self.status.proof is not None
        return self.status.phase not in on_its_way and not is_freed
