"""PodFailoverPolicy: by which the team of an application says that its pods shall leave a failed node at once."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from defib.model.health_check import KindRef, StatusCondition
from defib.model.incident import Grade
from defib.model.meta import Unstructured, Wire
from defib.model.pod_failover import API_VERSION, Wish
from defib.model.selector import EVERYTHING, Selector

POLICY = KindRef(API_VERSION, "PodFailoverPolicy")
MOST_NODES = 500  # of which a status tells, and so of which the pods are moved at once
NO_PROOF = "None"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One that makes sense."""

    wish: Wish
    nodes: Selector = EVERYTHING
    dwell: timedelta = timedelta()
    taints: tuple[str, ...] = ()  # keys of taints that count as a failure too; "*" is any


class State(StrEnum):
    """How it stands with the pods of one node."""

    HELD = "Held"
    MOVING = "Moving"
    FAILING = "DeletionFailed"  # some of them, and it is tried again
    WAITING = "WaitingForProof"
    MOVED = "Moved"


class FailedNode(Wire, frozen=True):
    """What a policy has done about one failure of one node. Written down before the first pod is deleted."""

    name: str
    state: State
    uid: str = ""
    not_ready_since: datetime | None = None
    taint: str = ""  # the key of the one for which it counts as failed although it is ready
    found: int = 0
    moved: int = 0
    waiting: int = 0
    kept: int = 0
    begun: bool = False  # the first pod may have been deleted: until it is ready or gone, it keeps its place
    reason: str = ""  # why it is held
    message: str = ""


class PolicyStatus(Wire, frozen=True):
    observed_generation: int = 0
    proofs: str = ""
    failed_nodes: int | None = None
    moved: int | None = None
    waiting: int | None = None
    nodes: list[FailedNode] | None = None
    conditions: list[StatusCondition] | None = None

    def condition(self, kind: str) -> StatusCondition | None:
        return next((condition for condition in self.conditions or () if condition.type == kind), None)


def read_policy_status(item: Unstructured) -> PolicyStatus:
    """A status that makes no sense counts as none: what is said of it will be said anew."""
    try:
        return msgspec.convert(item.status or {}, PolicyStatus)
    except msgspec.ValidationError:
        return PolicyStatus()


def say_proofs(accepts: frozenset[Grade]) -> str:
    """`A`, `A or B`, `A, B or D`; `None` where none is needed."""
    *others, last = sorted(accept.value for accept in accepts) or [NO_PROOF]
    return f"{', '.join(others)} or {last}" if others else last
