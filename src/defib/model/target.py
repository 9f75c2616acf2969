"""What an action is about: one incarnation of one object, and the condition of a node that made it necessary."""

from datetime import datetime

import msgspec

from defib.model.health_check import KindRef

HEARTBEAT, MISSED = "Heartbeat", "Missed"  # as if it were a condition: two renewals or more are missing


class Because(msgspec.Struct, frozen=True):
    """The node condition that made a node unhealthy. Whoever acts on it looks whether it is still so.

    Of a missed heartbeat, `since` is when the node renewed it last, by its own clock, and `told` what was found out since.
    """

    type: str
    status: str
    since: datetime | None = None
    told: str = ""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation of one object."""

    kind: KindRef
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.namespace}/{self.name}" if self.namespace else f"{self.kind.name} {self.name}"
