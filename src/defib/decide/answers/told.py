"""What an answer about a node consists of: for people who read it as text, and for machines that read it as JSON."""

from datetime import datetime

import msgspec

from defib.model.incident import SafeTime


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what an answer consists of: also what a machine reads."""


class GateTold(Told, frozen=True, kw_only=True):
    name: str
    is_open: bool = msgspec.field(name="open")
    value: str
    limit: str
    message: str


class RemediationTold(Told, frozen=True, kw_only=True):
    kind: str
    namespace: str
    name: str
    owner: str  # the check that made it; empty when somebody else did
    template: str
    created: datetime | None
    succeeded: str
    is_deleting: bool = msgspec.field(name="deleting")
    because: str = ""  # of what the fast path began: who said what of the node, and when


class Recorded(Told, frozen=True, kw_only=True):
    """What the status of the check says, which is what its operator thought when it last wrote."""

    phase: str
    reason: str
    of_node: str
    updated: datetime | None


class Next(Told, frozen=True, kw_only=True):
    message: str
    at: datetime | None


class CheckTold(Told, frozen=True, kw_only=True):
    """One node under one check. Without a name, it stands for all checks together."""

    check: str
    mode: str
    state: str
    reason: str
    message: str
    since: datetime | None
    gates: tuple[GateTold, ...]
    status: Recorded | None
    remediations: tuple[RemediationTold, ...]
    next: Next
    no_fast_path: str = ""  # the check asks for a fast path, and it is not taken


class ConditionTold(Told, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


class LockTold(Told, frozen=True, kw_only=True):
    holder: str
    until: datetime | None


class EntryTold(Told, frozen=True, kw_only=True):
    at: datetime
    phase: str
    message: str
    kind: str = ""
    by: str = ""


class IncidentTold(Told, frozen=True, kw_only=True):
    """What is being done about its machine, or was last."""

    phase: str
    reason: str
    message: str
    attempt: int
    since: datetime | None
    outcome: str
    safe_time: SafeTime | None = None  # of a node that takes itself down
    proof: str  # its grade and how it came about; empty while there is none
    cause: str
    timeline: tuple[EntryTold, ...]


class FailoverTold(Told, frozen=True, kw_only=True):
    """What one object says of the pods of the node. `advice` is empty where nobody needs to do anything."""

    kind: str
    namespace: str
    name: str
    state: str
    reason: str  # of one that is held
    message: str
    advice: str = ""


class Answer(Told, frozen=True, kw_only=True):
    node: str
    exists: bool
    now: datetime
    ready: ConditionTold | None
    heartbeat: datetime | None
    is_cordoned: bool = msgspec.field(name="cordoned")
    lock: LockTold | None
    checks: tuple[CheckTold, ...]
    foreign: tuple[RemediationTold, ...]  # remediations that no check made
    unknown: tuple[str, ...]
    incident: IncidentTold | None = None
    accounts: tuple[str, ...] = ()  # its open incidents in which somebody else mends it, by name
    failover: tuple[FailoverTold, ...] = ()
    no_failover: tuple[str, ...] = ()  # of a node that is not ready: why nobody can have asked for its pods to leave
    basis: str = ""  # what it was worked out from
