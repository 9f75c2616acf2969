"""What is done about a drain that does not end. Each carries what must still be true when it is done."""

from typing import Any

import msgspec

from defib.model.target import Target


class OpenDrain(msgspec.Struct, frozen=True, kw_only=True):
    """Create the record of a drain. It is what remembers when the drain began."""

    node: str
    body: dict[str, Any]

    @property
    def key(self) -> str:
        return f"open drain {self.node}"


class DropDrain(msgspec.Struct, frozen=True, kw_only=True):
    """Delete the record of a drain that is over, if it is still the version that was judged."""

    node: str
    drain: Target
    version: str

    @property
    def key(self) -> str:
        return f"drop drain {self.drain.uid}"


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that is to leave a node, for a drain whose record says so. Node, record and pod are read live before."""

    drain: Target
    node: str
    node_uid: str
    taint: str  # the key of the taint by which the node is being drained; empty: it must be cordoned
    namespace: str
    name: str
    uid: str
    because: str  # who is told in the log of each step

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class EvictPod(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for the pod to leave. The API server decides about disruption budgets."""

    pod: Leaving

    @property
    def key(self) -> str:
        return f"evict {self.pod.uid}"


class DeletePod(msgspec.Struct, frozen=True, kw_only=True):
    """Delete it, past its disruption budgets. `grace_seconds` None: as it says itself; 1: its kubelet kills it; 0: by force."""

    pod: Leaving
    grace_seconds: int | None = None

    @property
    def key(self) -> str:
        return f"delete {self.pod.uid} {self.grace_seconds}"


class RemoveFinalizers(msgspec.Struct, frozen=True, kw_only=True):
    """Take these finalizers from a pod that is terminating, if it is still the version that was judged."""

    pod: Leaving
    version: str
    finalizers: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"finalizers of {self.pod.uid}"


PodStep = EvictPod | DeletePod | RemoveFinalizers
DrainAction = OpenDrain | DropDrain | PodStep

# What a failed eviction begins with when it was a disruption budget that refused it.
BLOCKED = "a disruption budget does not allow it"
# And when the API server had no time for it. That says nothing about the pod, however often it happens.
TOO_BUSY = "the API server is too busy to evict it"
