"""An Event: what is told of an object, for whoever describes it."""

from datetime import datetime

import msgspec

from defib.model import medik8s
from defib.model.health_check import KindRef

CHECK = KindRef(medik8s.API_VERSION, medik8s.CHECK_KIND)
NODE = KindRef("v1", "Node")


class TellEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Say something once, about a NodeHealthCheck, an incident, a policy; the same news at the same moment is one event."""

    check: str  # the name of what it is about
    uid: str
    is_warning: bool
    reason: str
    message: str
    at: datetime
    kind: KindRef = CHECK
    namespace: str = ""  # of what it is about
    node: str = ""  # which it tells of, if it is one

    @property
    def key(self) -> str:
        return f"event {self.namespace}/{self.check} {self.reason} {self.message}"
