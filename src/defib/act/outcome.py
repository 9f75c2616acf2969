"""How an action can end. All but `Failed` are ordinary ends: the next pass looks at the world as it is then."""

import msgspec

from defib.model.agents import AgentsListed
from defib.model.evidence import Evidence
from defib.model.leftover import MembersSeen
from defib.model.meta import Resource
from defib.model.power import FenceCheck, Reading, Sent


class Done(msgspec.Struct, frozen=True):
    """It is as the action wanted it; `result` is the object as the API server has it now, where one is left."""

    result: Resource | None = None


class Stale(msgspec.Struct, frozen=True):
    """The world is no longer the one that was judged, so nothing was done."""

    why: str


class Held(msgspec.Struct, frozen=True):
    """Somebody else holds the lock of the node."""

    by: str


class Taken(msgspec.Struct, frozen=True):
    """The remediation that we wanted to create is there already, and is not ours."""

    by: str


class Withheld(msgspec.Struct, frozen=True):
    """The brake is on, or our mandate has ended."""

    why: str


class PowerRead(msgspec.Struct, frozen=True):
    """The power of a machine was asked after. `can_read`: this driver can tell at all."""

    reading: Reading
    can_read: bool = True


class PowerSwitched(msgspec.Struct, frozen=True):
    """A command was sent, and was accepted or may have been."""

    sent: Sent


class PowerChecked(msgspec.Struct, frozen=True):
    """The way to the power of a machine was tried."""

    check: FenceCheck


class ClaimRead(msgspec.Struct, frozen=True):
    """The access modes of a PersistentVolumeClaim; none when it is gone."""

    modes: frozenset[str]


class MembersRead(msgspec.Struct, frozen=True):
    """The Leases of replicas were looked at."""

    seen: MembersSeen


class AgentsHeard(msgspec.Struct, frozen=True):
    """The Leases of all agents were listed."""

    listed: AgentsListed


class EvidenceGathered(msgspec.Struct, frozen=True):
    """A silent node was asked after."""

    evidence: tuple[Evidence, ...]


class Failed(msgspec.Struct, frozen=True):
    """It did not work. `may_pass`: a lost answer or a busy server, where the very same may work a moment later."""

    why: str
    may_pass: bool = False
    retry_after_seconds: float = 0.0
    forbidden: bool = False


Outcome = (
    Done
    | Stale
    | Held
    | Taken
    | Withheld
    | PowerRead
    | PowerSwitched
    | PowerChecked
    | ClaimRead
    | MembersRead
    | AgentsHeard
    | EvidenceGathered
    | Failed
)
