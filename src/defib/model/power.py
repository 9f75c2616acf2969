"""The power of a machine: the way to it, what was read of it, and whether it could be switched if it had to be."""

from datetime import datetime
from enum import Enum

import msgspec

from defib.model.meta import Wire

METAL3 = "metal3"  # the one way that leads through the API server: a BareMetalHost and its annotations

AGENT = "agent"  # no power at all: the node takes itself down, by order of ours

MANUAL = "manual"  # no way at all: a person switches the machine, and says so


class PowerState(Enum):
    """What was read. UNKNOWN is everything that is not clearly one of the others, and never good for a proof."""

    ON = "On"
    OFF = "Off"
    UNKNOWN = "Unknown"


class Reading(msgspec.Struct, frozen=True):
    """The power was so at `at` or later: it is the moment of the question, since nobody knows when it was looked up."""

    state: PowerState
    at: datetime
    detail: str = ""


class PowerPath(Wire, frozen=True):
    """How to reach the power of one machine. Of a Metal3 host, `address` is its namespace/name."""

    driver: str
    address: str = ""
    secret: str = ""  # namespace/name; read anew for every call, and never kept
    options: dict[str, str] | None = None


class Look(msgspec.Struct, frozen=True):
    """A reading, and the node's heartbeat as we knew it then: one that comes later contradicts an Off."""

    reading: Reading
    heartbeat: datetime | None = None
    path: PowerPath | None = None  # by which it was read


class Sent(msgspec.Struct, frozen=True):
    """A command that the other side has accepted, as far as we remember."""

    power: PowerState
    at: datetime
    path: PowerPath | None = None  # by which it was sent


class PowerSeen(msgspec.Struct, frozen=True):
    """What this process knows of the power of one machine, the latest look last. It is lost with the process."""

    looks: tuple[Look, ...] = ()
    sent: Sent | None = None
    can_read: bool = True


UNSEEN = PowerSeen()


class FenceCheck(msgspec.Struct, frozen=True):
    """Whether the power of a machine could be switched, if it had to be, when it was last tried."""

    path: PowerPath
    at: datetime
    why_not: str = ""  # empty: the credentials worked and the state could be read
    state: PowerState = PowerState.UNKNOWN
