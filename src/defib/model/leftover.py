"""What dead remediations and dead replicas leave behind, and how each is taken away. Only what carries our mark."""

from datetime import datetime

import msgspec

from defib.model.node import Lease
from defib.model.target import Target

MANAGED_BY, BY_US = (
    "app.kubernetes.io/managed-by",
    "defib",
)  # the label of every Lease that replicas make for themselves
MEMBER_PREFIX = "defib-member-"


class TakeTaintOff(msgspec.Struct, frozen=True, kw_only=True):
    """Put a node that is ready back into service, if the taint is the one that we set and no incident is open."""

    node: str
    node_uid: str

    @property
    def key(self) -> str:
        return f"take our taint off {self.node}"


class LetHostGo(msgspec.Struct, frozen=True, kw_only=True):
    """Take away what keeps a Metal3 host off, and our mark with it, if no incident is open that could want it so."""

    node: str  # for which it was kept off, or that runs on it; empty where nobody knows
    host: Target
    kept_off_by: str  # what the mark says: the annotation by which it is kept off

    @property
    def key(self) -> str:
        return f"let {self.host} go"


class DropMember(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the Lease by which a replica that is gone had told that it was there, in the version that we know."""

    namespace: str
    name: str
    uid: str
    version: str

    @property
    def key(self) -> str:
        return f"drop {self.name}"


class ReadMembers(msgspec.Struct, frozen=True, kw_only=True):
    """Look which Leases replicas have left. Changes nothing."""

    namespace: str
    after: datetime | None = None  # when that was last done

    @property
    def key(self) -> str:
        return f"read members in {self.namespace}"


LeftoverAction = TakeTaintOff | LetHostGo | DropMember | ReadMembers


class MembersSeen(msgspec.Struct, frozen=True):
    """The Leases of replicas, dead or alive, when they were last looked at."""

    at: datetime
    leases: tuple[Lease, ...] = ()
