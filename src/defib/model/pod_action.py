"""What is done about pods of failed nodes that may run twice."""

from datetime import datetime

import msgspec


class MovePod(msgspec.Struct, frozen=True, kw_only=True):
    """Read the node live and, while it is as bad as it was, delete a pod of it, so that another one is made elsewhere.

    Only for pods that may run twice, or of which `because` says who wants it so.
    """

    node: str
    node_uid: str
    namespace: str
    name: str
    uid: str
    because: str
    since: datetime | None  # when the node failed, if anybody knows
    grace_seconds: int | None = None  # None: as the pod says; 0: by force
    taints: tuple[str, ...] = ()  # for taints with these keys, of a node that is ready; else it must not be

    @property
    def key(self) -> str:
        return f"move {self.uid}"


class ReadClaim(msgspec.Struct, frozen=True):
    """Find out whether several pods may have a PersistentVolumeClaim at once. Changes nothing."""

    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"read claim {self.namespace}/{self.name}"
